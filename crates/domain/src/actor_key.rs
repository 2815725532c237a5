//! Actors with one actor for each key, as operators name them (`docs/decisions/0043-one-key.md`).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{Timestamp, UnknownName};

/// A kind with one actor for each key.
#[derive(strum::EnumString, strum::VariantArray, strum::VariantNames, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<Self>)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyedKind {
    /// The claim ceremony of a registration.
    Claims,
    /// The poller of a computer's device code.
    Devices,
    /// The work on a running batch.
    Batches,
}

impl KeyedKind {
    /// All kinds.
    pub const ALL: &[Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The name.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The key of one actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ActorKey {
    /// The kind of the actor.
    pub kind: KeyedKind,
    /// Id of the registration, computer or batch.
    pub id: Uuid,
}

impl fmt::Display for ActorKey {
    /// Such as `batches:019b76da-a800-7a67-8a14-94a3f41b0634`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.as_str(), self.id)
    }
}

/// A text that is no [`ActorKey`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected claims:ID, devices:ID or batches:ID with the id of the registration, computer or batch")]
pub struct InvalidKey;

impl FromStr for ActorKey {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        let (kind, id) = text.split_once(':').ok_or(InvalidKey)?;
        let (kind, id) = (kind.parse().map_err(|_| InvalidKey)?, id.parse().map_err(|_| InvalidKey)?);
        Ok(Self { kind, id })
    }
}

/// The recent crashes of one key's actors on one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrashRecord {
    /// The key, as [`ActorKey`] is written.
    pub key: String,
    /// Crashes in the window, or before the quarantine.
    pub crashes: u32,
    /// Why the last actor crashed.
    pub error: String,
    /// Id of the request that the last actor handled.
    pub request_id: Option<String>,
    /// Time of the last crash.
    pub last_crash_at: Timestamp,
    /// End of the quarantine; `None` if the key is in none.
    pub quarantined_until: Option<Timestamp>,
}

impl CrashRecord {
    /// Whether the key is in quarantine at this time.
    pub fn is_quarantined(&self, now: Timestamp) -> bool {
        self.quarantined_until.is_some_and(|until| until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn a_key_is_read_as_it_is_written() {
        let id = Rng::seeded(1).uuid_v7(Timestamp::UNIX_EPOCH);
        for kind in KeyedKind::ALL {
            let key = ActorKey { kind: *kind, id };
            assert_eq!(key.to_string().parse(), Ok(key));
        }
        for wrong in ["", "claims", "claims:", "claims:1", "intake:019b76da-a800-7a67-8a14-94a3f41b0634"] {
            assert_eq!(wrong.parse::<ActorKey>(), Err(InvalidKey), "{wrong}");
        }
    }
}
