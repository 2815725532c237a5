//! Spaces: where memories are put, and who may read and write there (`docs/decisions/0036-spaces.md`).

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::{SpaceId, UserAccountId};
use crate::{Timestamp, UnknownName};

/// Characters of the name of a space or of a key.
pub const NAME_CHARS_MAX: usize = 100;

/// The name of the space that an account adds to when it names none.
pub const DEFAULT_NAME: &str = "Memories";

/// What a space is called: 1 to [`NAME_CHARS_MAX`] characters, trimmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct SpaceName(String);

impl SpaceName {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A text that names no space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected 1 to {NAME_CHARS_MAX} characters without line breaks")]
pub struct NotAName;

impl FromStr for SpaceName {
    type Err = NotAName;

    fn from_str(text: &str) -> Result<Self, NotAName> {
        let text = text.trim();
        let fits = (1..=NAME_CHARS_MAX).contains(&text.chars().count()) && !text.chars().any(char::is_control);
        if fits { Ok(Self(text.to_owned())) } else { Err(NotAName) }
    }
}

/// What an account may do in a space: the `accessType` of the answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(strum::EnumString, strum::IntoStaticStr, strum::VariantNames, strum::Display, strum::VariantArray)]
#[strum(serialize_all = "lowercase", parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<Self>)]
pub enum AccessType {
    /// Search.
    Read,
    /// Search and add.
    Edit,
    /// Everything.
    Owner,
}

impl AccessType {
    /// All kinds of access, the weakest first.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The name in requests, responses and rows.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A space, as one account sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Space {
    /// Its id.
    pub id: SpaceId,
    /// Whose.
    pub owner: UserAccountId,
    /// What its owner is called, if that is known.
    pub owner_name: Option<String>,
    /// What it is called.
    pub name: SpaceName,
    /// Whether any valid key may read it.
    pub is_public: bool,
    /// Whether the looking account marked it.
    pub is_favorite: bool,
    /// Whether its owner adds here without naming a space.
    pub is_default: bool,
    /// What the looking account may do.
    pub access: AccessType,
    /// Since when.
    pub created_at: Timestamp,
}

/// The first and the last name in a name as people write it: the last word is the last name; `""` where there is none.
pub fn split_name(name: Option<&str>) -> (String, String) {
    let name = name.unwrap_or_default().trim();
    match name.rsplit_once(char::is_whitespace) {
        Some((first, last)) => (first.trim_end().to_owned(), last.to_owned()),
        None => (name.to_owned(), String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_trimmed_and_bounded() {
        assert_eq!(" Trips ".parse::<SpaceName>().unwrap().as_str(), "Trips");
        assert!("é".repeat(NAME_CHARS_MAX).parse::<SpaceName>().is_ok());
        for wrong in ["", " \t ", "a\nb", &"é".repeat(NAME_CHARS_MAX + 1)] {
            assert_eq!(wrong.parse::<SpaceName>(), Err(NotAName), "{wrong:?}");
        }
    }

    #[test]
    fn the_last_word_of_a_name_is_the_last_name() {
        let split = |name| split_name(Some(name));
        assert_eq!(split("Ada King  Lovelace"), ("Ada King".into(), "Lovelace".into()));
        assert_eq!(split(" Ada "), ("Ada".into(), String::new()));
        assert_eq!(split_name(None), (String::new(), String::new()));
    }

    #[test]
    fn access_is_read_as_it_was_written_and_grows() {
        for access in AccessType::ALL {
            assert_eq!(access.to_string().parse(), Ok(*access));
        }
        assert!(AccessType::Read < AccessType::Edit && AccessType::Edit < AccessType::Owner);
    }
}
