//! Circuit breaker: stops requests to a service that fails repeatedly. After a delay it admits one request as a probe; the delay is short
//! at first and doubles after each failed probe. Pure: time is a parameter.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Settings `[upstream.breaker]`: when requests to the statistics service are suspended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct BreakerSettings {
    pub failures: u32,
    #[serde(with = "humantime_serde")]
    pub open: Duration,
}

/// Time that the breaker stays open after the first failures, unless the setting is shorter.
pub const OPEN_FIRST: Duration = Duration::from_secs(1);

impl Default for BreakerSettings {
    fn default() -> Self {
        Self { failures: 10, open: Duration::from_secs(15) }
    }
}

/// The result of a request, as far as it shows the health of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallResult {
    /// The service answered without an internal failure.
    Healthy,
    /// The service did not answer, or reported an internal failure.
    Failed,
    /// The result does not show the health of the service: the caller gave up, or judges the response itself.
    Unknown,
}

/// How a request was admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// The breaker is closed: the outcome counts.
    Free,
    /// As the only request, to test whether the service has recovered.
    Probe,
}

/// State of the breaker with its settings.
#[derive(Debug, Clone)]
pub struct Breaker {
    settings: BreakerSettings,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed {
        failures: u32,
    },
    Open {
        since: Instant,
        lasts: Duration,
    },
    /// One request is in flight; the breaker was open for this long before it.
    Probing {
        lasted: Duration,
    },
}

impl Breaker {
    /// Creates a closed breaker.
    pub fn new(settings: BreakerSettings) -> Self {
        Self { settings, state: State::Closed { failures: 0 } }
    }

    /// Whether a request may go now; a caller that gets `Some` must [`record`](Self::record) how the request ended.
    pub fn admit(&mut self, now: Instant) -> Option<Admission> {
        match self.state {
            State::Closed { .. } => Some(Admission::Free),
            State::Open { since, lasts } if now.duration_since(since) >= lasts => {
                self.state = State::Probing { lasted: lasts };
                Some(Admission::Probe)
            }
            State::Open { .. } | State::Probing { .. } => None,
        }
    }

    /// Records how an admitted request ended. Only the probe can close an open breaker: a request that was admitted before the breaker
    /// opened shows the earlier state of the service.
    pub fn record(&mut self, admission: Admission, verdict: CallResult, now: Instant) {
        let max = self.settings.open;
        self.state = match (self.state, admission, verdict) {
            (State::Closed { .. }, Admission::Free, CallResult::Healthy)
            | (State::Probing { .. }, Admission::Probe, CallResult::Healthy) => State::Closed { failures: 0 },
            (State::Closed { failures }, Admission::Free, CallResult::Failed) => {
                let failures = failures.saturating_add(1);
                if failures == self.settings.failures {
                    State::Open { since: now, lasts: OPEN_FIRST.min(max) }
                } else {
                    State::Closed { failures }
                }
            }
            (State::Probing { lasted }, Admission::Probe, CallResult::Failed) => {
                State::Open { since: now, lasts: lasted.saturating_mul(2).min(max) }
            }
            // The next request may probe immediately.
            (State::Probing { lasted }, Admission::Probe, CallResult::Unknown) => {
                State::Open { since: now.checked_sub(lasted).unwrap_or(now), lasts: lasted }
            }
            (state, _, _) => state,
        };
    }

