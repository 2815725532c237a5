//! Computers register and are attached to an account (specification, *Device attachment*; RFC 8628; decisions, section 3).

use domain::Timestamp;
use domain::ids::{MachineUuid, UserAccountId, UserCuid};
use domain::secret::Secret;
use serde::{Deserialize, Serialize};

use crate::form;

/// The grant of a computer that polls.
pub const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// The body of `POST /api/v1/machines`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineRequest {
    /// The identity that lives on the computer.
    pub user_cuid: UserCuid,
    /// The computer; chosen by itself.
    pub machine_uuid: MachineUuid,
    /// What its person calls it; at most 100 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A registered computer; its secret is shown this once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineResult {
    /// The computer.
    pub machine_uuid: MachineUuid,
    /// Its identity.
    pub user_cuid: UserCuid,
    /// The bearer of the computer.
    #[serde(with = "form::clear")]
    pub machine_secret: Secret,
    /// When it registered.
    #[serde(with = "form::moment")]
    pub first_seen_at: Timestamp,
}

/// The body of `POST /api/v1/device/code`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeRequest {
    /// The computer's identity.
    pub user_cuid: UserCuid,
    /// The computer.
    pub machine_uuid: MachineUuid,
}

/// What a computer polls with, and what it shows (specification, *Device code result*).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceCodeResult {
    /// What it polls with.
    #[serde(with = "form::clear")]
    pub device_code: Secret,
    /// What it shows, `XXXX-XXXX`.
    pub user_code: String,
    /// The page on which that is typed.
    pub verification_uri: String,
    /// The same with the code in it.
    pub verification_uri_complete: String,
    /// Seconds between polls; always 5.
    pub interval: u64,
    /// Seconds; always 1800.
    pub expires_in: u64,
}

/// The body of `POST /api/v1/device/approve` and `/deny`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApproveRequest {
    /// From the computer's screen; case and punctuation do not matter.
    pub user_code: String,
}

/// The body of `POST /api/v1/device/token`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceTokenRequest {
    /// What it polls with.
    #[serde(with = "form::clear")]
    pub device_code: Secret,
    /// [`DEVICE_GRANT`].
    pub grant_type: String,
}

/// The computer is attached; there is no token in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceTokenResult {
    /// Whose it is.
    pub user_account_id: UserAccountId,
    /// Always `claimed`.
    pub status: String,
}
