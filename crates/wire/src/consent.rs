//! Bodies of consent levels (`docs/protocol/consent.md`).

use domain::Timestamp;
use domain::consent::{Author, ConsentLevel};
use domain::ids::{MachineUuid, UserCuid};
use domain::lane::Lane;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{form, schema};

/// `GET /api/v1/consent`: the effective level of a computer, or all records of an account if the request has no
/// `machine_uuid`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum ConsentAnswer {
    /// The effective level of computer and lane.
    Effective {
        /// The effective level.
        #[schema(value_type = schema::ConsentLevel)]
        level: ConsentLevel,
        /// End of the pause of recording that lasts; absent if recording is not paused.
        #[serde(default, with = "form::moment_or_null", skip_serializing_if = "Option::is_none")]
        #[schema(value_type = schema::Moment, required = false)]
        paused_until: Option<Timestamp>,
    },
    /// All records.
    Levels {
        /// One record for each identity, computer and lane with a level, and another one where the computer set its
        /// own.
        levels: Vec<ConsentRecord>,
        /// End of the pause of the account that lasts; absent if its recording is not paused.
        #[serde(default, with = "form::moment_or_null", skip_serializing_if = "Option::is_none")]
        #[schema(value_type = schema::Moment, required = false)]
        paused_until: Option<Timestamp>,
    },
}

/// A recorded level (`docs/protocol/consent.md#consent-record`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConsentRecord {
    /// Identity of the record.
    #[schema(value_type = schema::Cuid2)]
    pub user_cuid: UserCuid,
    /// Computer of the record; `null` for all computers.
    #[schema(value_type = Option<schema::UuidV7>, required = true)]
    pub machine_uuid: Option<MachineUuid>,
    /// Lane of the record; `null` for all lanes.
    #[schema(value_type = Option<schema::Lane>, required = true)]
    pub lane: Option<Lane>,
    /// The recorded level.
    #[schema(value_type = schema::ConsentLevel)]
    pub level: ConsentLevel,
    /// The party that set it. If both the person (or an agent of the account) and the computer set a level, the lower
    /// one is in force.
    #[schema(value_type = schema::ConsentAuthor)]
    pub set_by: Author,
}

/// Maximum length of a `reason`, in characters. Attributes require literals; a test compares them with this constant.
pub const REASON_CHARS_MAX: usize = 256;

/// The body of `POST /api/v1/consent`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConsentRequest {
    /// The level to set.
    #[schema(value_type = schema::ConsentLevel)]
    pub level: ConsentLevel,
    /// Reason of the change, at most 256 characters.
    #[serde(default, deserialize_with = "form::unless_absent", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, max_length = 256)]
    pub reason: Option<String>,
    /// The computer; every linked identity if absent.
    #[serde(default, deserialize_with = "form::unless_absent", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::UuidV7)]
    pub machine_uuid: Option<MachineUuid>,
    /// The lane; all lanes if absent.
    #[serde(default, deserialize_with = "form::unless_absent", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::Lane)]
    pub lane: Option<Lane>,
}

/// The body of `POST /api/v1/consent/pause`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseRequest {
    /// Length of the pause in seconds, at most `consent.pause_max` of the server.
    #[schema(minimum = 1)]
    pub seconds: u64,
    /// The computer; every computer of the account if absent.
    #[serde(default, deserialize_with = "form::unless_absent", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::UuidV7)]
    pub machine_uuid: Option<MachineUuid>,
}

/// The pause that lasts after a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PauseResult {
    /// Its end; `null` if the pause has ended.
    #[serde(with = "form::moment_or_null")]
    #[schema(value_type = Option<schema::Moment>, required = true)]
    pub paused_until: Option<Timestamp>,
}

/// Result of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConsentWritten {
    /// The level in force, which is lower than the one that was set if the person or the computer set a lower one.
    #[schema(value_type = schema::ConsentLevel)]
    pub level: ConsentLevel,
    /// Number of changed records.
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
