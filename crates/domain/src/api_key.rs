//! API keys: bearer credentials with scopes and spaces (`docs/decisions/0020-keys-and-spaces.md`).

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::{ApiKeyId, SpaceId, UserAccountId};
use crate::space::{InvalidName, parse_name};
use crate::{Timestamp, UnknownName};

/// Maximum number of spaces that one key names.
pub const SPACES_MAX: usize = 100;

/// One permission of an API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(strum::EnumString, strum::IntoStaticStr, strum::VariantNames, strum::Display, strum::VariantArray)]
#[strum(serialize_all = "lowercase", parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<Self>)]
pub enum ApiKeyScope {
    /// Search and read memories.
    Search,
    /// Add memories and create spaces.
    Write,
    /// Change the account's content filter.
    Settings,
    /// Read the account: its summary, computers, usage, activity, proofs and consent.
    Account,
}

impl ApiKeyScope {
    /// All scopes, in the order in which a key lists them.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;
    /// The scopes of the knowledge API, which a key has if the request names none.
    pub const KNOWLEDGE: [Self; 3] = [Self::Search, Self::Write, Self::Settings];
    /// The scopes that `attache login` and `attache connect` request for a computer.
    pub const COMPUTER: [Self; 3] = [Self::Search, Self::Write, Self::Account];

    /// The name in requests, responses and rows.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The owner's name for a key: 1 to [`crate::space::NAME_CHARS_MAX`] characters without control characters, trimmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ApiKeyName(String);

impl ApiKeyName {
    /// The trimmed name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ApiKeyName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        parse_name(text).map(Self)
    }
}

/// The stored form of an API key, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Identifies the key in lists and routes.
    pub id: ApiKeyId,
    /// The account with the memories that the key opens.
    pub account: UserAccountId,
    /// Chosen by the owner.
    pub name: ApiKeyName,
    /// Granted scopes: at least one, without duplicates.
    pub scopes: Vec<ApiKeyScope>,
    /// Spaces that the key is limited to; `None` for every space of the account.
    pub spaces: Option<Vec<SpaceId>>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of expiry; `None` if the key does not expire.
    pub expires_at: Option<Timestamp>,
    /// Last recorded use. Uses are recorded with a delay, so a later one may be missing.
    pub last_used_at: Option<Timestamp>,
    /// Time at which the owner revoked the key.
    pub revoked_at: Option<Timestamp>,
}

impl ApiKey {
    /// Whether the key is neither revoked nor expired.
    pub fn is_good(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }
}

/// What a person consents to of the key that a computer requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyConsent {
    /// The scopes of the knowledge API.
    pub memory: bool,
    /// The scope [`ApiKeyScope::Account`].
    pub account: bool,
}

impl KeyConsent {
    /// The requested scopes with consent; if there are none, no key is created.
    pub fn of(self, requested: &[ApiKeyScope]) -> Vec<ApiKeyScope> {
        let agreed = |scope: &ApiKeyScope| if *scope == ApiKeyScope::Account { self.account } else { self.memory };
        requested.iter().copied().filter(agreed).collect()
    }
}

/// Sorts scopes into the order of [`ApiKeyScope::ALL`] and removes duplicates. Returns [`ApiKeyScope::KNOWLEDGE`] if `named` is empty.
pub fn scopes_of(named: &[ApiKeyScope]) -> Vec<ApiKeyScope> {
    let named = if named.is_empty() { &ApiKeyScope::KNOWLEDGE } else { named };
    ApiKeyScope::ALL.iter().copied().filter(|scope| named.contains(scope)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_line_of_a_hundred_characters_at_most() {
        assert_eq!(" backup job ".parse::<ApiKeyName>().unwrap().as_str(), "backup job");
        assert!("é".repeat(100).parse::<ApiKeyName>().is_ok());
        for wrong in ["", "   ", "a\nb", "a\0", &"é".repeat(101)] {
            assert_eq!(wrong.parse::<ApiKeyName>(), Err(InvalidName), "{wrong:?}");
        }
    }

    #[test]
    fn a_key_has_the_requested_scopes_that_a_person_consents_to() {
        use ApiKeyScope::{Account, Search, Write};
        let of = |memory, account| KeyConsent { memory, account }.of(&[Search, Write, Account]);
        assert_eq!(of(true, true), [Search, Write, Account]);
        assert_eq!(of(true, false), [Search, Write]);
        assert_eq!(of(false, true), [Account]);
        assert_eq!(of(false, false), []);
        assert_eq!(KeyConsent { memory: true, account: true }.of(&[Search]), [Search], "nothing beyond the request");
    }

    #[test]
    fn scopes_are_listed_once_and_reading_the_account_has_to_be_named() {
        use ApiKeyScope::{Account, Search, Settings, Write};
        assert_eq!(scopes_of(&[]), [Search, Write, Settings]);
        assert_eq!(scopes_of(&[Account, Write, Search, Write]), [Search, Write, Account]);
        for scope in ApiKeyScope::ALL {
            assert_eq!(scope.as_str().parse(), Ok(*scope));
        }
        let unknown = "admin".parse::<ApiKeyScope>().unwrap_err();
        assert_eq!(unknown.to_string(), "expected one of search, write, settings, account");
    }
}
