//! Settings that are replaced while actors run: each row of `README.md`, *Changed settings*.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use supervision::periodic::{LiveSchedule, Next, Pass, PassError, Periodic, Schedule};
use supervision::{ActorSettings, AskError, Handle, RestartSettings, Root, TreeExit, Unavailable};

use crate::crowd::{Bank, Change};
use crate::world::{Do, Probe, TestKind, World, jitter, settings};

const SECOND: Duration = Duration::from_secs(1);
const OVERLOADED: Unavailable = Unavailable::Overloaded;

async fn retune(root: &Root, kind: &'static str, settings: ActorSettings) {
    assert_eq!(root.retune(TestKind(kind), settings, SECOND).await, Ok(1));
}

/// A probe whose settings are changed.
async fn probe(world: &World, settings: &ActorSettings) -> (Handle<Do>, Root) {
    let handle = Handle::new(TestKind("probe"), settings);
    let root = world.root(vec![Probe::new(world).child(&handle)]).await;
    (handle, root)
}

#[tokio::test(start_paused = true)]
async fn a_shorter_queue_refuses_new_messages_and_drops_none() {
    let world = World::new();
    let (handle, root) = probe(&world, &ActorSettings { queue_max: 4, ..settings() }).await;
    let work = || handle.ask(|reply| Do::Work(10 * SECOND, reply), 60 * SECOND);
    let accepted = async { tokio::join!(work(), work(), work()) };
    let retuned = async {
        tokio::time::sleep(SECOND).await;
        retune(&root, "probe", ActorSettings { queue_max: 1, ..settings() }).await;
        assert_eq!(handle.ask(Do::Count, SECOND).await, Err(OVERLOADED));
        tokio::time::sleep(20 * SECOND).await;
        assert_eq!(handle.ask(Do::Count, SECOND).await, Err(OVERLOADED), "one message is left, and one is the limit");
    };
    let (answers, ()) = tokio::join!(accepted, retuned);
    assert!(answers.0.is_ok() && answers.1.is_ok() && answers.2.is_ok(), "{answers:?}");
    assert!(handle.ask(Do::Count, SECOND).await.is_ok());
    retune(&root, "probe", ActorSettings { queue_max: 2, ..settings() }).await;
    let (first, second) = tokio::join!(handle.ask(Do::Count, SECOND), handle.ask(Do::Count, SECOND));
    assert!(first.is_ok() && second.is_ok());
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn the_time_until_an_actor_is_stuck_counts_from_its_last_progress() {
    let world = World::new();
    let (handle, root) = probe(&world, &ActorSettings { stuck_after: 300 * SECOND, ..settings() }).await;
    assert_eq!(handle.ask(Do::Hang, 20 * SECOND).await, Err(Unavailable::TimedOut));
    retune(&root, "probe", ActorSettings { stuck_after: 30 * SECOND, ..settings() }).await;
    assert_eq!(handle.ask(Do::Count, 9 * SECOND).await, Err(Unavailable::TimedOut), "29 s: not stuck yet");
    assert_eq!(handle.ask(Do::Count, 2 * SECOND).await, Err(Unavailable::TimedOut), "31 s: stuck");
    tokio::time::sleep(SECOND).await;
    assert_eq!(handle.ask(Do::Count, SECOND).await, Ok(2), "another actor");
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn a_smaller_limit_of_actors_starts_no_more_and_ends_none() {
    let world = World::new();
    let (bank, child) = Bank::new(&world, 0..4, &settings());
    let root = world.root(vec![child]).await;
    for key in 0..3 {
        assert_eq!(bank.ask(key, Change::Add).await, Ok(1));
    }
    retune(&root, bank.tellers.kind(), ActorSettings { live_max: 1, ..settings() }).await;
    assert_eq!(bank.ask(3, Change::Add).await, Err(AskError::Unavailable(OVERLOADED)));
    for key in 0..3 {
        assert_eq!(bank.ask(key, Change::Add).await, Ok(2));
    }
    assert_eq!((bank.tellers.live(), bank.starts()), (3, 3));
    retune(&root, bank.tellers.kind(), ActorSettings { live_max: 4, ..settings() }).await;
    assert_eq!(bank.ask(3, Change::Add).await, Ok(1));
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn a_changed_idle_time_counts_from_the_last_message() {
    let world = World::new();
    let (bank, child) = Bank::new(&world, 0..1, &ActorSettings { idle_after: 3_600 * SECOND, ..settings() });
    let root = world.root(vec![child]).await;
    assert_eq!(bank.ask(0, Change::Add).await, Ok(1));
    tokio::time::sleep(20 * SECOND).await;
    retune(&root, bank.tellers.kind(), ActorSettings { idle_after: 60 * SECOND, ..settings() }).await;
    tokio::time::sleep(39 * SECOND).await;
    assert_eq!(bank.tellers.live(), 1);
    tokio::time::sleep(4 * SECOND).await;
    assert_eq!(bank.tellers.live(), 0, "60 s and the time in which checks are grouped");

    // Without an idle time actors stay, until there is one again.
    retune(&root, bank.tellers.kind(), ActorSettings { idle_after: Duration::ZERO, ..settings() }).await;
    assert_eq!(bank.ask(0, Change::Add).await, Ok(2));
    tokio::time::sleep(100_000 * SECOND).await;
    assert_eq!(bank.tellers.live(), 1);
    retune(&root, bank.tellers.kind(), ActorSettings { idle_after: SECOND, ..settings() }).await;
    tokio::time::sleep(3 * SECOND).await;
    assert_eq!(bank.tellers.live(), 0);
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn a_smaller_restart_budget_ends_nothing_before_the_next_failure() {
    let world = World::new();
    let restart = |restarts_max| RestartSettings { restarts_max, ..settings().restart };
    let (handle, root) = probe(&world, &ActorSettings { restart: restart(9), ..settings() }).await;
    for life in 1..=2 {
        assert_eq!(handle.ask(Do::Count, SECOND).await, Ok(life));
        assert_eq!(handle.ask(Do::Panic, SECOND).await, Err(Unavailable::Crashed));
        tokio::time::sleep(5 * SECOND).await;
    }
    retune(&root, "probe", ActorSettings { restart: restart(2), ..settings() }).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(handle.ask(Do::Count, SECOND).await, Ok(3), "the budget is used up, and the actor runs");
    assert!(handle.ask(Do::Panic, SECOND).await.is_err());
    assert_eq!(root.outcome().await, TreeExit::GaveUp { child: "probe".to_owned() });
    world.deserted().await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_without_children_is_reported() {
    let world = World::new();
    let (_, root) = probe(&world, &settings()).await;
    assert_eq!(root.retune(TestKind("nobody"), settings(), SECOND).await, Ok(0));
    world.end(root).await;
}

/// Counts its passes.
#[derive(Clone, Default)]
struct Counting(Arc<AtomicU64>);

impl Pass for Counting {
    type Memory = ();

    async fn run(&self, (): &mut ()) -> Result<Next, PassError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(Next::AfterPause)
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_schedule_is_in_force_from_the_next_pass_on() {
    let world = World::new();
    let counting = Counting::default();
    let every = |seconds: u32| Schedule { every: seconds * SECOND, deadline: 60 * SECOND };
    let schedule = LiveSchedule::new(every(100));
    let handle = Periodic::<Counting>::handle(TestKind("counting"), &settings());
    let periodic = Periodic::new(TestKind("counting"), counting.clone(), schedule.clone(), jitter());
    let root = world.root(vec![periodic.child(&handle)]).await;
    tokio::time::sleep(SECOND).await;
    schedule.set(every(1));
    tokio::time::sleep(80 * SECOND).await;
    assert_eq!(counting.0.load(Ordering::SeqCst), 1, "the pause that has begun keeps its length");
    tokio::time::sleep(60 * SECOND).await;
    assert!(counting.0.load(Ordering::SeqCst) >= 25, "{:?}", counting.0);
    root.drain(SECOND).await;
    world.deserted().await;
}
