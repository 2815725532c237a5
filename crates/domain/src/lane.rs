//! Lanes: the categories of event types.

use serde::{Deserialize, Serialize};

use crate::UnknownName;

/// The category of an event type. Consent is set and activity is read per lane.
///
/// Names, explanations and examples for people are in this file only: pages, help texts and documents show them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(strum::EnumString, strum::IntoStaticStr, strum::VariantNames, strum::Display, strum::VariantArray)]
#[strum(serialize_all = "lowercase", parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<Self>)]
pub enum Lane {
    /// What an agent stores in a memory, and searches there.
    Memory,
    /// Prompts, and calls of language models.
    Llm,
    /// Sessions, and the use of tools and skills.
    Skill,
    /// Permissions, findings and changes of consent.
    Security,
    /// Tasks and messages between agents.
    Squad,
    /// Reviews of an agent's own work.
    Rsi,
}

impl Lane {
    /// All six lanes, in the order of the specification.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The name in events, queries and rows.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The name for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Memory => "Memory",
            Self::Llm => "Model calls",
            Self::Skill => "Tools",
            Self::Security => "Security",
            Self::Squad => "Team",
            Self::Rsi => "Self-review",
        }
    }

    /// What the lane contains, in one sentence.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Memory => "What an agent stores in its memory, looks up there and forgets.",
            Self::Llm => "Prompts that an agent gets, and its calls of language models.",
            Self::Skill => "Sessions of an agent, and the tools that it installs and runs.",
            Self::Security => "Permissions that an agent asks for, actions that were blocked, and changes of consent.",
            Self::Squad => "Tasks and messages that agents give each other.",
            Self::Rsi => "Reviews in which an agent evaluates and improves its own work.",
        }
    }

    /// The summary of a typical event.
    pub fn example(self) -> &'static str {
        match self {
            Self::Memory => "Searched the memory · 4 results",
            Self::Llm => "gpt-5.2 · 9,893 → 484 tokens · 3.1 s",
            Self::Skill => "Ran Bash · 0.4 s",
            Self::Security => "Permission denied · Bash",
            Self::Squad => "Assigned a task to reviewer",
            Self::Rsi => "Completed a retrospective · 3 findings · 7 days",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_have_different_names_and_each_a_sentence() {
        let titles: std::collections::BTreeSet<_> = Lane::ALL.iter().map(|lane| lane.title()).collect();
        assert_eq!(titles.len(), Lane::ALL.len());
        assert!(Lane::ALL.iter().all(|lane| lane.meaning().ends_with('.') && !lane.example().is_empty()));
    }
}
