//! The restart policy: the delay after which a failed child is restarted, and the point at which its supervisor gives up. Pure: the caller
//! passes time and jitter.

use std::collections::VecDeque;
use std::time::Duration;

use backoff::backoff::Backoff;
use backoff::exponential::ExponentialBackoff;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// The restart budget and the delays of one child.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RestartSettings {
    /// Maximum number of restarts within any `window`, and of failed starts in a row. The supervisor gives up at the next failure.
    pub restarts_max: u32,
    /// The sliding window of `restarts_max`.
    #[serde(with = "humantime_serde")]
    pub window: Duration,
    /// The delay before the first restart. It doubles with every further one.
    #[serde(with = "humantime_serde")]
    pub backoff_min: Duration,
    /// The maximum delay, without jitter.
    #[serde(with = "humantime_serde")]
    pub backoff_max: Duration,
    /// Random jitter, as a fraction of the delay from 0 to 1, so that children that failed together are restarted at different times.
    pub jitter: f64,
    /// After this time without a failure the delay starts from `backoff_min` again.
    #[serde(with = "humantime_serde")]
    pub reset_after: Duration,
}

impl Default for RestartSettings {
    /// Ten restarts take about 43 s, so a child that fails at once uses up its budget inside the window.
    fn default() -> Self {
        Self {
            restarts_max: 10,
            window: Duration::from_mins(1),
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_secs(10),
            jitter: 0.1,
            reset_after: Duration::from_mins(1),
        }
    }
}

impl RestartSettings {
    /// The invalid values, as pairs of field and rule.
    pub fn problems(&self) -> Vec<(&'static str, &'static str)> {
        let rules = [
            (!self.window.is_zero(), "restart.window", "must be longer than 0s"),
            (
                self.backoff_min <= self.backoff_max,
                "restart.backoff_min",
                "must not be longer than restart.backoff_max",
            ),
            ((0.0..=1.0).contains(&self.jitter), "restart.jitter", "must be a fraction from 0 to 1"),
        ];
        rules.into_iter().filter(|(is_valid, ..)| !is_valid).map(|(_, field, rule)| (field, rule)).collect()
    }
}

/// The reaction to a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Start the child again after this delay.
    Restart {
        /// Between `backoff_min` and `backoff_max · (1 + jitter)`.
        after: Duration,
    },
    /// The budget is used up.
    GiveUp,
}

/// Restarts that a policy remembers beyond its budget, so that a window or a budget that is made larger counts the earlier ones.
const GRANTED_MIN: usize = 1024;

/// The failures of one child, counted against its restart budget. Each failure is judged by the settings that are in force then.
#[derive(Debug)]
pub struct RestartPolicy {
    delays: ExponentialBackoff<FrozenClock>,
    /// Times of the granted restarts, oldest first.
    granted: VecDeque<Instant>,
    started_at: Option<Instant>,
    /// Number of starts that failed in a row.
    failed_starts: u32,
}

impl Default for RestartPolicy {
    /// A policy without a failure. The first failure sets the bounds of the delays.
    fn default() -> Self {
        let delays = delays(Duration::ZERO, Duration::ZERO);
        Self { delays, granted: VecDeque::new(), started_at: None, failed_starts: 0 }
    }
}

impl RestartPolicy {
    /// Records that the child runs.
    pub fn on_started(&mut self, now: Instant) {
        self.started_at = Some(now);
        self.failed_starts = 0;
    }

