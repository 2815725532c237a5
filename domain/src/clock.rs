//! Time as a value: whoever needs "now" is handed a [`Clock`], so that a test can hold it still.

use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, DurationRound, SecondsFormat, TimeDelta, Utc};

/// A moment in UTC. Clocks hand it out in whole milliseconds, the precision that both databases keep.
pub type Timestamp = DateTime<Utc>;

/// A moment as every date-time of the API is written: RFC 3339 in UTC, with milliseconds.
pub fn date_time(moment: Timestamp) -> String {
    moment.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Where "now" comes from.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// The machine's wall clock.
    pub fn system() -> Self {
        #[expect(clippy::disallowed_methods, reason = "this is the one door to the wall clock")]
        Self(Arc::new(Utc::now))
    }

    /// A clock that reads `source`, for tests and simulations.
    pub fn from_fn(source: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(source))
    }

    /// The present moment, in whole milliseconds.
    pub fn now(&self) -> Timestamp {
        let now = (self.0)();
        now.duration_trunc(TimeDelta::milliseconds(1)).unwrap_or(now)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
