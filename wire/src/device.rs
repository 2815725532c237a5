//! Computers register and are attached to an account (`docs/protocol/computers.md` and `docs/decisions/0008-registration-of-computers.md`; RFC 8628).

use domain::Timestamp;
use domain::ids::{MachineUuid, UserAccountId, UserCuid};
use domain::secret::Secret;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use crate::grant::DEVICE_GRANT;
use crate::{form, schema};

/// The body of `POST /api/v1/machines`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MachineRequest {
    /// The identity that lives on the computer.
    #[schema(value_type = schema::Cuid2)]
    pub user_cuid: UserCuid,
    /// The computer; chosen by itself.
    #[schema(value_type = schema::UuidV7)]
    pub machine_uuid: MachineUuid,
    /// What its person calls it; at most 100 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 100)]
    pub name: Option<String>,
}

/// A registered computer; its secret is shown this once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MachineResult {
    /// The computer.
    #[schema(value_type = schema::UuidV7)]
    pub machine_uuid: MachineUuid,
    /// Its identity.
    #[schema(value_type = schema::Cuid2)]
    pub user_cuid: UserCuid,
    /// The bearer of the computer.
    #[serde(with = "form::clear")]
    #[schema(value_type = String, min_length = 1)]
    pub machine_secret: Secret,
    /// When it registered.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub first_seen_at: Timestamp,
}

/// The body of `POST /api/v1/device/code`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CodeRequest {
    /// The computer's identity.
    #[schema(value_type = schema::Cuid2)]
    pub user_cuid: UserCuid,
    /// The computer.
    #[schema(value_type = schema::UuidV7)]
    pub machine_uuid: MachineUuid,
}

/// What a computer polls with, and what it shows (`docs/protocol/computers.md#device-code`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviceCodeResult {
    /// What it polls with.
    #[serde(with = "form::clear")]
    #[schema(value_type = String, min_length = 1)]
    pub device_code: Secret,
    /// What it shows, `XXXX-XXXX`.
    pub user_code: String,
    /// The page on which that is typed.
    #[schema(schema_with = schema::uri)]
    pub verification_uri: String,
    /// The same with the code in it.
    #[schema(schema_with = schema::uri)]
    pub verification_uri_complete: String,
    /// Seconds between polls; always 5.
    #[schema(schema_with = schema::interval)]
    pub interval: u64,
    /// Seconds; always 1800.
    #[schema(schema_with = schema::seconds_valid)]
    pub expires_in: u64,
}

/// The body of `POST /api/v1/device/approve` and `/deny`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApproveRequest {
    /// From the computer's screen; case and punctuation do not matter.
    #[schema(min_length = 1)]
    pub user_code: String,
}

/// The body of `POST /api/v1/device/token`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviceTokenRequest {
    /// What it polls with.
    #[serde(with = "form::clear")]
    #[schema(value_type = String, min_length = 1)]
    pub device_code: Secret,
    /// [`DEVICE_GRANT`].
    #[schema(schema_with = schema::device_grant)]
    pub grant_type: String,
}

/// The computer is attached; there is no token in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviceTokenResult {
    /// Whose it is.
    #[schema(value_type = schema::Cuid2)]
    pub user_account_id: UserAccountId,
    /// Always `claimed`.
    #[schema(schema_with = schema::claimed)]
    pub status: String,
}