    /// Records that the child failed or could not be started. `fraction`, from 0 to 1, scales the jitter.
    pub fn on_failure(&mut self, settings: &RestartSettings, now: Instant, fraction: f64) -> Decision {
        let RestartSettings { restarts_max, window, backoff_min, backoff_max, reset_after, .. } = *settings;
        self.delays.initial_interval = backoff_min;
        self.delays.max_interval = backoff_max;
        self.delays.current_interval = self.delays.current_interval.max(backoff_min).min(backoff_max);
        let healthy_since = self.started_at.take();
        if healthy_since.is_some_and(|since| now.saturating_duration_since(since) >= reset_after) {
            self.delays.reset();
        }
        if healthy_since.is_none() {
            // Counted separately: hanging starts take so long that the window would never fill.
            self.failed_starts = self.failed_starts.saturating_add(1);
        }
        let after = self.delay(settings, fraction);
        let restart_at = now + after;
        if self.granted_within(window, restart_at).count() >= restarts_max as usize || self.failed_starts > restarts_max
        {
            return Decision::GiveUp;
        }
        self.granted.push_back(restart_at);
        if self.granted.len() > GRANTED_MIN.max(restarts_max as usize) {
            self.granted.pop_front();
        }
        Decision::Restart { after }
    }

    /// Restarts that are left at `now`, and when there is one more; `None` while the budget is whole.
    pub(crate) fn left(&self, settings: &RestartSettings, now: Instant) -> (u32, Option<Instant>) {
        let RestartSettings { restarts_max, window, .. } = *settings;
        let counted = u32::try_from(self.granted_within(window, now).count()).unwrap_or(u32::MAX);
        let oldest = self.granted_within(window, now).last();
        (restarts_max.saturating_sub(counted.max(self.failed_starts)), oldest.map(|oldest| oldest + window))
    }

    /// Times of the granted restarts within the window that ends at `end`, newest first.
    fn granted_within(&self, window: Duration, end: Instant) -> impl Iterator<Item = Instant> {
        self.granted.iter().rev().copied().take_while(move |&past| end.saturating_duration_since(past) < window)
    }

    fn delay(&mut self, settings: &RestartSettings, fraction: f64) -> Duration {
        let RestartSettings { backoff_min, backoff_max, jitter, .. } = *settings;
        // `backoff` computes in floating point: keep its rounding within the bounds.
        let delay = self.delays.next_backoff().unwrap_or(backoff_max).max(backoff_min).min(backoff_max);
        delay + delay.mul_f64(jitter.clamp(0.0, 1.0) * fraction.clamp(0.0, 1.0))
    }
}

/// The delay before the next attempt of an operation that failed `failures` times in a row, without jitter.
pub fn delay_after(failures: u32, backoff_min: Duration, backoff_max: Duration) -> Duration {
    /// After this many doublings from a millisecond, every delay has reached any sensible maximum.
    const DOUBLINGS_MAX: u32 = 64;
    let mut delays = delays(backoff_min, backoff_max);
    let mut delay = backoff_min;
    for _ in 0..failures.clamp(1, DOUBLINGS_MAX) {
        delay = delays.next_backoff().unwrap_or(backoff_max);
    }
    delay.max(backoff_min).min(backoff_max)
}

fn delays(backoff_min: Duration, backoff_max: Duration) -> ExponentialBackoff<FrozenClock> {
    let frozen = Instant::now().into_std();
    ExponentialBackoff {
        current_interval: backoff_min,
        initial_interval: backoff_min,
        // The crate's own randomness and its limit on elapsed time are off: the caller passes jitter and time.
        randomization_factor: 0.0,
        max_elapsed_time: None,
        multiplier: 2.0,
        max_interval: backoff_max,
        start_time: frozen,
        clock: FrozenClock(frozen),
    }
}

/// A clock that never advances: the `backoff` crate reads the time, but without a limit on elapsed time it has no effect.
#[derive(Debug)]
struct FrozenClock(std::time::Instant);

