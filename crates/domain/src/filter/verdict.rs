//! Verdict of the filter about one item.

use serde::{Deserialize, Serialize};

use crate::UnknownName;

/// The party that decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(strum::EnumString, strum::IntoStaticStr, strum::VariantNames, strum::Display)]
#[strum(serialize_all = "lowercase", parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<Self>)]
pub enum VerdictBy {
    /// A language model.
    Llm,
    /// The include and exclude lists.
    Rules,
    /// No decision: the filter is inactive, or the response of the language model was not usable.
    Unfiltered,
}

impl VerdictBy {
    /// The name in responses and rows.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The decision of the filter about one item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterVerdict {
    /// Whether the item is stored.
    pub keep: bool,
    /// Matching categories of the account.
    pub categories: Vec<String>,
    /// Explanation for people; may be empty.
    pub reason: String,
    /// The party that decided.
    pub by: VerdictBy,
}

impl FilterVerdict {
    /// A verdict that keeps the item without a decision.
    pub fn unfiltered(reason: impl Into<String>) -> Self {
        Self { keep: true, categories: Vec::new(), reason: reason.into(), by: VerdictBy::Unfiltered }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_decided_is_read_as_it_was_written() {
        for by in [VerdictBy::Llm, VerdictBy::Rules, VerdictBy::Unfiltered] {
            assert_eq!(by.to_string().parse(), Ok(by));
            assert_eq!(serde_json::to_value(by).unwrap(), by.as_str());
        }
        assert!("x".parse::<VerdictBy>().is_err());
    }
}
