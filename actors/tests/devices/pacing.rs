//! Half an hour of polls under paused time, through the real actor (`docs/decisions/0004-device-codes.md`).

use domain::confirm::ConfirmedVia;
use std::time::Duration;

use actors::device::{Poll, StartedDevice};
use chrono::TimeDelta;
use domain::{Clock, Rng};
use store::device::Approver;
use store::{DatabaseSettings, Store};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::node::{Node, beginning, machine};

const VALID: Duration = Duration::from_mins(30);

/// One node with a wall clock that follows the paused time, and codes that were each polled once at the start.
struct World {
    node: Node,
    store: Store,
    begun: Instant,
    codes: Vec<StartedDevice>,
    _folder: TempDir,
}

impl World {
    async fn with(codes: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&DatabaseSettings::default(), &folder.path().join("attache.db")).await.unwrap();
        store.migrate().await.unwrap();
        let rng = Rng::seeded(1);
        // The database runs outside of paused time: no time may pass while it is waited for.
        let begun = Instant::now();
        let frozen = std::sync::Arc::new(std::sync::OnceLock::<Instant>::new());
        let clock = {
            let frozen = std::sync::Arc::clone(&frozen);
            Clock::from_fn(move || {
                let passed = frozen.get().map_or(Duration::ZERO, Instant::elapsed);
                beginning() + TimeDelta::from_std(passed).unwrap()
            })
        };
        let key = store.code_key(&rng).await.unwrap();
        let node = Node::start(store.clone(), clock, rng.clone(), key).await;
        let mut world = Self { node, store, begun, codes: Vec::new(), _folder: folder };
        for _ in 0..codes {
            let machine = machine(&world.store, &rng, beginning()).await;
            world.codes.push(world.node.code(&machine).await);
        }
        // A poll from memory leaves its poller running.
        for code in &world.codes {
            assert_eq!(world.node.devices.poll(&code.device_code).await.unwrap(), Poll::Pending);
        }
        tokio::time::pause();
        world.begun = Instant::now();
        frozen.set(world.begun).unwrap();
        world
    }

    async fn poll(&self, code: usize) -> Poll {
        standing_still(self.node.devices.poll(&self.codes[code].device_code)).await.unwrap()
    }

    /// Polls after `wait`, unless the code would have expired by then.
    async fn poll_after(&self, code: usize, wait: Duration) -> Option<Poll> {
        if self.begun.elapsed() + wait >= VALID {
            return None;
        }
        sleep(wait).await;
        Some(self.poll(code).await)
    }

    async fn end(self) {
        tokio::time::resume();
        self.node.end().await;
    }
}

/// A poll sometimes reads the row, and time must not pass during the read: paused time does not advance while a blocking task
/// runs.
pub async fn standing_still<T>(poll: impl Future<Output = T>) -> T {
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let still = tokio::task::spawn_blocking(move || ended.recv().is_err());
    let polled = poll.await;
    drop(end);
    assert!(still.await.unwrap());
    polled
}

/// 5 s with a timer and network jitter of up to 0.9 s.
fn honest(rng: &Rng, interval: u64) -> Duration {
    Duration::from_millis(interval * 1000 - 900 + rng.below(1801))
}

#[tokio::test]
async fn an_honest_computer_is_never_slowed_down_in_half_an_hour() {
    const COMPUTERS: usize = 25;
    let world = World::with(COMPUTERS).await;
    let computers = (0..COMPUTERS).map(|computer| {
        let world = &world;
        async move {
            let rng = Rng::seeded(computer as u64);
            let mut polls = 1;
            while let Some(poll) = world.poll_after(computer, honest(&rng, 5)).await {
                assert_eq!(poll, Poll::Pending, "poll {polls} of computer {computer}");
                polls += 1;
            }
            assert!((300..=440).contains(&polls), "{polls}");
        }
    });
    join_all(computers).await;
    world.end().await;
}

#[tokio::test]
async fn a_fast_computer_is_slowed_once_and_recovers() {
    let world = World::with(1).await;
    let rng = Rng::seeded(1);
    assert_eq!(world.poll_after(0, Duration::from_secs(3)).await, Some(Poll::SlowDown { interval: 10 }));
    let mut accepted = 0;
    while let Some(poll) = world.poll_after(0, honest(&rng, 10)).await {
        assert_eq!(poll, Poll::Pending);
        accepted += 1;
    }
    assert!((160..=200).contains(&accepted), "{accepted}");
    world.end().await;
}

#[tokio::test]
async fn a_refused_poll_does_not_move_the_clock() {
    let world = World::with(1).await;
    assert_eq!(world.poll_after(0, Duration::from_millis(3990)).await, Some(Poll::SlowDown { interval: 10 }));
    // Five seconds after the refused poll, nine after the accepted one.
    assert_eq!(world.poll_after(0, Duration::from_millis(5010)).await, Some(Poll::Pending));
    assert_eq!(world.poll_after(0, Duration::from_millis(8990)).await, Some(Poll::SlowDown { interval: 15 }));
    assert_eq!(world.poll_after(0, Duration::from_millis(5010)).await, Some(Poll::Pending));
    world.end().await;
}

#[tokio::test]
async fn a_restless_computer_waits_a_minute_at_most() {
    let world = World::with(1).await;
    for interval in (10..=60).step_by(5).chain([60, 60]) {
        assert_eq!(world.poll_after(0, Duration::from_secs(1)).await, Some(Poll::SlowDown { interval }));
    }
    assert_eq!(world.poll_after(0, Duration::from_secs(46)).await, Some(Poll::Pending));
    // The pause is shorter than the time after which the poller is passivated.
    assert_eq!(world.poll_after(0, Duration::from_millis(58_990)).await, Some(Poll::SlowDown { interval: 60 }));
    for _ in 0..10 {
        assert_eq!(world.poll_after(0, Duration::from_mins(1)).await, Some(Poll::Pending));
    }
    world.end().await;
}

#[tokio::test]
async fn a_change_without_a_notification_is_read_within_half_a_minute() {
    let world = World::with(1).await;
    tokio::time::resume();
    let email = "ada@example.com".parse().unwrap();
    let person = world.store.person_sign_in(&email, true, beginning(), &Rng::seeded(2)).await.unwrap();
    let denier = Approver { person: person.id, via: ConfirmedVia::Session };
    assert!(world.store.device_deny(&world.codes[0].device_code.hash(), &denier, beginning()).await.unwrap());
    tokio::time::pause();
    // Until then polls are answered from memory.
    for _ in 0..4 {
        assert_eq!(world.poll_after(0, Duration::from_secs(5)).await, Some(Poll::Pending));
    }
    assert_eq!(world.poll_after(0, Duration::from_secs(10)).await, Some(Poll::Denied));
    world.end().await;
}

async fn join_all(futures: impl Iterator<Item = impl Future<Output = ()>>) {
    let mut all: Vec<_> = futures.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        all.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if all.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}
