//! The name that an account gives to one of its computers or agents (`docs/decisions/0002-accounts-and-computers.md`).

use std::str::FromStr;

use serde::Serialize;

use crate::space::{InvalidName, parse_name};

/// A label: 1 to [`crate::space::NAME_CHARS_MAX`] characters without control characters, trimmed. Only the account that gave it sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Label(String);

impl Label {
    /// The trimmed label.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The label of a form or a request: `None` if the text is empty, which removes a label.
    ///
    /// # Errors
    /// [`InvalidName`] if the text is too long or contains control characters.
    pub fn or_none(text: &str) -> Result<Option<Self>, InvalidName> {
        if text.trim().is_empty() { Ok(None) } else { text.parse().map(Some) }
    }
}

impl FromStr for Label {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        parse_name(text).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_text_removes_a_label_and_a_long_one_is_refused() {
        assert_eq!(Label::or_none(" Ada's laptop ").unwrap().unwrap().as_str(), "Ada's laptop");
        assert_eq!(Label::or_none("  "), Ok(None));
        for wrong in ["a\nb", "a\0", &"é".repeat(101)] {
            assert_eq!(Label::or_none(wrong), Err(InvalidName), "{wrong:?}");
        }
    }
}
