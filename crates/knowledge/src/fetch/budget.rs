//! The time limit of a fetch.

use std::time::Duration;

use tokio::time::Instant;

use super::FetchError;

/// The remaining time. Only waiting through [`Self::spend`] consumes it.
#[derive(Debug)]
pub(super) struct Budget {
    left: Duration,
}

impl Budget {
    pub(super) fn new(total: Duration) -> Self {
        Self { left: total }
    }

    /// Whether a wait of this length fits into the remaining time.
    pub(super) fn covers(&self, wait: Duration) -> bool {
        wait < self.left
    }

    /// Waits for `work`, at most `longest` and at most the remaining time.
    pub(super) async fn spend<T>(&mut self, longest: Duration, work: impl Future<Output = T>) -> Result<T, FetchError> {
        let began = Instant::now();
        let result = tokio::time::timeout(longest.min(self.left), work).await;
        self.left = self.left.saturating_sub(began.elapsed());
        result.map_err(|_| FetchError::TooSlow)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn time_spent_waiting_is_subtracted() {
        let second = Duration::from_secs(1);
        let mut budget = Budget::new(10 * second);
        assert_eq!(budget.spend(5 * second, sleep(4 * second)).await, Ok(()));
        assert_eq!(budget.spend(3 * second, sleep(4 * second)).await, Err(FetchError::TooSlow));
        sleep(60 * second).await;
        assert!(budget.covers(2 * second) && !budget.covers(3 * second));
        assert_eq!(budget.spend(5 * second, sleep(2 * second)).await, Ok(()));
        assert_eq!(budget.spend(5 * second, sleep(2 * second)).await, Err(FetchError::TooSlow));
        assert_eq!(budget.spend(5 * second, sleep(second)).await, Err(FetchError::TooSlow));
    }
}
