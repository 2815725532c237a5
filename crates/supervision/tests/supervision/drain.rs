//! Draining: soft until the deadline, hard after it.

use std::time::Duration;

use supervision::root::{Role, Status};
use supervision::{ChildSpec, Handle, Root, RootSettings, TreeExit, Unavailable};
use tokio::time::Instant;

use crate::world::{Do, Probe, TIME_LIMIT, TestKind, World, eventually, jitter, settings};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn draining_refuses_new_work_and_finishes_accepted_work() {
    let world = World::new();
    let handle = Handle::new(TestKind("probe"), &settings());
    let root = world.root(vec![Probe::new(&world).child(&handle)]).await;
    let work = |reply| Do::Work(2 * SECOND, reply);
    let start = Instant::now();
    let (first, second, outcome, refused) = tokio::join!(
        handle.ask(work, TIME_LIMIT),
        handle.ask(work, TIME_LIMIT),
        async {
            tokio::time::sleep(SECOND).await;
            root.drain(10 * SECOND).await
        },
        async {
            tokio::time::sleep(SECOND * 3 / 2).await;
            handle.ask(Do::Count, TIME_LIMIT).await
        }
    );
    assert_eq!((first, second, outcome), (Ok(()), Ok(()), TreeExit::Drained));
    assert_eq!(refused, Err(Unavailable::Draining));
    assert_eq!(start.elapsed(), 4 * SECOND);
    world.deserted().await;
}

#[tokio::test(start_paused = true)]
async fn draining_waits_for_its_deadline_and_then_kills() {
    let world = World::new();
    let handle = Handle::new(TestKind("probe"), &settings());
    let root = world.root(vec![Probe::new(&world).child(&handle)]).await;
    let start = Instant::now();
    let (hung, outcome) = tokio::join!(handle.ask(Do::Hang, TIME_LIMIT), root.drain(10 * SECOND));
    assert_eq!((hung, outcome), (Err(Unavailable::Draining), TreeExit::DeadlineHit));
    assert_eq!(start.elapsed(), 10 * SECOND);
    world.deserted().await;
}

#[tokio::test(start_paused = true)]
async fn a_second_signal_kills_at_once() {
    let world = World::new();
    let handle = Handle::new(TestKind("probe"), &settings());
    let root = world.root(vec![Probe::new(&world).child(&handle)]).await;
    let start = Instant::now();
    handle.send(Do::Hang).unwrap();
    let (outcome, ()) = tokio::join!(root.drain(10 * SECOND), async {
        tokio::time::sleep(SECOND).await;
        root.kill_now();
    });
    assert_eq!(outcome, TreeExit::Killed);
    assert_eq!(start.elapsed(), SECOND);
    world.deserted().await;
}

#[tokio::test(start_paused = true)]
async fn children_end_from_the_bottom_to_the_top_one_after_the_other() {
    let world = World::new();
    let (top, bottom) = (Handle::new(TestKind("top"), &settings()), Handle::new(TestKind("bottom"), &settings()));
    let mut slow = Probe::new(&world);
    slow.slow_end = 2 * SECOND;
    let root = world.root(vec![slow.child(&top), slow.child(&bottom)]).await;
    let start = Instant::now();
    let observer = async {
        let mut alive = Vec::new();
        for _ in 0..3 {
            tokio::time::sleep(SECOND * 3 / 2).await;
            let tree = root.tree(SECOND).await;
            alive.push((world.alive(), tree.map(|tree| tree.children[0].status).ok()));
        }
        alive
    };
    let (outcome, alive) = tokio::join!(root.drain(10 * SECOND), observer);
    assert_eq!(outcome, TreeExit::Drained);
    assert_eq!(start.elapsed(), SECOND * 9 / 2);
    assert_eq!(alive, [(2, Some(Status::Running)), (1, Some(Status::Stopping)), (0, None)]);
    world.deserted().await;
}

#[tokio::test(start_paused = true)]
async fn a_child_that_waits_for_its_restart_is_not_started_again() {
    let world = World::new();
    let handle = Handle::new(TestKind("probe"), &settings());
    let probe = Probe::new(&world);
    let root = world.root(vec![probe.child(&handle)]).await;
    assert_eq!(handle.ask(Do::Panic, TIME_LIMIT).await, Err(Unavailable::Crashed));
    assert_eq!(root.drain(10 * SECOND).await, TreeExit::Drained);
    tokio::time::sleep(TIME_LIMIT).await;
    assert_eq!(probe.starts(), 1);
    world.deserted().await;
}

#[tokio::test(start_paused = true)]
async fn a_root_that_is_still_starting_can_be_drained() {
    let world = World::new();
    let (up, hanging) = (Handle::new(TestKind("up"), &settings()), Handle::<Do>::new(TestKind("hanging"), &settings()));
    let never = ChildSpec::started_by(Role::Singleton, &hanging, |_| std::future::pending());
    let probe = Probe::new(&world);
    let children = vec![probe.child(&up), never];
    let root = Root::start(RootSettings::default(), jitter(), children).await.unwrap();
    eventually("the first is up", || probe.starts() == 1).await;
    let (outcome, risen) = tokio::join!(root.drain(10 * SECOND), root.up());
    assert_eq!((outcome, risen), (TreeExit::Drained, Err(TreeExit::Drained)));
    world.deserted().await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_while_draining_does_not_hold_up_the_end() {
    let world = World::new();
    let handle = Handle::new(TestKind("probe"), &settings());
    let root = world.root(vec![Probe::new(&world).child(&handle)]).await;
    handle.send(|reply| Do::Work(SECOND, reply)).unwrap();
    handle.send(Do::Panic).unwrap();
    assert_eq!(root.drain(10 * SECOND).await, TreeExit::Drained);
    world.deserted().await;
}
