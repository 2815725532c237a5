//! Keys of the knowledge API: the permissions of a program that is no agent (`docs/decisions/0035-api-keys.md`).

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::{ApiKeyId, SpaceId, UserAccountId};
use crate::space::NAME_CHARS_MAX;
use crate::{Timestamp, UnknownName};

/// Spaces that one key may name.
pub const SPACES_MAX: usize = 100;

/// One thing that a key opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(strum::EnumString, strum::IntoStaticStr, strum::VariantNames, strum::Display, strum::VariantArray)]
#[strum(serialize_all = "lowercase", parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<Self>)]
pub enum ApiKeyScope {
    /// Searching and reading.
    Search,
    /// Adding, and making spaces.
    Write,
    /// Changing what new content has to be.
    Settings,
}

impl ApiKeyScope {
    /// All scopes, in the order in which a key lists them.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The name in requests, responses and rows.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// What its owner calls a key: 1 to [`NAME_CHARS_MAX`] characters, trimmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ApiKeyName(String);

impl ApiKeyName {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A text that names no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected 1 to {NAME_CHARS_MAX} characters without line breaks")]
pub struct NotAName;

impl FromStr for ApiKeyName {
    type Err = NotAName;

    fn from_str(text: &str) -> Result<Self, NotAName> {
        let text = text.trim();
        let fits = (1..=NAME_CHARS_MAX).contains(&text.chars().count()) && !text.chars().any(char::is_control);
        if fits { Ok(Self(text.to_owned())) } else { Err(NotAName) }
    }
}

/// A key, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Its id.
    pub id: ApiKeyId,
    /// Whose.
    pub account: UserAccountId,
    /// What its owner calls it.
    pub name: ApiKeyName,
    /// What it opens; at least one, each once.
    pub scopes: Vec<ApiKeyScope>,
    /// Where; everywhere in the account when absent.
    pub spaces: Option<Vec<SpaceId>>,
    /// Since when.
    pub created_at: Timestamp,
    /// Until when; without an end when absent.
    pub expires_at: Option<Timestamp>,
    /// When it was used last, as far as it was written.
    pub last_used_at: Option<Timestamp>,
    /// When its owner ended it.
    pub revoked_at: Option<Timestamp>,
}

impl ApiKey {
    /// Whether it opens anything now.
    pub fn is_good(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }
}

/// Scopes in one order, each once; all of them when none is named.
pub fn scopes_of(named: &[ApiKeyScope]) -> Vec<ApiKeyScope> {
    ApiKeyScope::ALL.iter().copied().filter(|scope| named.is_empty() || named.contains(scope)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_line_of_a_hundred_characters_at_most() {
        assert_eq!(" backup job ".parse::<ApiKeyName>().unwrap().as_str(), "backup job");
        assert!("é".repeat(100).parse::<ApiKeyName>().is_ok());
        for wrong in ["", "   ", "a\nb", "a\0", &"é".repeat(101)] {
            assert_eq!(wrong.parse::<ApiKeyName>(), Err(NotAName), "{wrong:?}");
        }
    }

    #[test]
    fn scopes_are_listed_once_and_nothing_named_is_everything() {
        use ApiKeyScope::{Search, Settings, Write};
        assert_eq!(scopes_of(&[]), [Search, Write, Settings]);
        assert_eq!(scopes_of(&[Write, Search, Write]), [Search, Write]);
        for scope in ApiKeyScope::ALL {
            assert_eq!(scope.as_str().parse(), Ok(*scope));
        }
        let unknown = "admin".parse::<ApiKeyScope>().unwrap_err();
        assert_eq!(unknown.to_string(), "expected one of search, write, settings");
    }
}
