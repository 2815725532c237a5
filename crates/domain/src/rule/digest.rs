//! The weekly digest of an account: counts of its events, and their new values.

use std::collections::BTreeMap;

use chrono::{Datelike, NaiveTime, TimeDelta, Weekday};
use serde::{Deserialize, Serialize};

use super::{Novelty, Observed, Sighting};
use crate::Timestamp;
use crate::ids::MachineUuid;
use crate::lane::Lane;
use crate::registry::Tone;

/// Maximum number of computers with a separate count, and of listed new values of a property.
const LISTED_MAX: usize = 20;

/// Hour of Monday in UTC: the week is complete in every time zone west of UTC+6, and the mail is there before the working day in Europe
/// starts.
const HOUR: u32 = 5;

/// Content of a digest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WeekDigest {
    /// Start of the counted period.
    pub since: Timestamp,
    /// Number of events.
    pub events: u64,
    /// Number of events by lane.
    pub lanes: BTreeMap<Lane, u64>,
    /// Number of events by agent kind, of which there are eight.
    pub agents: BTreeMap<String, u64>,
    /// Number of events by computer; further computers are in `events` only.
    pub computers: BTreeMap<MachineUuid, u64>,
    /// Number of events by the name of their tone, without [`Tone::Plain`].
    pub tones: BTreeMap<String, u64>,
    /// The first new values of each property, and the number of all.
    pub new: BTreeMap<Novelty, (Vec<String>, u64)>,
    /// Whether the last digest reported a week without events. The next one is sent after the next event.
    pub was_quiet: bool,
}

impl WeekDigest {
    /// A digest of the period from `since` on.
    pub fn starting(since: Timestamp) -> Self {
        Self { since, ..Self::default() }
    }

    /// Counts an event. `new` are its values that no earlier event had.
    pub fn observe(&mut self, event: &Observed, new: &[Sighting]) {
        if event.received_at < self.since {
            return;
        }
        self.events += 1;
        *self.lanes.entry(event.lane).or_default() += 1;
        *self.agents.entry(event.agent.clone()).or_default() += 1;
        if self.computers.len() < LISTED_MAX || self.computers.contains_key(&event.machine) {
            *self.computers.entry(event.machine).or_default() += 1;
        }
        if event.tone != Tone::Plain {
            *self.tones.entry(event.tone.as_str().to_owned()).or_default() += 1;
        }
        for Sighting { novelty, value } in new {
            let (values, count) = self.new.entry(*novelty).or_default();
            *count += 1;
            if values.len() < LISTED_MAX {
                values.push(value.clone());
            }
        }
    }

    /// Ends the period at `now` and starts the next one. Returns the ended period, unless a digest has already reported that nothing
    /// happens: one such mail shows that recording has stopped, further ones would show nothing new.
    pub fn take(&mut self, now: Timestamp, held: u64) -> Option<Self> {
        let is_quiet = self.events == 0 && held == 0;
        let ended = std::mem::replace(self, Self { was_quiet: is_quiet, ..Self::starting(now) });
        (!(is_quiet && ended.was_quiet)).then_some(ended)
    }
}

/// The time of the next digest after `now`.
pub fn next_digest_after(now: Timestamp) -> Timestamp {
    let days = Weekday::Mon.days_since(now.weekday());
    let hour = NaiveTime::from_hms_opt(HOUR, 0, 0).unwrap_or_default();
    let next = (now.date_naive() + TimeDelta::days(i64::from(days))).and_time(hour).and_utc();
    if next > now { next } else { next + TimeDelta::weeks(1) }
}
