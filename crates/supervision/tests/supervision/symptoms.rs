//! The rows of `docs/tuning.md`: each symptom, and its end once the setting was changed while the actors run.

use std::time::Duration;

use supervision::directory::KeyControl as _;
use supervision::root::Status;
use supervision::{ActorSettings, AskError, Handle, RestartSettings, Root, TreeExit, Unavailable};
use tokio::time::Instant;

use crate::crowd::{Bank, Change, crash_quietly};
use crate::world::{Do, Probe, TestKind, World, settings};

const SECOND: Duration = Duration::from_secs(1);
const CRASHED: AskError<&str> = AskError::Unavailable(Unavailable::Crashed);

async fn probe(world: &World, settings: &ActorSettings) -> (Handle<Do>, Root) {
    let handle = Handle::new(TestKind("probe"), settings);
    let root = world.root(vec![Probe::new(world).child(&handle)]).await;
    (handle, root)
}

async fn retune(root: &Root, kind: &'static str, settings: ActorSettings) {
    assert_eq!(root.retune(TestKind(kind), settings, SECOND).await, Ok(1));
}

fn restart(change: impl FnOnce(&mut RestartSettings)) -> ActorSettings {
    let mut restart = settings().restart;
    change(&mut restart);
    ActorSettings { restart, ..settings() }
}

/// Ten senders at once, and the number that was refused as `overloaded`.
async fn burst(handle: &Handle<Do>) -> usize {
    let senders = (0..10).map(|_| handle.ask(|reply| Do::Work(Duration::from_millis(100), reply), 30 * SECOND));
    let answers = futures_util::future::join_all(senders).await;
    answers.iter().filter(|answer| **answer == Err(Unavailable::Overloaded)).count()
}