impl backoff::Clock for FrozenClock {
    fn now(&self) -> std::time::Instant {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    struct World {
        policy: RestartPolicy,
        settings: RestartSettings,
    }

    impl World {
        fn on_started(&mut self, now: Instant) {
            self.policy.on_started(now);
        }

        fn on_failure(&mut self, now: Instant, fraction: f64) -> Decision {
            self.policy.on_failure(&self.settings, now, fraction)
        }
    }

    fn policy(settings: RestartSettings) -> (World, Instant) {
        (World { policy: RestartPolicy::default(), settings }, Instant::now())
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn delays_double_from_the_least_to_the_most() {
        let settings = RestartSettings {
            backoff_min: seconds(1),
            backoff_max: seconds(5),
            jitter: 0.0,
            ..RestartSettings::default()
        };
        let (mut policy, now) = policy(settings);
        let delays: Vec<_> = (0..5).map(|_| policy.on_failure(now, 0.9)).collect();
        assert_eq!(delays, [1, 2, 4, 5, 5].map(|after| Decision::Restart { after: seconds(after) }));
    }

    #[test]
    fn retries_wait_as_long_as_restarts() {
        let after: Vec<_> =
            [0, 1, 2, 3, 4, 5, 100, u32::MAX].map(|failures| delay_after(failures, seconds(1), seconds(5))).into();
        assert_eq!(after, [1, 1, 2, 4, 5, 5, 5, 5].map(seconds));
    }

    #[test]
    fn the_delay_starts_over_after_lasting_health_and_not_before() {
        let settings = RestartSettings {
            backoff_min: seconds(1),
            backoff_max: seconds(60),
            jitter: 0.0,
            reset_after: seconds(30),
            ..RestartSettings::default()
        };
        let (mut policy, now) = policy(settings);
        policy.on_failure(now, 0.0);
        policy.on_started(now + seconds(1));
        assert_eq!(policy.on_failure(now + seconds(30), 0.0), Decision::Restart { after: seconds(2) });
        policy.on_started(now + seconds(40));
        assert_eq!(policy.on_failure(now + seconds(70), 0.0), Decision::Restart { after: seconds(1) });
    }

    #[test]
    fn a_child_that_never_runs_uses_up_its_budget_within_the_window() {
        let (mut policy, mut now) = policy(RestartSettings::default());
        for _ in 0..RestartSettings::default().restarts_max {
            let Decision::Restart { after } = policy.on_failure(now, 0.99) else { panic!("gave up early") };
            now += after;
        }
        assert_eq!(policy.on_failure(now, 0.99), Decision::GiveUp);
    }

    #[test]
    fn with_no_budget_the_first_failure_is_the_last() {
        let (mut policy, now) = policy(RestartSettings { restarts_max: 0, ..RestartSettings::default() });
        assert_eq!(policy.on_failure(now, 0.5), Decision::GiveUp);
    }

    #[test]
    fn a_child_that_never_comes_up_uses_up_its_budget_however_long_each_attempt_takes() {
        let (mut policy, mut now) = policy(RestartSettings { restarts_max: 3, ..RestartSettings::default() });
        for _ in 0..3 {
            assert!(matches!(policy.on_failure(now, 0.5), Decision::Restart { .. }));
            now += seconds(3600);
        }
        assert_eq!(policy.on_failure(now, 0.5), Decision::GiveUp);
    }

    #[test]
    fn changed_delays_are_in_force_from_the_next_failure_on() {
        let settings = |least, most| RestartSettings {
            backoff_min: seconds(least),
            backoff_max: seconds(most),
            jitter: 0.0,
            ..RestartSettings::default()
        };
        let (mut policy, now) = policy(settings(1, 60));
        let mut fail = |settings| {
            policy.settings = settings;
            policy.on_failure(now, 0.0)
        };
        let after = |after| Decision::Restart { after: seconds(after) };
        assert_eq!([fail(settings(1, 60)), fail(settings(1, 60))], [after(1), after(2)]);
        assert_eq!([fail(settings(1, 3)), fail(settings(1, 3))], [after(3), after(3)]);
        assert_eq!([fail(settings(10, 60)), fail(settings(10, 60))], [after(10), after(20)]);
    }

    #[test]
    fn a_larger_window_counts_the_restarts_that_were_outside_the_smaller_one() {
        let narrow = RestartSettings { restarts_max: 2, window: seconds(1), ..RestartSettings::default() };
        let (mut policy, mut now) = policy(narrow);
        for _ in 0..3 {
            assert!(matches!(policy.on_failure(now, 0.0), Decision::Restart { .. }));
            policy.on_started(now);
            now += seconds(10);
        }
        policy.settings.window = seconds(3600);
        policy.settings.restarts_max = 4;
        assert!(matches!(policy.on_failure(now, 0.0), Decision::Restart { .. }));
        assert_eq!(policy.on_failure(now, 0.0), Decision::GiveUp);
    }

    #[test]
    fn what_is_left_of_the_budget_returns_after_the_window() {
        let settings = RestartSettings {
            restarts_max: 3,
            window: seconds(60),
            backoff_min: Duration::ZERO,
            backoff_max: Duration::ZERO,
            ..RestartSettings::default()
        };
        let (mut policy, now) = policy(settings);
        let left = |policy: &World, at: Instant| policy.policy.left(&policy.settings, at);
        assert_eq!(left(&policy, now), (3, None));
        for at in [0, 10] {
            policy.on_started(now + seconds(at));
            policy.on_failure(now + seconds(at), 0.0);
        }
        assert_eq!(left(&policy, now + seconds(20)), (1, Some(now + seconds(60))));
        assert_eq!(left(&policy, now + seconds(60)), (2, Some(now + seconds(70))));
        assert_eq!(left(&policy, now + seconds(70)), (3, None));
        policy.settings.restarts_max = 1;
        assert_eq!(left(&policy, now + seconds(20)), (0, Some(now + seconds(60))), "a budget that was made smaller");
    }

    #[test]
    fn a_smaller_budget_decides_at_the_next_failure() {
        let (mut policy, now) = policy(RestartSettings::default());
        for _ in 0..3 {
            policy.on_started(now);
            policy.on_failure(now, 0.0);
        }
        policy.settings.restarts_max = 3;
        assert_eq!(policy.on_failure(now, 0.0), Decision::GiveUp);
    }

    prop_compose! {
        fn any_settings()(
            restarts_max in 0_u32..8,
            window_ms in 1_u64..120_000,
            backoff_min_ms in 0_u64..5_000,
            spread_ms in 0_u64..60_000,
            jitter in 0.0..=1.0,
            reset_after_ms in 0_u64..120_000,
        ) -> RestartSettings {
            RestartSettings {
                restarts_max,
                window: Duration::from_millis(window_ms),
                backoff_min: Duration::from_millis(backoff_min_ms),
                backoff_max: Duration::from_millis(backoff_min_ms + spread_ms),
                jitter,
                reset_after: Duration::from_millis(reset_after_ms),
            }
        }
    }

    proptest! {
        /// `docs/promises.md#p10-the-restart-policy-is-exact`
        #[test]
        fn restarts_stay_inside_every_window_and_delays_inside_their_bounds(
            // The first settings, and those that replace them before some of the failures.
            first in any_settings(),
            lives in prop::collection::vec(
                (0_u64..200_000, 0.0..1.0_f64, prop::option::weighted(0.2, any_settings())),
                1..60,
            ),
        ) {
            let (mut policy, mut now) = policy(first);
            let mut restarts: Vec<Instant> = Vec::new();
            for (lived_ms, fraction, retuned) in lives {
                policy.settings = retuned.unwrap_or_else(|| policy.settings.clone());
                let settings = policy.settings.clone();
                let longest = settings.backoff_max + settings.backoff_max.mul_f64(settings.jitter);
                policy.on_started(now);
                now += Duration::from_millis(lived_ms);
                match policy.on_failure(now, fraction) {
                    Decision::Restart { after } => {
                        prop_assert!(settings.backoff_min <= after && after <= longest, "{after:?}");
                        now += after;
                        restarts.push(now);
                    }
                    Decision::GiveUp => {
                        let recent = restarts.iter().filter(|&&at| now < at + settings.window).count();
                        prop_assert!(recent >= settings.restarts_max as usize, "gave up after {recent} restarts");
                        break;
                    }
                }
                let in_window = restarts.iter().filter(|&&at| now < at + settings.window).count();
                prop_assert!(in_window <= settings.restarts_max as usize, "{in_window} restarts in one window");
            }
        }
    }
}
