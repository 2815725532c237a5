//! Registration of computers and their attachment to an account (`docs/protocol/computers.md` and
//! `docs/decisions/0008-registration-of-computers.md`; RFC 8628).

use domain::Timestamp;
use domain::ids::{MachineUuid, UserAccountId, UserCuid};
use domain::secret::Secret;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{form, schema};

/// The grant with which a computer polls.
pub const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// The body of `POST /api/v1/machines`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MachineRequest {
    /// CUID2 of the local user on the computer.
    #[schema(value_type = schema::Cuid2)]
    pub user_cuid: UserCuid,
    /// Id of the computer, a UUIDv7 that it chose itself.
    #[schema(value_type = schema::UuidV7)]
    pub machine_uuid: MachineUuid,
    /// Name of the computer, at most 100 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 100)]
    pub name: Option<String>,
}

/// A registered computer with its machine secret, which only this response contains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MachineResult {
    /// Id of the computer.
    #[schema(value_type = schema::UuidV7)]
    pub machine_uuid: MachineUuid,
    /// CUID2 of the local user on the computer.
    #[schema(value_type = schema::Cuid2)]
    pub user_cuid: UserCuid,
    /// The machine secret, the computer's bearer credential.
    #[serde(with = "form::clear")]
    #[schema(value_type = String, min_length = 1)]
    pub machine_secret: Secret,
    /// Time of the computer's registration.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub first_seen_at: Timestamp,
}

/// The body of `POST /api/v1/device/code`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CodeRequest {
    /// CUID2 of the local user; must be that of the credential.
    #[schema(value_type = schema::Cuid2)]
    pub user_cuid: UserCuid,
    /// Id of the computer; must be that of the credential.
    #[schema(value_type = schema::UuidV7)]
    pub machine_uuid: MachineUuid,
}

/// Device code and user code (`docs/protocol/computers.md#device-code`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviceCodeResult {
    /// The secret with which the computer polls.
    #[serde(with = "form::clear")]
    #[schema(value_type = String, min_length = 1)]
    pub device_code: Secret,
    /// The code that the computer displays, `XXXX-XXXX`.
    pub user_code: String,
    /// The page on which the person types the user code.
    #[schema(schema_with = schema::uri)]
    pub verification_uri: String,
    /// The same page with the user code in its query.
    #[schema(schema_with = schema::uri)]
    pub verification_uri_complete: String,
    /// Seconds between polls; always 5.
    #[schema(schema_with = schema::interval)]
    pub interval: u64,
    /// Validity of both codes in seconds; always 1800.
    #[schema(schema_with = schema::seconds_valid)]
    pub expires_in: u64,
}

/// The body of `POST /api/v1/device/approve` and `/deny`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApproveRequest {
    /// The code that the computer displays; case, and characters other than letters and digits, are ignored.
    #[schema(min_length = 1)]
    pub user_code: String,
}

/// The body of `POST /api/v1/device/token`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviceTokenRequest {
    /// The `device_code` of the response to `POST /api/v1/device/code`.
    #[serde(with = "form::clear")]
    #[schema(value_type = String, min_length = 1)]
    pub device_code: Secret,
    /// Always `urn:ietf:params:oauth:grant-type:device_code`.
    #[schema(schema_with = schema::device_grant)]
    pub grant_type: String,
}

/// The computer is attached. The response contains no token: the machine secret remains the credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviceTokenResult {
    /// Id of the account that the computer is attached to.
    #[schema(value_type = schema::Cuid2)]
    pub user_account_id: UserAccountId,
    /// The state of the computer; always `claimed`.
    #[schema(schema_with = schema::claimed)]
    pub status: String,
}