#[tokio::test(start_paused = true)]
async fn a_burst_is_overloaded_until_the_queue_is_longer() {
    let world = World::new();
    let (handle, root) = probe(&world, &ActorSettings { queue_max: 4, ..settings() }).await;
    assert_eq!(burst(&handle).await, 6, "424 overloaded, and the processor idles");
    let peak = root.tree(SECOND).await.unwrap().children[0].times.unwrap().deepest_queue;
    retune(&root, "probe", ActorSettings { queue_max: 10, ..settings() }).await;
    assert_eq!((peak, burst(&handle).await), (4, 0));
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn long_work_times_out_until_its_deadline_is_longer() {
    let world = World::new();
    let (handle, root) = probe(&world, &ActorSettings { ask_deadline: 2 * SECOND, ..settings() }).await;
    let work = async || handle.ask(|reply| Do::Work(3 * SECOND, reply), handle.ask_deadline()).await;
    assert_eq!(work().await, Err(Unavailable::TimedOut));
    retune(&root, "probe", ActorSettings { ask_deadline: 8 * SECOND, ..settings() }).await;
    assert_eq!(work().await, Ok(()));
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn idle_actors_stay_in_memory_until_their_idle_time_is_shorter() {
    let world = World::new();
    let (bank, child) = Bank::new(&world, 0..9, &ActorSettings { idle_after: 3_600 * SECOND, ..settings() });
    let root = world.root(vec![child]).await;
    for key in 0..9 {
        bank.ask(key, Change::Add).await.unwrap();
    }
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(bank.tellers.live(), 9);
    retune(&root, bank.tellers.kind(), ActorSettings { idle_after: 10 * SECOND, ..settings() }).await;
    tokio::time::sleep(3 * SECOND).await;
    assert_eq!(bank.tellers.live(), 0);
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn polled_actors_start_again_and_again_until_their_idle_time_is_longer() {
    let world = World::new();
    let (bank, child) = Bank::new(&world, 0..1, &ActorSettings { idle_after: 2 * SECOND, ..settings() });
    let root = world.root(vec![child]).await;
    let polls = async || {
        let before = bank.starts();
        for _ in 0..5 {
            bank.ask(0, Change::Add).await.unwrap();
            tokio::time::sleep(10 * SECOND).await;
        }
        bank.starts() - before
    };
    assert_eq!(polls().await, 5, "each poll reads the row again");
    retune(&root, bank.tellers.kind(), ActorSettings { idle_after: 30 * SECOND, ..settings() }).await;
    assert_eq!(polls().await, 1);
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn new_keys_are_refused_until_more_actors_may_live() {
    let world = World::new();
    let (bank, child) = Bank::new(&world, 0..9, &ActorSettings { live_max: 3, ..settings() });
    let root = world.root(vec![child]).await;
    let mut refused = 0;
    for key in 0..9 {
        refused += usize::from(bank.ask(key, Change::Add).await.is_err());
    }
    assert_eq!((refused, bank.tellers.live()), (6, 3));
    retune(&root, bank.tellers.kind(), ActorSettings { live_max: 9, ..settings() }).await;
    for key in 0..9 {
        bank.ask(key, Change::Add).await.unwrap();
    }
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn long_work_is_killed_until_an_actor_is_stuck_later() {
    let world = World::new();
    let (handle, root) = probe(&world, &ActorSettings { stuck_after: 5 * SECOND, ..settings() }).await;
    // A sender that gives up looks whether the actor is stuck.
    let work = async || {
        let (work, _impatient) = tokio::join!(
            handle.ask(|reply| Do::Work(20 * SECOND, reply), 60 * SECOND),
            handle.ask(|reply| Do::Work(SECOND, reply), 10 * SECOND)
        );
        work
    };
    assert_eq!(work().await, Err(Unavailable::Crashed), "the work would have ended");
    tokio::time::sleep(10 * SECOND).await;
    retune(&root, "probe", ActorSettings { stuck_after: 60 * SECOND, ..settings() }).await;
    assert_eq!(work().await, Ok(()));
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn senders_wait_behind_an_actor_that_hangs_until_it_is_stuck_sooner() {
    let world = World::new();
    let (handle, root) = probe(&world, &ActorSettings { stuck_after: 3_600 * SECOND, ..settings() }).await;
    assert_eq!(handle.ask(Do::Hang, SECOND).await, Err(Unavailable::TimedOut));
    for _ in 0..5 {
        assert_eq!(handle.ask(Do::Count, 10 * SECOND).await, Err(Unavailable::TimedOut));
    }
    retune(&root, "probe", ActorSettings { stuck_after: 20 * SECOND, ..settings() }).await;
    assert_eq!(handle.ask(Do::Count, SECOND).await, Err(Unavailable::TimedOut), "it ends now");
    tokio::time::sleep(SECOND).await;
    assert_eq!(handle.ask(Do::Count, SECOND).await, Ok(2));
    world.end(root).await;
}

/// Crashes of one key until it is refused.
async fn crashes_until_refused(bank: &Bank, key: u64) -> usize {
    let mut crashes = 0;
    while bank.ask(key, Change::Panic).await == Err(CRASHED) {
        crashes += 1;
        // The family learns of the crash a moment after the sender.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    crashes
}

#[tokio::test(start_paused = true)]
async fn a_poisonous_key_crashes_often_until_fewer_crashes_quarantine_it() {
    crash_quietly();
    let world = World::new();
    let (bank, child) = Bank::new(&world, 0..2, &ActorSettings { quarantine_after: 8, ..settings() });
    let root = world.root(vec![child]).await;
    assert_eq!(crashes_until_refused(&bank, 0).await, 8);
    retune(&root, bank.tellers.kind(), ActorSettings { quarantine_after: 2, ..settings() }).await;
    assert_eq!(crashes_until_refused(&bank, 1).await, 2);
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn a_repaired_key_is_refused_until_quarantines_are_shorter() {
    crash_quietly();
    let world = World::new();
    let (bank, child) = Bank::new(&world, 0..2, &ActorSettings { quarantine_for: 600 * SECOND, ..settings() });
    let root = world.root(vec![child]).await;
    crashes_until_refused(&bank, 0).await;
    tokio::time::sleep(60 * SECOND).await;
    assert!(bank.ask(0, Change::Add).await.is_err(), "its row is repaired, and it is still refused");
    retune(&root, bank.tellers.kind(), ActorSettings { quarantine_for: 30 * SECOND, ..settings() }).await;
    crashes_until_refused(&bank, 1).await;
    tokio::time::sleep(60 * SECOND).await;
    assert!(bank.ask(1, Change::Add).await.is_ok());
    // The earlier one keeps its end, unless an operator releases the key.
    assert!(bank.ask(0, Change::Add).await.is_err());
    assert!(bank.tellers.release("account 0") && bank.ask(0, Change::Add).await.is_ok());
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn a_fault_outside_ends_the_process_unless_more_restarts_are_allowed() {
    for more in [false, true] {
        let world = World::new();
        let (handle, root) = probe(&world, &restart(|restart| restart.restarts_max = 2)).await;
        for life in 1..=2 {
            assert_eq!(handle.ask(Do::Count, SECOND).await, Ok(life));
            let _ = handle.ask(Do::Fail, SECOND).await;
            tokio::time::sleep(5 * SECOND).await;
        }
        let left = root.tree(SECOND).await.unwrap().children[0].budget.unwrap().restarts_left;
        assert_eq!(left, 0, "the page says that another failure ends the process");
        if more {
            retune(&root, "probe", restart(|restart| restart.restarts_max = 20)).await;
        }
        let _ = handle.ask(Do::Fail, SECOND).await;
        if more {
            tokio::time::sleep(10 * SECOND).await;
            assert_eq!(handle.ask(Do::Count, SECOND).await, Ok(4));
            world.end(root).await;
        } else {
            assert_eq!(root.outcome().await, TreeExit::GaveUp { child: "probe".to_owned() });
            world.deserted().await;
        }
    }
}

/// Time from a failure until the actor runs again.
async fn down(handle: &Handle<Do>, root: &Root) -> Duration {
    let _ = handle.ask(Do::Fail, SECOND).await;
    let start = Instant::now();
    while root.tree(SECOND).await.unwrap().children[0].status != Status::Running {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    start.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_failing_actor_restarts_often_until_its_delays_are_longer() {
    let world = World::new();
    let (handle, root) = probe(&world, &restart(|restart| restart.backoff_min = Duration::from_millis(20))).await;
    assert!(down(&handle, &root).await < SECOND);
    let longer = restart(|restart| (restart.backoff_min, restart.backoff_max) = (5 * SECOND, 60 * SECOND));
    retune(&root, "probe", longer).await;
    assert!(down(&handle, &root).await >= 5 * SECOND);
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn an_old_failure_lengthens_the_delay_until_it_is_forgotten_sooner() {
    let world = World::new();
    let slow = |reset_after| {
        restart(move |restart| {
            (restart.restarts_max, restart.backoff_min, restart.backoff_max) = (9, SECOND, 60 * SECOND);
            restart.reset_after = reset_after;
        })
    };
    let (handle, root) = probe(&world, &slow(3_600 * SECOND)).await;
    let mut delays = Vec::new();
    for _ in 0..3 {
        delays.push(down(&handle, &root).await.as_secs());
        tokio::time::sleep(600 * SECOND).await;
    }
    assert_eq!(delays, [1, 2, 4], "the last failure is ten minutes old");
    retune(&root, "probe", slow(300 * SECOND)).await;
    assert_eq!(down(&handle, &root).await.as_secs(), 1);
    world.end(root).await;
}
