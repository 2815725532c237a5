//! One request at a time to each host, and a pause after it. Whoever comes first is first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

/// When the next request may be made.
type Lane = tokio::sync::Mutex<Option<Instant>>;

/// Hosts that are remembered before those are forgotten that nobody waits for.
const LANES_KEPT: usize = 1024;

/// The lanes of all hosts.
#[derive(Debug, Default)]
pub struct Pacing {
    lanes: Mutex<HashMap<String, Arc<Lane>>>,
}

/// A turn at a host; it ends when this is dropped, and the pause begins.
#[derive(Debug)]
pub struct Turn {
    lane: OwnedMutexGuard<Option<Instant>>,
    interval: Duration,
}

impl Pacing {
    /// Waits for a turn at a host.
    pub async fn turn(&self, host: &str, interval: Duration) -> Turn {
        let lane = self.lane(host).lock_owned().await;
        if let Some(next) = *lane {
            tokio::time::sleep_until(next).await;
        }
        Turn { lane, interval }
    }

    fn lane(&self, host: &str) -> Arc<Lane> {
        // Every update is one call: a panic in between leaves nothing half done.
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if lanes.len() >= LANES_KEPT && !lanes.contains_key(host) {
            let now = Instant::now();
            let in_use = |lane: &Arc<Lane>| {
                Arc::strong_count(lane) > 1 || lane.try_lock().is_ok_and(|next| next.is_some_and(|next| next > now))
            };
            lanes.retain(|_, lane| in_use(lane));
        }
        Arc::clone(lanes.entry(host.to_owned()).or_default())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *self.lane = Some(Instant::now() + self.interval);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_host_is_asked_one_thing_at_a_time_with_a_pause_in_order() {
        let pacing = Arc::new(Pacing::default());
        let begun = Instant::now();
        let mut asking = Vec::new();
        for nth in 0..3_u64 {
            let waiting = Arc::clone(&pacing);
            asking.push(tokio::spawn(async move {
                let _turn = waiting.turn("example.com", Duration::from_secs(1)).await;
                let at = begun.elapsed();
                tokio::time::sleep(Duration::from_secs(2)).await;
                (nth, at)
            }));
            tokio::task::yield_now().await;
        }
        let other = pacing.turn("other.example", Duration::from_secs(1)).await;
        assert_eq!(begun.elapsed(), Duration::ZERO, "hosts do not wait for each other");
        drop(other);
        for (expected, asked) in asking.into_iter().enumerate() {
            let (nth, at) = asked.await.unwrap();
            assert_eq!((nth, at), (expected as u64, Duration::from_secs(3 * expected as u64)));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn hosts_are_forgotten_when_nobody_waits_for_them() {
        let pacing = Pacing::default();
        let held = pacing.turn("held.example", Duration::from_secs(1)).await;
        for nth in 0..3 * LANES_KEPT {
            drop(pacing.turn(&format!("{nth}.example"), Duration::ZERO).await);
        }
        let lanes = pacing.lanes.lock().unwrap();
        assert!(lanes.len() <= LANES_KEPT && lanes.contains_key("held.example"));
        drop(held);
    }
}
