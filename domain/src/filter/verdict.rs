//! The decision about one item.

use serde::{Deserialize, Serialize};

use crate::UnknownName;

/// Who decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(strum::EnumString, strum::IntoStaticStr, strum::VariantNames, strum::Display)]
#[strum(serialize_all = "lowercase", parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<Self>)]
pub enum VerdictBy {
    /// A language model.
    Llm,
    /// The whole-word rules.
    Rules,
    /// Nobody: nothing was asked of the content, or the language model gave no answer.
    Unfiltered,
}

impl VerdictBy {
    /// The name in responses and rows.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// What was decided about one item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterVerdict {
    /// Whether it is kept.
    pub keep: bool,
    /// Which of the account's categories it belongs to.
    pub categories: Vec<String>,
    /// Why, for people; empty when there is nothing to say.
    pub reason: String,
    /// Who decided.
    pub by: VerdictBy,
}

impl FilterVerdict {
    /// Kept without having been judged.
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
