//! Handles: bounded, with deadlines, and refusing at once if the actor has ended.

use std::time::Duration;

use supervision::{ActorSettings, Handle, Unavailable};
use tokio::time::Instant;

use crate::world::{Do, Probe, TIME_LIMIT, TestKind, World, eventually, settings};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_handle_without_an_actor_refuses_at_once() {
    let handle = Handle::<Do>::new(TestKind("probe"), &settings());
    let start = Instant::now();
    let refusal = handle.ask(Do::Count, TIME_LIMIT).await.unwrap_err();
    assert!(matches!(refusal, Unavailable::NotRunning { .. }), "{refusal:?}");
    assert!(matches!(handle.send(Do::Panic), Err(Unavailable::NotRunning { .. })));
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn an_ask_ends_at_its_deadline_and_not_before() {
    let world = World::new();
    let handle = Handle::new(TestKind("probe"), &settings());
    let root = world.root(vec![Probe::new(&world).child(&handle)]).await;
    let start = Instant::now();
    assert_eq!(handle.ask(|reply| Do::Work(3 * SECOND, reply), 2 * SECOND).await, Err(Unavailable::TimedOut));
    assert_eq!(start.elapsed(), 2 * SECOND);
    assert_eq!(handle.ask(|reply| Do::Work(3 * SECOND, reply), TIME_LIMIT).await, Ok(()));
    assert_eq!(start.elapsed(), 6 * SECOND);
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_for_an_actor_that_crashes_learn_it_at_once() {
    let world = World::new();
    let handle = Handle::new(TestKind("probe"), &settings());
    let root = world.root(vec![Probe::new(&world).child(&handle)]).await;
    let start = Instant::now();
    let (culprit, behind, after) =
        tokio::join!(handle.ask(Do::Panic, TIME_LIMIT), handle.ask(Do::Count, TIME_LIMIT), async {
            eventually("the actor is down", || handle.send(Do::Keep).is_err()).await;
            handle.ask(Do::Count, TIME_LIMIT).await
        });
    assert_eq!(culprit, Err(Unavailable::Crashed));
    assert_eq!(behind, Err(Unavailable::Crashed));
    let Err(Unavailable::NotRunning { retry_after }) = after else { panic!("{after:?}") };
    assert!(retry_after <= settings().restart.backoff_min);
    assert!(start.elapsed() < settings().restart.backoff_min, "no caller waited for the restart");
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_at_once_and_counts_messages_whose_senders_left() {
    let world = World::new();
    let handle = Handle::new(TestKind("probe"), &ActorSettings { queue_max: 2, ..settings() });
    let root = world.root(vec![Probe::new(&world).child(&handle)]).await;
    let start = Instant::now();
    let work = |reply| Do::Work(10 * SECOND, reply);
    assert_eq!(handle.ask(work, SECOND).await, Err(Unavailable::TimedOut));
    assert_eq!(handle.ask(work, SECOND).await, Err(Unavailable::TimedOut));
    assert_eq!(handle.ask(work, TIME_LIMIT).await, Err(Unavailable::Overloaded));
    assert_eq!(handle.send(work), Err(Unavailable::Overloaded));
    assert_eq!(start.elapsed(), 2 * SECOND);
    tokio::time::advance(8 * SECOND).await;
    eventually("the first message is done and its place free", || handle.send(Do::Count).is_ok()).await;
    world.end(root).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_of_one_serves_one_caller_after_the_other_without_refusals() {
    let world = World::new();
    let handle = Handle::new(TestKind("probe"), &ActorSettings { queue_max: 1, ..settings() });
    let root = world.root(vec![Probe::new(&world).child(&handle)]).await;
    for _ in 0..10_000 {
        assert_eq!(handle.ask(Do::Count, TIME_LIMIT).await, Ok(1));
    }
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn a_stuck_actor_is_replaced() {
    let world = World::new();
    let handle = Handle::new(TestKind("probe"), &ActorSettings { stuck_after: 30 * SECOND, ..settings() });
    let root = world.root(vec![Probe::new(&world).child(&handle)]).await;
    assert_eq!(handle.ask(Do::Hang, 20 * SECOND).await, Err(Unavailable::TimedOut));
    assert_eq!(handle.ask(Do::Count, 9 * SECOND).await, Err(Unavailable::TimedOut), "29 s: not stuck yet");
    assert_eq!(handle.ask(Do::Count, 9 * SECOND).await, Err(Unavailable::TimedOut), "38 s: stuck");
    tokio::time::sleep(SECOND).await;
    assert_eq!(handle.ask(Do::Count, SECOND).await, Ok(2));
    let tree = root.tree(SECOND).await.unwrap();
    assert_eq!(tree.children[0].failures[0].error, "killed");
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn an_actor_is_not_stuck_because_the_process_was_stopped() {
    let world = World::new();
    let handle = Handle::new(TestKind("probe"), &ActorSettings { stuck_after: 30 * SECOND, ..settings() });
    let root = world.root(vec![Probe::new(&world).child(&handle)]).await;
    let request = async { handle.ask(|reply| Do::Work(5 * SECOND, reply), 20 * SECOND).await };
    let stopped = async {
        tokio::time::sleep(SECOND / 2).await;
        // The clock jumps, as it does for a process that is stopped and continued.
        tokio::time::advance(60 * SECOND).await;
    };
    drop(tokio::join!(request, stopped));
    assert_eq!(handle.ask(Do::Count, SECOND).await, Ok(1), "the same actor answers");
    let tree = root.tree(SECOND).await.unwrap();
    assert!(tree.children[0].failures.is_empty(), "{tree:?}");
    // Time that passes while the process runs counts.
    assert_eq!(handle.ask(Do::Hang, 20 * SECOND).await, Err(Unavailable::TimedOut));
    assert_eq!(handle.ask(Do::Count, 20 * SECOND).await, Err(Unavailable::TimedOut));
    tokio::time::sleep(SECOND).await;
    assert!(handle.ask(Do::Count, SECOND).await.is_ok(), "another actor answers");
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn a_stuck_actor_is_replaced_even_if_its_full_queue_lets_no_request_time_out() {
    let world = World::new();
    let handle =
        Handle::new(TestKind("probe"), &ActorSettings { stuck_after: 30 * SECOND, queue_max: 1, ..settings() });
    let root = world.root(vec![Probe::new(&world).child(&handle)]).await;
    handle.send(Do::Hang).unwrap();
    tokio::time::sleep(29 * SECOND).await;
    assert_eq!(handle.ask(Do::Count, SECOND).await, Err(Unavailable::Overloaded));
    tokio::time::sleep(SECOND).await;
    assert_eq!(handle.ask(Do::Count, SECOND).await, Err(Unavailable::Overloaded));
    tokio::time::sleep(SECOND).await;
    assert_eq!(handle.ask(Do::Count, SECOND).await, Ok(2));
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_actor_that_makes_progress_is_not_stuck() {
    let world = World::new();
    let handle = Handle::new(TestKind("probe"), &ActorSettings { stuck_after: 30 * SECOND, ..settings() });
    let root = world.root(vec![Probe::new(&world).child(&handle)]).await;
    for _ in 0..10 {
        handle.send(|reply| Do::Work(20 * SECOND, reply)).unwrap();
    }
    for _ in 0..19 {
        assert_eq!(handle.ask(Do::Count, 10 * SECOND).await, Err(Unavailable::TimedOut));
    }
    assert_eq!(handle.ask(Do::Count, 11 * SECOND).await, Ok(1), "the same actor as before");
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_was_idle_for_long_is_not_stuck_when_its_first_caller_gives_up() {
    let world = World::new();
    let handle = Handle::new(TestKind("probe"), &ActorSettings { stuck_after: 30 * SECOND, ..settings() });
    let root = world.root(vec![Probe::new(&world).child(&handle)]).await;
    tokio::time::sleep(TIME_LIMIT).await;
    assert_eq!(handle.ask(|reply| Do::Work(2 * SECOND, reply), SECOND).await, Err(Unavailable::TimedOut));
    assert_eq!(handle.ask(Do::Count, 5 * SECOND).await, Ok(1));
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn parked_replies_neither_fill_the_queue_nor_look_stuck() {
    let world = World::new();
    let handle = Handle::new(TestKind("probe"), &ActorSettings { queue_max: 1, ..settings() });
    let root = world.root(vec![Probe::new(&world).child(&handle)]).await;
    for _ in 0..5 {
        assert_eq!(handle.ask(Do::Keep, 60 * SECOND).await, Err(Unavailable::TimedOut));
    }
    assert_eq!(handle.ask(Do::Count, SECOND).await, Ok(1));
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn the_tree_shows_how_long_waiting_messages_have_not_moved() {
    let world = World::new();
    let handle = Handle::new(TestKind("probe"), &settings());
    let root = world.root(vec![Probe::new(&world).child(&handle)]).await;
    let unmoved = async || root.tree(SECOND).await.unwrap().children[0].unmoved_ms;
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(unmoved().await, None, "none waits");
    for _ in 0..2 {
        handle.send(|reply| Do::Work(4 * SECOND, reply)).unwrap();
    }
    tokio::time::sleep(3 * SECOND).await;
    assert_eq!(unmoved().await, Some(3000));
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(unmoved().await, Some(1000), "the first was finished a second ago");
    tokio::time::sleep(5 * SECOND).await;
    assert_eq!(unmoved().await, None);
    world.end(root).await;
}
