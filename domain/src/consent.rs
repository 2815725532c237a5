//! Consent levels, and which of several recorded levels holds (decisions, section 10).

pub mod change;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::MachineUuid;
use crate::lane::Lane;

/// How much of an activity a person lets be recorded, from nothing to everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConsentLevel {
    /// Nothing.
    Off,
    /// That something happened, not its content.
    MetadataOnly,
    /// Content too.
    Full,
}

impl ConsentLevel {
    /// The level as it is written in requests, events and rows.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::MetadataOnly => "metadata-only",
            Self::Full => "full",
        }
    }
}

impl fmt::Display for ConsentLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that is no consent level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected one of off, metadata-only, full")]
pub struct UnknownLevel;

impl FromStr for ConsentLevel {
    type Err = UnknownLevel;

    fn from_str(text: &str) -> Result<Self, UnknownLevel> {
        [Self::Off, Self::MetadataOnly, Self::Full].into_iter().find(|level| level.as_str() == text).ok_or(UnknownLevel)
    }
}

/// One level that a person set for an identity: for one machine or all, for one lane or all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsentRule {
    /// The machine, or all machines of the identity.
    pub machine: Option<MachineUuid>,
    /// The lane, or all lanes.
    pub lane: Option<Lane>,
    /// The level set.
    pub level: ConsentLevel,
}

/// The level that a person set explicitly for `machine` and `lane`: the most specific rule that applies, a rule for the
/// machine before a baseline, a rule for the lane before one for all lanes. `None` when no rule applies; the configured
/// default is then only reported, never enforced.
pub fn explicit_level(rules: &[ConsentRule], machine: MachineUuid, lane: Lane) -> Option<ConsentLevel> {
    rules
        .iter()
        .filter(|rule| rule.machine.is_none_or(|only| only == machine) && rule.lane.is_none_or(|only| only == lane))
        .max_by_key(|rule| (rule.machine.is_some(), rule.lane.is_some()))
        .map(|rule| rule.level)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Chance, Timestamp};

    #[test]
    fn the_most_specific_rule_holds() {
        let machine = MachineUuid::from(Chance::seeded(1).uuid_v7(Timestamp::UNIX_EPOCH));
        let other = MachineUuid::from(Chance::seeded(2).uuid_v7(Timestamp::UNIX_EPOCH));
        let rule = |machine, lane, level| ConsentRule { machine, lane, level };
        let mut rules = vec![];
        assert_eq!(explicit_level(&rules, machine, Lane::Memory), None);
        for (machine_rule, lane_rule, level) in [
            (None, None, ConsentLevel::Full),
            (None, Some(Lane::Memory), ConsentLevel::Off),
            (Some(machine), None, ConsentLevel::MetadataOnly),
            (Some(machine), Some(Lane::Memory), ConsentLevel::Full),
        ] {
            rules.insert(0, rule(machine_rule, lane_rule, level));
            assert_eq!(explicit_level(&rules, machine, Lane::Memory), Some(level));
        }
        assert_eq!(explicit_level(&rules, machine, Lane::Llm), Some(ConsentLevel::MetadataOnly));
        assert_eq!(explicit_level(&rules, other, Lane::Memory), Some(ConsentLevel::Off));
        assert_eq!(explicit_level(&rules, other, Lane::Llm), Some(ConsentLevel::Full));
    }

    #[test]
    fn levels_are_ordered_from_nothing_to_everything() {
        assert!(ConsentLevel::Off < ConsentLevel::MetadataOnly && ConsentLevel::MetadataOnly < ConsentLevel::Full);
    }
}
