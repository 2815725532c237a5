//! Failing passes: counted, shown in the tree, logged once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use metrics::with_local_recorder;
use supervision::Root;
use supervision::periodic::{FailingPasses, Next, Pass, PassError, Periodic, Rest, Schedule, Waker};

use crate::log::Captured;
use crate::metrics::Numbers;
use crate::world::{TestKind, World, eventually, jitter, settings};

/// A pass that may fail because of a full disk.
#[derive(Clone, Default)]
struct Work {
    is_full: Arc<AtomicBool>,
    passes: Arc<AtomicU64>,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot write a row")]
struct CannotWrite(#[source] std::io::Error);

impl Pass for Work {
    type Memory = ();

    async fn run(&self, (): &mut ()) -> Result<Next, PassError> {
        self.passes.fetch_add(1, Ordering::SeqCst);
        let full = || CannotWrite(std::io::Error::other("disk full"));
        if self.is_full.load(Ordering::SeqCst) { Err(full().into()) } else { Ok(Next::AfterPause) }
    }
}

async fn failing(root: &Root) -> Option<FailingPasses> {
    root.tree(Duration::from_secs(1)).await.unwrap().children[0].failing.clone()
}

#[tokio::test(start_paused = true)]
async fn passes_that_fail_are_counted_shown_and_logged_when_they_begin_and_when_they_end() {
    let (world, numbers, lines) = (World::new(), Numbers::default(), Captured::begin());
    let work = Work::default();
    let handle = Periodic::<Work>::handle(TestKind("keeper"), &settings());
    let schedule = Schedule { every: Duration::from_secs(1), deadline: Duration::from_mins(1) };
    let periodic =
        with_local_recorder(&numbers, || Periodic::new(TestKind("keeper"), work.clone(), schedule, jitter()));
    let root = world.root(vec![periodic.child(&handle)]).await;
    let counted = || numbers.counter("attache_pass_failures_total{name=keeper}");
    let passes = || work.passes.load(Ordering::SeqCst);
    eventually("three passes succeeded", || passes() >= 3).await;
    assert_eq!((counted(), failing(&root).await), (0, None));

    work.is_full.store(true, Ordering::SeqCst);
    let baseline = passes();
    eventually("seven passes failed", || passes() >= baseline + 7).await;
    let report = failing(&root).await.unwrap();
    assert_eq!(report.error, "cannot write a row: disk full");
    assert_eq!((report.passes, counted()), (passes() - baseline, passes() - baseline));
    assert!((5..=8).contains(&report.since_seconds_ago), "{report:?}");
    assert_eq!(lines.of("WARN"), ["passes began to fail and are retried"]);

    work.is_full.store(false, Ordering::SeqCst);
    let baseline = passes();
    eventually("three passes succeeded again", || passes() >= baseline + 3).await;
    assert_eq!(failing(&root).await, None);
    let pass = root.tree(Duration::from_secs(1)).await.unwrap().children[0].pass.unwrap();
    let pause = pass.ended_ms_ago + pass.next_in_ms;
    assert!(pass.took_ms == 0 && (899..=1_100).contains(&pause), "{pass:?}");
    assert_eq!(lines.of("WARN").len(), 1);
    assert_eq!(lines.of("INFO").iter().filter(|line| *line == "passes succeed again").count(), 1);
    root.drain(Duration::from_secs(1)).await;
    world.deserted().await;
}

/// A pass with a limited amount of work.
#[derive(Clone, Default)]
struct Seldom {
    work: Arc<AtomicU64>,
    passes: Arc<AtomicU64>,
}

impl Pass for Seldom {
    type Memory = ();

    async fn run(&self, (): &mut ()) -> Result<Next, PassError> {
        self.passes.fetch_add(1, Ordering::SeqCst);
        let is_done = |work: u64| work.checked_sub(1);
        let result = self.work.fetch_update(Ordering::SeqCst, Ordering::SeqCst, is_done);
        Ok(result.map_or(Next::Idle, |_| Next::AfterPause))
    }
}

#[tokio::test(start_paused = true)]
async fn an_actor_without_work_rests_until_it_is_woken() {
    let (world, numbers) = (World::new(), Numbers::default());
    let (seldom, waker) = (Seldom::default(), Waker::default());
    let handle = Periodic::<Seldom>::handle(TestKind("seldom"), &settings());
    let schedule = Schedule { every: Duration::from_secs(1), deadline: Duration::from_mins(1) };
    let rest = Rest { after: Duration::from_secs(3), every: Duration::from_mins(1), waker: waker.clone() };
    let periodic =
        with_local_recorder(&numbers, || Periodic::new(TestKind("seldom"), seldom.clone(), schedule, jitter()));
    let root = world.root(vec![periodic.resting(Some(rest)).child(&handle)]).await;
    let passes_in = async |seconds: u64| {
        let baseline = seldom.passes.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        seldom.passes.load(Ordering::SeqCst) - baseline
    };
    assert!((3..=5).contains(&passes_in(5).await), "at first it looks every second");
    assert!((9..=11).contains(&passes_in(600).await), "while it rests it looks every minute");

    seldom.work.store(2, Ordering::SeqCst);
    waker.wake();
    assert!((5..=8).contains(&passes_in(10).await), "woken, it works, and looks for another three seconds");
    assert_eq!(seldom.work.load(Ordering::SeqCst), 0);
    assert_eq!(passes_in(20).await, 0, "then it rests again");

    // Continuous wakes cause at most one pass every second, and no wake is lost.
    let baseline = seldom.passes.load(Ordering::SeqCst);
    for _ in 0..1000 {
        waker.wake();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let passes = seldom.passes.load(Ordering::SeqCst) - baseline;
    assert!((8..=13).contains(&passes), "{passes}");
    root.drain(Duration::from_secs(1)).await;
    world.deserted().await;
}
