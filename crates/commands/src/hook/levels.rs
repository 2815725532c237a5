//! Consent levels of this computer, as the server last reported them.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::consent::ConsentLevel;
use domain::lane::Lane;
use domain::{Clock, Timestamp};
use serde::{Deserialize, Serialize};

use super::folder::HookFolder;
use crate::failure::Failure;

/// Lanes of the events of hooks.
pub const LANES: [Lane; 4] = [Lane::Llm, Lane::Skill, Lane::Memory, Lane::Security];

/// Name of the file.
const NAME: &str = "consent.json";

/// The level until the server has reported one.
const UNKNOWN: ConsentLevel = ConsentLevel::MetadataOnly;

/// Age from which a level no longer permits more than [`UNKNOWN`].
const TRUSTED_FOR: Duration = Duration::from_hours(24);

/// Age of the levels from which a hook starts the sender, which reads them again, even if the hook's event is off.
const ASKED_EVERY: Duration = Duration::from_mins(1);

/// The known levels.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Levels {
    lanes: BTreeMap<Lane, KnownLevel>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct KnownLevel {
    level: ConsentLevel,
    read_at: Timestamp,
}

impl KnownLevel {
    /// Whether the level was read less than `limit` ago. A time in the future, before the clock was set back, counts as old.
    fn is_within(self, limit: Duration, now: Timestamp) -> bool {
        (now - self.read_at).to_std().is_ok_and(|age| age < limit)
    }
}

impl Levels {
    /// The levels on disk; empty if the file is missing or cannot be read.
    pub fn cached(folder: &HookFolder) -> Self {
        folder.files.json(NAME).ok().flatten().unwrap_or_default()
    }

    /// Writes the levels.
    pub fn keep(&self, folder: &HookFolder) -> Result<(), Failure> {
        folder.files.write_json(NAME, self)
    }

    /// Sets the level of a lane.
    pub fn set(&mut self, lane: Lane, level: ConsentLevel, clock: &Clock) {
        self.lanes.insert(lane, KnownLevel { level, read_at: clock.now() });
    }

    /// The level at which an event may be spooled.
    pub fn level(&self, lane: Lane, now: Timestamp) -> ConsentLevel {
        match self.lanes.get(&lane) {
            Some(known) if known.is_within(TRUSTED_FOR, now) => known.level,
            Some(known) => known.level.min(UNKNOWN),
            None => UNKNOWN,
        }
    }

    /// Whether the level of a lane should be read again although no event is sent.
    pub fn is_due(&self, lane: Lane, now: Timestamp) -> bool {
        self.lanes.get(&lane).is_none_or(|known| !known.is_within(ASKED_EVERY, now))
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    #[test]
    fn old_and_unknown_levels_permit_metadata_at_most() {
        let clock = Clock::system();
        let now = clock.now();
        let mut levels = Levels::default();
        assert_eq!(levels.level(Lane::Llm, now), ConsentLevel::MetadataOnly);
        levels.set(Lane::Llm, ConsentLevel::Full, &clock);
        levels.set(Lane::Skill, ConsentLevel::Off, &clock);
        let at = |lane, hours| levels.level(lane, now + TimeDelta::hours(hours));
        assert_eq!((at(Lane::Llm, 1), at(Lane::Skill, 1)), (ConsentLevel::Full, ConsentLevel::Off));
        assert_eq!((at(Lane::Llm, 25), at(Lane::Skill, 25)), (ConsentLevel::MetadataOnly, ConsentLevel::Off));
        assert_eq!(at(Lane::Llm, -1), ConsentLevel::MetadataOnly);
        let due = |lane, seconds| levels.is_due(lane, now + TimeDelta::seconds(seconds));
        assert!(!due(Lane::Llm, 30) && due(Lane::Llm, 90) && due(Lane::Memory, 0));
    }
}
