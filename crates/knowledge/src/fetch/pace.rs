//! Limits requests to one at a time per host, with a delay in between.
//!
//! Each host has one permit, granted to accounts in turn. Idle hosts without a pending delay are removed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::fair::{FairLimits, FairRefusal};
use domain::ids::UserAccountId;
use tokio::time::Instant;

use extract::fair::{FairPlace, FairPlaces};

/// State of all hosts.
#[derive(Debug, Default)]
pub(super) struct Pace {
    hosts: Mutex<Hosts>,
}

#[derive(Debug, Default)]
struct Hosts {
    by_name: HashMap<String, Arc<Host>>,
    /// Number of hosts at which idle ones are removed.
    sweep_at: usize,
}

#[derive(Debug)]
struct Host {
    turn: FairPlaces,
    /// Earliest start of the next request.
    next: Mutex<Instant>,
}

/// The right to send one request to a host, released on drop.
#[derive(Debug)]
pub(super) struct HostPermit {
    host: Arc<Host>,
    _place: FairPlace,
}

impl Pace {
    /// Waits for the host's permit and delay. Dropping the future leaves the queue.
    pub(super) async fn turn(&self, name: &str, account: &UserAccountId) -> Result<HostPermit, FairRefusal> {
        let host = self.host(name);
        let place = host.turn.acquire(account).await?;
        loop {
            let next = *lock(&host.next);
            if next <= Instant::now() {
                return Ok(HostPermit { host, _place: place });
            }
            tokio::time::sleep_until(next).await;
        }
    }

    /// Delays the next request to a host, as it requested.
    pub(super) fn hold(&self, name: &str, pause: Duration) {
        self.host(name).not_before(Instant::now() + pause);
    }

    fn host(&self, name: &str) -> Arc<Host> {
        let mut hosts = lock(&self.hosts);
        if let Some(host) = hosts.by_name.get(name) {
            return Arc::clone(host);
        }
        hosts.forget_idle();
        let host = Arc::new(Host { turn: FairPlaces::new(FairLimits::new(1, 1)), next: Mutex::new(Instant::now()) });
        hosts.by_name.insert(name.to_owned(), Arc::clone(&host));
        host
    }
}

impl Hosts {
    /// Scans all hosts only after their number has doubled, which keeps the amortised cost low.
    fn forget_idle(&mut self) {
        const SWEEP_AT_MIN: usize = 64;
        if self.by_name.len() < self.sweep_at.max(SWEEP_AT_MIN) {
            return;
        }
        let now = Instant::now();
        self.by_name.retain(|_, host| Arc::strong_count(host) > 1 || *lock(&host.next) > now);
        self.sweep_at = self.by_name.len() * 2;
    }
}

impl Host {
    fn not_before(&self, moment: Instant) {
        let mut next = lock(&self.next);
        *next = (*next).max(moment);
    }
}

impl HostPermit {
    /// Records the start of the request; the next one starts at least `interval` later.
    pub(super) fn start(&self, interval: Duration) {
        self.host.not_before(Instant::now() + interval);
    }
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every update is a single assignment, so a panic cannot leave an inconsistent state.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;

    use super::*;

    fn account() -> UserAccountId {
        "ada".parse().unwrap()
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn requests_to_one_host_start_an_interval_apart_in_the_order_of_asking() {
        let pace = Arc::new(Pace::default());
        let starts = Arc::new(Mutex::new(Vec::new()));
        let began = Instant::now();
        let mut asking = JoinSet::new();
        for number in 0..5 {
            let (pace, starts) = (Arc::clone(&pace), Arc::clone(&starts));
            asking.spawn(async move {
                let turn = pace.turn("a.example", &account()).await.unwrap();
                turn.start(SECOND);
                lock(&starts).push((number, began.elapsed().as_secs()));
            });
            tokio::task::yield_now().await;
        }
        asking.join_all().await;
        assert_eq!(*lock(&starts), [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_lasts_holds_its_host_and_no_other() {
        let pace = Pace::default();
        let turn = pace.turn("a.example", &account()).await.unwrap();
        turn.start(SECOND);
        let waited = tokio::time::timeout(60 * SECOND, pace.turn("a.example", &account())).await;
        assert!(waited.is_err());
        let began = Instant::now();
        pace.turn("b.example", &account()).await.unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO);
        drop(turn);
        pace.turn("a.example", &account()).await.unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_that_the_host_asked_for_holds_those_who_wait_already() {
        let pace = Arc::new(Pace::default());
        let turn = pace.turn("a.example", &account()).await.unwrap();
        turn.start(SECOND);
        let began = Instant::now();
        let waiting = tokio::spawn({
            let pace = Arc::clone(&pace);
            async move {
                pace.turn("a.example", &account()).await.unwrap();
                began.elapsed()
            }
        });
        tokio::task::yield_now().await;
        drop(turn);
        tokio::task::yield_now().await;
        pace.hold("a.example", 7 * SECOND);
        assert_eq!(waiting.await.unwrap(), 7 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_waiting_costs_the_others_nothing() {
        let pace = Pace::default();
        pace.turn("a.example", &account()).await.unwrap().start(SECOND);
        let began = Instant::now();
        let gave_up = tokio::time::timeout(SECOND / 2, pace.turn("a.example", &account())).await;
        assert!(gave_up.is_err());
        pace.turn("a.example", &account()).await.unwrap();
        assert_eq!(began.elapsed(), SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn idle_hosts_are_forgotten() {
        let pace = Pace::default();
        let permit = pace.turn("kept.example", &account()).await.unwrap();
        for number in 0..10_000 {
            pace.turn(&format!("{number}.example"), &account()).await.unwrap().start(SECOND);
            tokio::time::advance(SECOND / 10).await;
            assert!(lock(&pace.hosts).by_name.len() <= 64, "at {number}");
        }
        assert!(lock(&pace.hosts).by_name.contains_key("kept.example"));
        drop(permit);
    }
}
