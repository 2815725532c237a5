//! The root restarts its children within their budgets.

use std::sync::atomic::Ordering;
use std::time::Duration;

use supervision::root::{NotReplaced, Role, Status};
use supervision::{ActorSettings, ChildSpec, Handle, RestartSettings, Root, RootSettings, TreeExit, Unavailable};
use tokio::time::Instant;

use crate::world::{Do, Probe, TIME_LIMIT, TestKind, World, eventually, jitter, settings};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_crashed_child_is_restarted_after_its_delay_and_its_handle_points_to_the_new_actor() {
    for crash in [Do::Panic, Do::Fail, Do::Stop] {
        let world = World::new();
        let handle = Handle::new(TestKind("probe"), &settings());
        let root = world.root(vec![Probe::new(&world).child(&handle)]).await;
        let old_friend = handle.clone();
        assert_eq!(old_friend.ask(Do::Count, SECOND).await, Ok(1));
        let start = Instant::now();
        assert_eq!(handle.ask(crash, TIME_LIMIT).await, Err(Unavailable::Crashed));
        while handle.ask(Do::Count, SECOND).await.is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let down = start.elapsed();
        let delay = settings().restart.backoff_min;
        assert!(delay <= down && down <= delay + Duration::from_millis(5), "down for {down:?}");
        assert_eq!(old_friend.ask(Do::Count, SECOND).await, Ok(2));
        world.end(root).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_storm_gives_up_exactly_at_the_budget() {
    let world = World::new();
    let (quiet, stormy) = (Handle::new(TestKind("quiet"), &settings()), Handle::new(TestKind("stormy"), &settings()));
    let storm = Probe::new(&world);
    let root = world.root(vec![Probe::new(&world).child(&quiet), storm.child(&stormy)]).await;
    for incarnation in 1..=4 {
        eventually("it is up", || storm.starts() == incarnation).await;
        eventually("it accepts a message", || stormy.send(Do::Panic).is_ok()).await;
    }
    assert_eq!(root.outcome().await, TreeExit::GaveUp { child: "stormy".to_owned() });
    assert_eq!(storm.starts(), 4, "one start and three restarts");
    assert_eq!(quiet.ask(Do::Count, SECOND).await, Err(Unavailable::Draining));
    world.deserted().await;
}

#[tokio::test(start_paused = true)]
async fn crashes_far_enough_apart_never_use_up_the_budget() {
    let world = World::new();
    let handle = Handle::new(TestKind("probe"), &settings());
    let probe = Probe::new(&world);
    let root = world.root(vec![probe.child(&handle)]).await;
    for restarts in 1..=20 {
        handle.send(Do::Panic).unwrap();
        tokio::time::sleep(20 * SECOND + settings().restart.backoff_max).await;
        assert_eq!(handle.ask(Do::Count, SECOND).await, Ok(restarts + 1));
    }
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn siblings_of_a_crashing_child_are_unaffected() {
    let world = World::new();
    let handles = ["first", "second", "third"].map(|kind| Handle::new(TestKind(kind), &settings()));
    let root = world.root(handles.iter().map(|handle| Probe::new(&world).child(handle)).collect()).await;
    let work = |handle: &Handle<Do>| {
        let handle = handle.clone();
        async move { handle.ask(|reply| Do::Work(SECOND, reply), TIME_LIMIT).await }
    };
    let (first, second, third) =
        tokio::join!(work(&handles[0]), handles[1].ask(Do::Panic, TIME_LIMIT), work(&handles[2]));
    assert_eq!((first, second, third), (Ok(()), Err(Unavailable::Crashed), Ok(())));
    assert_eq!(handles[0].ask(Do::Count, SECOND).await, Ok(1));
    assert_eq!(handles[2].ask(Do::Count, SECOND).await, Ok(1));
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn a_start_that_fails_counts_as_a_failure() {
    let world = World::new();
    let handle = Handle::new(TestKind("probe"), &settings());
    let probe = Probe::new(&world);
    probe.sick.store(true, Ordering::SeqCst);
    let root = Root::start(RootSettings::default(), jitter(), vec![probe.child(&handle)]).await.unwrap();
    assert_eq!(root.up().await, Err(TreeExit::GaveUp { child: "probe".to_owned() }));
    assert_eq!(probe.starts(), 4);
    world.deserted().await;
}

#[tokio::test(start_paused = true)]
async fn a_child_that_heals_in_time_comes_up_and_those_below_it_only_then() {
    let world = World::new();
    let (above, below) = (Handle::new(TestKind("above"), &settings()), Handle::new(TestKind("below"), &settings()));
    let (sick, waiting) = (Probe::new(&world), Probe::new(&world));
    sick.sick.store(true, Ordering::SeqCst);
    let children = vec![sick.child(&above), waiting.child(&below)];
    let root = Root::start(RootSettings::default(), jitter(), children).await.unwrap();
    eventually("it was tried twice", || sick.starts() == 2).await;
    assert_eq!(waiting.starts(), 0);
    sick.sick.store(false, Ordering::SeqCst);
    assert_eq!(root.up().await, Ok(()));
    assert_eq!((sick.starts(), waiting.starts()), (3, 1));
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn a_start_that_hangs_fails_at_its_deadline() {
    let world = World::new();
    let handle = Handle::<Do>::new(TestKind("probe"), &settings());
    let hanging = ChildSpec::started_by(Role::Singleton, &handle, |_root| std::future::pending());
    let root = Root::start(RootSettings::default(), jitter(), vec![hanging]).await.unwrap();
    let start = Instant::now();
    assert_eq!(root.up().await, Err(TreeExit::GaveUp { child: "probe".to_owned() }));
    assert!(start.elapsed() >= RootSettings::default().start_deadline * 4);
    world.deserted().await;
}

#[tokio::test(start_paused = true)]
async fn a_start_that_panics_fails() {
    let world = World::new();
    let handle = Handle::<Do>::new(TestKind("probe"), &settings());
    let panicking = ChildSpec::started_by(Role::Singleton, &handle, |_root| async { panic!("told to panic") });
    let root = Root::start(RootSettings::default(), jitter(), vec![panicking]).await.unwrap();
    assert_eq!(root.up().await, Err(TreeExit::GaveUp { child: "probe".to_owned() }));
    world.deserted().await;
}

#[tokio::test(start_paused = true)]
async fn the_tree_shows_who_lives_and_what_happened() {
    let world = World::new();
    let handle = Handle::new(TestKind("probe"), &settings());
    let root = world.root(vec![Probe::new(&world).child(&handle).named("the probe")]).await;
    handle.send(Do::Fail).unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let tree = root.tree(SECOND).await.unwrap();
    assert_eq!((tree.status, tree.live), (Status::Running, 0));
    assert_eq!((tree.children[0].status, tree.children[0].restarts_in_ms), (Status::Waiting, Some(50)));
    tokio::time::sleep(10 * SECOND).await;
    handle.send(Do::Hang).unwrap();
    let tree = root.tree(SECOND).await.unwrap();
    let expected = serde_json::json!({
        "name": "root", "kind": "root", "role": "root", "status": "running",
        "restarts": 1, "live": 1, "queued": 1, "quarantined": 0,
        "children": [{
            "name": "the probe", "kind": "probe", "role": "singleton", "status": "running",
            "restarts": 1, "budget": {"restarts_left": 2, "more_in_ms": 50_050},
            "failures": [{"error": "told to fail", "seconds_ago": 10}],
            "live": 1, "queued": 1, "quarantined": 0, "unmoved_ms": 0, "oldest_ms": 0,
            "times": {
                "handled_per_minute": 5, "wait_p50_us": 0, "wait_p99_us": 0, "handler_p50_us": 0, "handler_p99_us": 0,
                "deepest_queue": 1,
            },
        }],
    });
    assert_eq!(serde_json::to_value(tree).unwrap(), expected);
    root.kill_now();
    assert_eq!(root.outcome().await, TreeExit::Killed);
    world.deserted().await;
}

#[tokio::test(start_paused = true)]
async fn without_a_budget_the_first_crash_ends_everything() {
    let world = World::new();
    let restart = RestartSettings { restarts_max: 0, ..RestartSettings::default() };
    let handle = Handle::new(TestKind("probe"), &ActorSettings { restart, ..ActorSettings::default() });
    let root = world.root(vec![Probe::new(&world).child(&handle)]).await;
    handle.send(Do::Panic).unwrap();
    assert_eq!(root.outcome().await, TreeExit::GaveUp { child: "probe".to_owned() });
    world.deserted().await;
}

/// Waits until the child has been started this often and answers.
async fn started(handle: &Handle<Do>, starts: usize) {
    let answers = async || {
        while handle.ask(Do::Count, SECOND).await != Ok(starts) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(10 * SECOND, answers()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_operator_replaces_an_actor_after_its_messages_and_the_budget_stays_whole() {
    let world = World::new();
    let handle = Handle::new(TestKind("probe"), &settings());
    let root = world.root(vec![Probe::new(&world).child(&handle)]).await;
    let replace = async |kill| root.replace("probe", kill, SECOND).await.unwrap();
    for replaced in 1..=10 {
        let friend = handle.clone();
        let accepted = tokio::spawn(async move { friend.ask(|reply| Do::Work(SECOND, reply), TIME_LIMIT).await });
        eventually("it works", || handle.send(Do::Count).is_ok()).await;
        assert_eq!(replace(false).await, Ok(()));
        let refused = handle.ask(Do::Count, SECOND).await.unwrap_err();
        assert!(matches!(refused, Unavailable::NotRunning { .. }), "{refused:?}");
        assert_eq!(accepted.await.unwrap(), Ok(()), "an accepted message is handled");
        started(&handle, replaced + 1).await;
    }
    let tree = root.tree(SECOND).await.unwrap();
    let child = &tree.children[0];
    assert_eq!((child.restarts, child.failures.len()), (10, 0));
    assert_eq!(child.budget.unwrap().restarts_left, settings().restart.restarts_max);
    assert_eq!(root.replace("nobody", false, SECOND).await, Ok(Err(NotReplaced::Unknown)));
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn an_operator_kills_an_actor_that_does_not_end_and_skips_a_delay() {
    let slow = RestartSettings { backoff_min: TIME_LIMIT, backoff_max: TIME_LIMIT, ..settings().restart };
    let world = World::new();
    let handle = Handle::new(TestKind("probe"), &ActorSettings { restart: slow, ..settings() });
    let root = world.root(vec![Probe::new(&world).child(&handle)]).await;
    let replace = async |kill| root.replace("probe", kill, SECOND).await.unwrap();
    handle.send(Do::Hang).unwrap();
    assert_eq!(replace(false).await, Ok(()));
    tokio::time::sleep(SECOND).await;
    assert_eq!(root.tree(SECOND).await.unwrap().children[0].status, Status::Stopping);
    assert_eq!(replace(true).await, Ok(()));
    started(&handle, 2).await;
    // It waits for an hour after a crash, unless an operator starts it. The end of that hour then concerns no later crash.
    handle.send(Do::Panic).unwrap();
    tokio::time::sleep(SECOND).await;
    assert_eq!(root.tree(SECOND).await.unwrap().children[0].status, Status::Waiting);
    assert_eq!(replace(false).await, Ok(()));
    started(&handle, 3).await;
    tokio::time::sleep(TIME_LIMIT / 2).await;
    handle.send(Do::Panic).unwrap();
    tokio::time::sleep(TIME_LIMIT / 2 + SECOND).await;
    assert_eq!(root.tree(SECOND).await.unwrap().children[0].status, Status::Waiting);
    // An actor that is being replaced ends with the tree.
    tokio::time::sleep(TIME_LIMIT).await;
    started(&handle, 4).await;
    assert_eq!(replace(false).await, Ok(()));
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn a_replaced_actor_leaves_its_siblings_alone() {
    let world = World::new();
    let (above, below) = (Handle::new(TestKind("above"), &settings()), Handle::new(TestKind("below"), &settings()));
    let (first, second) = (Probe::new(&world), Probe::new(&world));
    let root = world.root(vec![first.child(&above), second.child(&below)]).await;
    assert_eq!(root.replace("below", true, SECOND).await, Ok(Ok(())));
    started(&below, 2).await;
    assert_eq!(first.starts(), 1, "its siblings run on");
    world.end(root).await;
}
