//! Consent levels (`docs/protocol/consent.md`).

use domain::consent::{Author, ConsentLevel};
use domain::ids::{MachineUuid, UserCuid};
use domain::lane::Lane;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{form, schema};

/// `GET /api/v1/consent`: one effective level for a computer, or all levels that were set, for an account without `machine_uuid`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum ConsentAnswer {
    /// What holds for the computer and lane.
    Effective {
        /// The level.
        #[schema(value_type = schema::ConsentLevel)]
        level: ConsentLevel,
    },
    /// What was set.
    Levels {
        /// One record for each identity, computer and lane for which something was set, and one more where the computer set a level of its own.
        levels: Vec<ConsentRecord>,
    },
}

/// A level that was set (`docs/protocol/consent.md#consent-record`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConsentRecord {
    /// Whose.
    #[schema(value_type = schema::Cuid2)]
    pub user_cuid: UserCuid,
    /// On which computer; `null` on all of them.
    #[schema(value_type = Option<schema::UuidV7>, required = true)]
    pub machine_uuid: Option<MachineUuid>,
    /// In which lane; `null` in all of them.
    #[schema(value_type = Option<schema::Lane>, required = true)]
    pub lane: Option<Lane>,
    /// The level.
    #[schema(value_type = schema::ConsentLevel)]
    pub level: ConsentLevel,
    /// Who set it. Where the person (or an agent of theirs) and the computer both did, the lower level is in force.
    #[schema(value_type = schema::ConsentAuthor)]
    pub set_by: Author,
}

/// Characters of a `reason`. The attribute below wants a literal; a test compares it with this constant.
pub const REASON_CHARS_MAX: usize = 256;

/// The body of `POST /api/v1/consent`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConsentRequest {
    /// The level.
    #[schema(value_type = schema::ConsentLevel)]
    pub level: ConsentLevel,
    /// Why; at most 256 characters.
    #[serde(default, deserialize_with = "form::unless_absent", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, max_length = 256)]
    pub reason: Option<String>,
    /// For which computer; without it for every linked identity.
    #[serde(default, deserialize_with = "form::unless_absent", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::UuidV7)]
    pub machine_uuid: Option<MachineUuid>,
    /// In which lane; without it in all of them.
    #[serde(default, deserialize_with = "form::unless_absent", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::Lane)]
    pub lane: Option<Lane>,
}

/// What a change did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConsentWritten {
    /// The level in force: lower than the one that was set where the person, or the computer itself, set a lower one.
    #[schema(value_type = schema::ConsentLevel)]
    pub level: ConsentLevel,
    /// Rows that changed.
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
