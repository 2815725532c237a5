//! Parts of the log: whole logs on further database servers, each with its own tree and key (`docs/decisions/0047-log-parts.md`).
//!
//! An append-only log is never rebalanced: a computer belongs to one part for its life, so that its chains are in one tree.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Digest;
use crate::checkpoint::base_of;
use crate::ids::MachineUuid;

/// The number of a part. The first part is the log of an installation without further parts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LogPart(u16);

impl LogPart {
    /// The log in the main database's server.
    pub const FIRST: Self = Self(0);

    /// A part by its number.
    pub const fn new(number: u16) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn number(self) -> u16 {
        self.0
    }

    /// Whether it is the log in the main database's server.
    pub const fn is_first(self) -> bool {
        self.0 == 0
    }

    /// The origin of its checkpoints, by the origin of the first part.
    pub fn origin(self, first: &str) -> String {
        if self.is_first() { first.to_owned() } else { format!("{first}/p{}", self.0) }
    }

    /// The part of an origin by its form, in any epoch. The origin of a first part can have the form of a further part's origin.
    pub fn by_form(origin: &str) -> Self {
        split_by_form(origin).1
    }
}

/// Whether two origins, of any epochs, may be of parts of one log, by their form.
pub fn may_be_of_one_log(one: &str, other: &str) -> bool {
    let (first, of_other) = (split_by_form(one).0, split_by_form(other).0);
    first == of_other || base_of(one) == of_other || first == base_of(other)
}

/// The origin of the first part, and the number of the part.
fn split_by_form(origin: &str) -> (&str, LogPart) {
    let base = base_of(origin);
    let split = base.rsplit_once("/p").and_then(|(first, number)| Some((first, LogPart(number.parse().ok()?))));
    split.unwrap_or((base, LogPart::FIRST))
}

impl fmt::Display for LogPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for LogPart {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// The shares of new computers that the parts get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartWeights(Vec<(LogPart, u32)>);

impl PartWeights {
    /// The weights of all parts; `None` if all are 0, so that no part takes new computers.
    pub fn new(weights: impl IntoIterator<Item = (LogPart, u32)>) -> Option<Self> {
        let mut weights: Vec<_> = weights.into_iter().filter(|(_, weight)| *weight > 0).collect();
        weights.sort_unstable();
        (!weights.is_empty()).then_some(Self(weights))
    }

    /// The part of a new computer: by its id, so that every node chooses the same.
    pub fn part_of(&self, machine: MachineUuid) -> LogPart {
        let total: u64 = self.0.iter().map(|(_, weight)| u64::from(*weight)).sum();
        let hash = Digest::of(machine.as_uuid().as_bytes());
        let hash = hash.as_bytes().iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        let mut place = hash % total.max(1);
        for (part, weight) in &self.0 {
            match place.checked_sub(u64::from(*weight)) {
                Some(rest) => place = rest,
                None => return *part,
            }
        }
        LogPart::FIRST
    }
}

impl Default for PartWeights {
    fn default() -> Self {
        Self(vec![(LogPart::FIRST, 1)])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Rng;

    #[test]
    fn a_part_has_an_origin_below_that_of_the_first() {
        let parts = [LogPart::FIRST, LogPart::new(3)].map(|part| part.origin("attache/log"));
        assert_eq!(parts, ["attache/log", "attache/log/p3"]);
        assert_eq!("12".parse(), Ok(LogPart::new(12)));
        assert!("-1".parse::<LogPart>().is_err() && "65536".parse::<LogPart>().is_err());
        for (origin, part) in [("attache/log/p3", 3), ("attache/log/p3/epoch-19700101T000000Z", 3), ("attache/log", 0)]
        {
            assert_eq!(LogPart::by_form(origin), LogPart::new(part), "{origin}");
        }
        for origin in ["attache/log/p1", "attache/log/p2", "attache/log/epoch-19700101T000000Z"] {
            assert!(
                may_be_of_one_log("attache/log", origin) && may_be_of_one_log(origin, "attache/log/p1"),
                "{origin}"
            );
        }
        assert!(may_be_of_one_log("acme/p7", "acme/p7/p1") && may_be_of_one_log("acme/p7/p1", "acme/p7"));
        assert!(!may_be_of_one_log("attache/log", "other/log/p1") && !may_be_of_one_log("attache/log/p1", "other/log"));
    }

    #[test]
    fn new_computers_go_to_the_parts_by_weight_and_each_always_to_the_same() {
        let weights = [(0, 0), (1, 1), (2, 3)].map(|(part, weight)| (LogPart::new(part), weight));
        let weights = PartWeights::new(weights).unwrap();
        let rng = Rng::seeded(5);
        let mut counts: BTreeMap<u16, i32> = BTreeMap::new();
        for _ in 0..4000 {
            let machine = rng.uuid_v7(crate::Timestamp::UNIX_EPOCH).into();
            let part = weights.part_of(machine);
            assert_eq!(part, weights.part_of(machine));
            *counts.entry(part.number()).or_default() += 1;
        }
        assert_eq!(counts.keys().collect::<Vec<_>>(), [&1, &2]);
        assert!((counts[&1] - 1000).abs() < 100, "{counts:?}");
        assert_eq!(PartWeights::new([(LogPart::FIRST, 0)]), None);
        assert_eq!(PartWeights::default().part_of(rng.uuid_v7(crate::Timestamp::UNIX_EPOCH).into()), LogPart::FIRST);
    }
}
