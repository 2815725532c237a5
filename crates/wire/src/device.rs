//! Registration of computers, and the device flow (`docs/protocol/computers.md` and
//! `docs/decisions/0002-accounts-and-computers.md`; RFC 8628).

use domain::api_key::ApiKeyScope;
use domain::consent::ConsentLevel;
use domain::ids::{MachineUuid, RegistrationId, UserAccountId, UserCuid};
use domain::secret::Secret;
use domain::tool::Tool;
use domain::{Digest, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use crate::grant::DEVICE_GRANT;
use crate::{form, schema};

/// Maximum length of a computer's name, in characters. Attributes require literals; a test compares them with this constant.
pub const MACHINE_NAME_CHARS_MAX: usize = 100;

/// The body of `POST /api/v1/machines`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MachineRequest {
    /// Identity of the computer.
    #[schema(value_type = schema::Cuid2)]
    pub user_cuid: UserCuid,
    /// Id of the computer, which chooses it.
    #[schema(value_type = schema::UuidV7)]
    pub machine_uuid: MachineUuid,
    /// Name of the computer, at most 100 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 100)]
    pub name: Option<String>,
}

/// A registered computer. Its secret is returned only in this response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MachineResult {
    /// Id of the computer.
    #[schema(value_type = schema::UuidV7)]
    pub machine_uuid: MachineUuid,
    /// Identity of the computer.
    #[schema(value_type = schema::Cuid2)]
    pub user_cuid: UserCuid,
    /// Machine secret: bearer credential of the computer.
    #[serde(with = "form::clear")]
    #[schema(value_type = String, min_length = 1)]
    pub machine_secret: Secret,
    /// Time of the registration.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub first_seen_at: Timestamp,
}

/// The body of `POST /api/v1/device/code`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CodeRequest {
    /// Identity of the computer.
    #[schema(value_type = schema::Cuid2)]
    pub user_cuid: UserCuid,
    /// Id of the computer.
    #[schema(value_type = schema::UuidV7)]
    pub machine_uuid: MachineUuid,
    /// Key of the knowledge API that the computer requests; valid once a person agrees to it on the page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<KeyWanted>)]
    pub api_key: Option<KeyWanted>,
    /// Agent on the computer to be confirmed; it acts for the account once a person agrees to it on the page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<AgentWanted>)]
    pub agent: Option<AgentWanted>,
}

/// An agent to be confirmed together with its computer. Its registration is anonymous, and neither claimed nor revoked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentWanted {
    /// Id of its registration.
    #[schema(value_type = schema::UuidV7)]
    pub registration_id: RegistrationId,
    /// Claim token of the registration, which proves that the computer holds it.
    #[serde(with = "form::clear")]
    #[schema(value_type = String, min_length = 1)]
    pub claim_token: Secret,
    /// Tool of the agent.
    #[schema(value_type = schema::ToolName)]
    pub tool: Tool,
}

/// An API key that a computer requests. The computer creates and stores it: `ak_` and 32 random bytes as base64url.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyWanted {
    /// SHA-256 of the key.
    #[schema(value_type = schema::Sha256)]
    pub sha256: Digest,
    /// Scopes of the key; `search` and `write` if empty.
    #[serde(default, deserialize_with = "form::or_default", skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Option<Vec<schema::KeyScope>>)]
    pub scopes: Vec<ApiKeyScope>,
}

/// `GET /api/v1/machines/{machine_uuid}`: a computer about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MachineAbout {
    /// Id of the computer.
    #[schema(value_type = schema::UuidV7)]
    pub machine_uuid: MachineUuid,
    /// Identity of the computer.
    #[schema(value_type = schema::Cuid2)]
    pub user_cuid: UserCuid,
    /// Account that the computer is attached to; `null` if it is attached to none.
    #[schema(required = true)]
    pub account: Option<MachineAccount>,
}

/// The account of a computer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MachineAccount {
    /// Id of the account.
    #[schema(value_type = schema::Cuid2)]
    pub user_account_id: UserAccountId,
    /// E-mail address of the owner.
    #[schema(required = true)]
    pub email: Option<String>,
}

/// The codes of the device flow (`docs/protocol/computers.md#device-code`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviceCodeResult {
    /// Secret with which the computer polls.
    #[serde(with = "form::clear")]
    #[schema(value_type = String, min_length = 1)]
    pub device_code: Secret,
    /// Code to show to the person, `XXXX-XXXX`.
    pub user_code: String,
    /// Page on which the person enters the code.
    #[schema(schema_with = schema::uri)]
    pub verification_uri: String,
    /// The same page with the code in its query.
    #[schema(schema_with = schema::uri)]
    pub verification_uri_complete: String,
    /// Interval of polls in seconds; always 5.
    #[schema(schema_with = schema::interval)]
    pub interval: u64,
    /// Lifetime of the codes in seconds; always 1800.
    #[schema(schema_with = schema::seconds_valid)]
    pub expires_in: u64,
}

/// The body of `POST /api/v1/device/approve`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApproveRequest {
    /// User code that the computer shows. Case and punctuation are ignored.
    #[schema(min_length = 1)]
    pub user_code: String,
    /// How much may be recorded: becomes the level for all computers of the account, or of this computer if that level differs. Without it
    /// no level changes.
    #[serde(default, deserialize_with = "form::unless_absent", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::ConsentLevel)]
    pub consent: Option<ConsentLevel>,
}

/// The body of `POST /api/v1/device/deny`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DenyRequest {
    /// User code that the computer shows. Case and punctuation are ignored.
    #[schema(min_length = 1)]
    pub user_code: String,
}

/// The body of `POST /api/v1/device/token`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviceTokenRequest {
    /// Secret with which the computer polls.
    #[serde(with = "form::clear")]
    #[schema(value_type = String, min_length = 1)]
    pub device_code: Secret,
    /// Always [`DEVICE_GRANT`].
    #[schema(schema_with = schema::device_grant)]
    pub grant_type: String,
}

/// The computer is attached. The response contains no token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviceTokenResult {
    /// Account that the computer is attached to.
    #[schema(value_type = schema::Cuid2)]
    pub user_account_id: UserAccountId,
    /// The state of the computer; always `claimed`.
    #[schema(schema_with = schema::claimed)]
    pub status: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_described_limit_of_a_name_is_the_enforced_one() {
        let schema = serde_json::to_value(<MachineRequest as utoipa::PartialSchema>::schema()).unwrap();
        assert_eq!(schema["properties"]["name"]["maxLength"], MACHINE_NAME_CHARS_MAX);
    }
}