    /// How long requests are still refused, for readiness; zero while a probe is in flight. `None` if the next request is admitted: an open
    /// breaker does not show the current state of the service after its delay has passed.
    pub fn refuses_for(&self, now: Instant) -> Option<Duration> {
        match self.state {
            State::Closed { .. } => None,
            State::Open { since, lasts } => lasts.checked_sub(now.duration_since(since)).filter(|left| !left.is_zero()),
            State::Probing { .. } => Some(Duration::ZERO),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SETTINGS: BreakerSettings = BreakerSettings { failures: 10, open: Duration::from_secs(15) };

    fn fail(breaker: &mut Breaker, now: Instant) {
        let admission = breaker.admit(now).unwrap();
        breaker.record(admission, CallResult::Failed, now);
    }

    #[test]
    fn ten_failures_in_a_row_open_it_for_a_second_and_each_failed_probe_for_twice_as_long() {
        let (mut breaker, start) = (Breaker::new(SETTINGS), Instant::now());
        for _ in 0..9 {
            fail(&mut breaker, start);
        }
        let admission = breaker.admit(start).unwrap();
        breaker.record(admission, CallResult::Healthy, start);
        for _ in 0..10 {
            assert_eq!(breaker.refuses_for(start), None, "an answer in between starts the count again");
            fail(&mut breaker, start);
        }
        let mut later = start;
        for seconds in [1, 2, 4, 8, 15, 15] {
            let open = Duration::from_secs(seconds);
            assert_eq!(breaker.refuses_for(later), Some(open));
            assert_eq!(breaker.admit(later + open.saturating_sub(Duration::from_millis(1))), None);
            later += open;
            assert_eq!(breaker.refuses_for(later), None, "the next request may go");
            assert_eq!(breaker.admit(later), Some(Admission::Probe));
            assert_eq!(breaker.refuses_for(later), Some(Duration::ZERO));
            assert_eq!(breaker.admit(later), None, "one probe at a time");
            breaker.record(Admission::Probe, CallResult::Failed, later);
        }
        later += SETTINGS.open;
        assert_eq!(breaker.admit(later), Some(Admission::Probe));
        breaker.record(Admission::Probe, CallResult::Healthy, later);
        assert_eq!(breaker.admit(later), Some(Admission::Free));
        for _ in 0..10 {
            fail(&mut breaker, later);
        }
        assert_eq!(breaker.refuses_for(later), Some(OPEN_FIRST), "the next fault begins with a short time");
    }

    #[test]
    fn a_setting_that_is_shorter_than_the_first_time_is_the_time() {
        let (mut breaker, start) =
            (Breaker::new(BreakerSettings { failures: 1, open: Duration::from_millis(20) }), Instant::now());
        fail(&mut breaker, start);
        assert_eq!(breaker.admit(start + Duration::from_millis(20)), Some(Admission::Probe));
    }

    #[test]
    fn a_probe_that_is_given_up_lets_the_next_request_try() {
        let (mut breaker, start) = (Breaker::new(SETTINGS), Instant::now());
        for _ in 0..10 {
            fail(&mut breaker, start);
        }
        let later = start + Duration::from_secs(20);
        assert_eq!(breaker.admit(later), Some(Admission::Probe));
        breaker.record(Admission::Probe, CallResult::Unknown, later);
        assert_eq!(breaker.admit(later), Some(Admission::Probe));
    }

    #[test]
    fn zero_failures_switch_it_off() {
        let mut breaker = Breaker::new(BreakerSettings { failures: 0, ..SETTINGS });
        for _ in 0..100 {
            fail(&mut breaker, Instant::now());
        }
    }

    proptest! {
        /// For any interleaving of requests, an open breaker admits only the probe, and closes after a success.
        #[test]
        fn it_never_locks_itself_in(steps in prop::collection::vec((0..3_u8, 0..4_u8, 0..8_u64), 0..200)) {
            let (mut breaker, mut now) = (Breaker::new(BreakerSettings { failures: 2, ..SETTINGS }), Instant::now());
            let mut running: Vec<Admission> = Vec::new();
            for (action, verdict, seconds) in steps {
                now += Duration::from_secs(seconds);
                if action == 0 {
                    running.extend(breaker.admit(now));
                } else if !running.is_empty() {
                    let admission = running.remove(0);
                    let verdict = [CallResult::Healthy, CallResult::Failed, CallResult::Failed, CallResult::Unknown][usize::from(verdict)];
                    breaker.record(admission, verdict, now);
                }
                prop_assert!(running.iter().filter(|admission| **admission == Admission::Probe).count() <= 1);
            }
            for admission in running {
                breaker.record(admission, CallResult::Unknown, now);
            }
            prop_assert!(breaker.admit(now + SETTINGS.open).is_some());
        }
    }
}
