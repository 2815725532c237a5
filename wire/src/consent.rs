//! Bodies of consent levels (`docs/protocol/consent.md`).

use domain::consent::{Author, ConsentLevel};
use domain::ids::{MachineUuid, UserCuid};
use domain::lane::Lane;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{form, schema};

/// `GET /api/v1/consent`: the effective level of a computer or, for an account without `machine_uuid`, all stored levels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum ConsentAnswer {
    /// The level in force for the computer and lane.
    Effective {
        /// The effective level: the lower one where person and computer set one each.
        #[schema(value_type = schema::ConsentLevel)]
        level: ConsentLevel,
    },
    /// All levels that are stored for the account's identities.
    Levels {
        /// One record per identity, computer and lane with a level, and a second one where the computer set a level itself.
        levels: Vec<ConsentRecord>,
    },
}

/// A stored level (`docs/protocol/consent.md#consent-record`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConsentRecord {
    /// The identity that the level applies to.
    #[schema(value_type = schema::Cuid2)]
    pub user_cuid: UserCuid,
    /// The computer that the level applies to; every computer of the identity when `null`.
    #[schema(value_type = Option<schema::UuidV7>, required = true)]
    pub machine_uuid: Option<MachineUuid>,
    /// The lane that the level applies to; all lanes when `null`.
    #[schema(value_type = Option<schema::Lane>, required = true)]
    pub lane: Option<Lane>,
    /// The stored level.
    #[schema(value_type = schema::ConsentLevel)]
    pub level: ConsentLevel,
    /// The author of the record. Where both the person (or one of their agents) and the computer set a level, the lower one is in force.
    #[schema(value_type = schema::ConsentAuthor)]
    pub set_by: Author,
}

/// Maximum number of characters of a `reason`. The attribute below requires a literal; a test compares it with this constant.
pub const REASON_CHARS_MAX: usize = 256;

/// The body of `POST /api/v1/consent`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConsentRequest {
    /// The level to store.
    #[schema(value_type = schema::ConsentLevel)]
    pub level: ConsentLevel,
    /// Reason for the change, at most 256 characters.
    #[serde(default, deserialize_with = "form::unless_absent", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, max_length = 256)]
    pub reason: Option<String>,
    /// The computer that the level applies to; every linked identity as a whole when absent.
    #[serde(default, deserialize_with = "form::unless_absent", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::UuidV7)]
    pub machine_uuid: Option<MachineUuid>,
    /// The lane that the level applies to; all lanes when absent.
    #[serde(default, deserialize_with = "form::unless_absent", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::Lane)]
    pub lane: Option<Lane>,
}

/// The result of a change of consent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConsentWritten {
    /// The level in force. It is lower than the requested one where the person or the computer has set a lower one.
    #[schema(value_type = schema::ConsentLevel)]
    pub level: ConsentLevel,
    /// Number of rows that changed.
    pub written: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_described_limit_of_a_reason_is_the_one_that_is_enforced() {
        let schema = serde_json::to_value(<ConsentRequest as utoipa::PartialSchema>::schema()).unwrap();
        assert_eq!(schema["properties"]["reason"]["maxLength"], REASON_CHARS_MAX);
    }
}
