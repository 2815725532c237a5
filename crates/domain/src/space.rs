//! Spaces: sets of memories with their own readers (`docs/decisions/0020-keys-and-spaces.md`).

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::{SpaceId, UserAccountId};
use crate::{Timestamp, UnknownName};

/// Maximum length of the name of a space or an API key, in characters.
pub const NAME_CHARS_MAX: usize = 100;

/// Name of the default space, which an account adds to if a request names no space.
pub const DEFAULT_NAME: &str = "Memories";

/// Name of a space: 1 to [`NAME_CHARS_MAX`] characters without control characters, trimmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct SpaceName(String);

impl SpaceName {
    /// The trimmed name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A text that cannot name a space or an API key: empty, too long, or with a control character.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected 1 to {NAME_CHARS_MAX} characters without line breaks")]
pub struct InvalidName;

impl FromStr for SpaceName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        parse_name(text).map(Self)
    }
}

/// Trims and checks the name of a space or an API key.
pub(crate) fn parse_name(text: &str) -> Result<String, InvalidName> {
    let text = text.trim();
    let fits = (1..=NAME_CHARS_MAX).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    if fits { Ok(text.to_owned()) } else { Err(InvalidName) }
}

/// What an account may do in a space: `accessType` of responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(strum::EnumString, strum::IntoStaticStr, strum::VariantNames, strum::Display, strum::VariantArray)]
#[strum(serialize_all = "lowercase", parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<Self>)]
pub enum AccessType {
    /// Search and read.
    Read,
    /// Search, read and add.
    Edit,
    /// All operations, including sharing and deletion.
    Owner,
}

impl AccessType {
    /// All access types, the weakest first.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The name in requests, responses and rows.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A space, as seen by one account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Space {
    /// Identifies the space in routes.
    pub id: SpaceId,
    /// The account that owns the space.
    pub owner: UserAccountId,
    /// Name of the owner, if known.
    pub owner_name: Option<String>,
    /// Chosen by the owner.
    pub name: SpaceName,
    /// Whether every valid API key may read the space.
    pub is_public: bool,
    /// Whether the viewing account marked the space as a favourite.
    pub is_favorite: bool,
    /// Whether this is the owner's default space.
    pub is_default: bool,
    /// Access of the viewing account.
    pub access: AccessType,
    /// Time of creation.
    pub created_at: Timestamp,
}

/// Splits a full name into first and last name: the last word is the last name. Missing parts are empty.
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
            assert_eq!(wrong.parse::<SpaceName>(), Err(InvalidName), "{wrong:?}");
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
