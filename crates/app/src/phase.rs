//! The phases of the server from serving to its end (`docs/decisions/0030-lame-duck.md`).
//!
//! A balancer detects only through `/readyz` that a node leaves, and a client with an open connection only through a response. So a
//! leaving node stays open until both have noticed: first it is unready, then each response closes its connection, and only then the
//! listeners close.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::watch;

/// A phase; later ones are greater.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Ready, unless a part fails.
    #[default]
    Serving,
    /// Unready. Connections are accepted and requests are answered as before.
    LameDuck,
    /// Like [`LameDuck`](Self::LameDuck), but each response closes its connection.
    Closing,
    /// The listeners are closed, and requests in progress finish.
    Stopping,
}

/// The phase of one server. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Phases {
    phase: Arc<watch::Sender<Phase>>,
    /// Whether responses close their connections; read without a lock.
    closes: Arc<AtomicBool>,
    /// Who drains the server, and why, while an operator does.
    drain: Arc<ArcSwapOption<String>>,
}

impl Phases {
    /// Starts a phase, unless it or a later one has started.
    pub fn enter(&self, phase: Phase) {
        self.closes.fetch_or(phase >= Phase::Closing, Ordering::Relaxed);
        self.phase.send_if_modified(|now| {
            let is_later = phase > *now;
            *now = phase.max(*now);
            is_later
        });
    }

    /// The lame duck phase: unready for `duration`; in the second half each response closes its connection.
    #[boxed]
    pub async fn lame_duck(&self, duration: Duration) {
        self.enter(Phase::LameDuck);
        tokio::time::sleep(duration / 2).await;
        self.enter(Phase::Closing);
        tokio::time::sleep(duration / 2).await;
    }

    /// Starts a drain: like [`Phase::Closing`], but it can be ended. Returns the drain that is in force already.
    pub fn drain(&self, by: String) -> Option<Arc<String>> {
        let before = self.drain.compare_and_swap(&None::<Arc<String>>, Some(Arc::new(by)));
        before.clone()
    }

    /// Ends a drain, which it returns.
    pub fn undrain(&self) -> Option<Arc<String>> {
        self.drain.swap(None)
    }

    /// Who drains the server, and why.
    pub fn drained_by(&self) -> Option<Arc<String>> {
        self.drain.load_full()
    }

    /// Whether the server is drained, or has left the phase [`Serving`](Phase::Serving).
    pub fn is_leaving(&self) -> bool {
        *self.phase.borrow() > Phase::Serving || self.drain.load().is_some()
    }

    /// Whether each response closes its connection.
    pub fn closes_connections(&self) -> bool {
        self.closes.load(Ordering::Relaxed) || self.drain.load().is_some()
    }

    /// Waits until the listeners must close.
    #[boxed]
    pub async fn stopping(&self) {
        let mut phase = self.phase.subscribe();
        if phase.wait_for(|phase| *phase >= Phase::Stopping).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[test]
    fn a_drain_ends_and_a_second_one_names_the_first() {
        let phases = Phases::default();
        assert_eq!(phases.drain("ada".into()), None);
        assert!(phases.is_leaving() && phases.closes_connections());
        assert_eq!(phases.drain("bob".into()).unwrap().as_str(), "ada");
        assert_eq!(phases.undrain().unwrap().as_str(), "ada");
        assert!(!phases.is_leaving() && !phases.closes_connections() && phases.undrain().is_none());
        phases.enter(Phase::Closing);
        assert!(phases.is_leaving() && phases.closes_connections());
    }

    #[tokio::test(start_paused = true)]
    async fn a_lame_duck_is_unready_first_and_closes_connections_in_its_second_half() {
        let phases = Phases::default();
        assert!(!phases.is_leaving() && !phases.closes_connections());
        let start = Instant::now();
        let leaving = phases.clone();
        let duck = tokio::spawn(async move { leaving.lame_duck(Duration::from_secs(10)).await });
        for (seconds, closes) in [(1, false), (4, false), (6, true), (9, true)] {
            tokio::time::sleep_until(start + Duration::from_secs(seconds)).await;
            assert_eq!((phases.is_leaving(), phases.closes_connections()), (true, closes), "after {seconds} s");
        }
        duck.await.unwrap();
        assert_eq!(start.elapsed(), Duration::from_secs(10));
        assert!(tokio::time::timeout(Duration::from_secs(1), phases.stopping()).await.is_err());
        phases.enter(Phase::Stopping);
        phases.stopping().await;
        phases.enter(Phase::LameDuck);
        phases.stopping().await;
    }
}
