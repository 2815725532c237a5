//! The six lanes in which events stand.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The six lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the specification names the lanes and says no more about them")]
pub enum Lane {
    Memory,
    Llm,
    Skill,
    Security,
    Squad,
    Rsi,
}

impl Lane {
    /// All of them, in the order of the specification.
    pub const ALL: [Self; 6] = [Self::Memory, Self::Llm, Self::Skill, Self::Security, Self::Squad, Self::Rsi];

    /// The lane as it is written in events, queries and rows.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Llm => "llm",
            Self::Skill => "skill",
            Self::Security => "security",
            Self::Squad => "squad",
            Self::Rsi => "rsi",
        }
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that is no lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected one of memory, llm, skill, security, squad, rsi")]
pub struct UnknownLane;

impl FromStr for Lane {
    type Err = UnknownLane;

    fn from_str(text: &str) -> Result<Self, UnknownLane> {
        Self::ALL.into_iter().find(|lane| lane.as_str() == text).ok_or(UnknownLane)
    }
}
