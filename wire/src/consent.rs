//! Consent levels (specification, *Consent*).

use domain::consent::ConsentLevel;
use domain::ids::{MachineUuid, UserCuid};
use domain::lane::Lane;
use serde::{Deserialize, Serialize};

/// `GET /api/v1/consent`: one effective level for a computer, or all levels that were set, for an account without `machine_uuid`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ConsentAnswer {
    /// What holds for the computer and lane.
    Effective {
        /// The level.
        level: ConsentLevel,
    },
    /// What was set.
    Levels {
        /// One record for each identity, computer and lane for which something was set.
        levels: Vec<ConsentRecord>,
    },
}

/// A level that was set (specification, *Consent record*).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsentRecord {
    /// Whose.
    pub user_cuid: UserCuid,
    /// On which computer; `null` on all of them.
    pub machine_uuid: Option<MachineUuid>,
    /// In which lane; `null` in all of them.
    pub lane: Option<Lane>,
    /// The level.
    pub level: ConsentLevel,
}

/// The body of `POST /api/v1/consent`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConsentRequest {
    /// The level.
    pub level: ConsentLevel,
    /// Why; at most 256 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// For which computer; without it for every linked identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_uuid: Option<MachineUuid>,
    /// In which lane; without it in all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<Lane>,
}

/// What a change did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsentWritten {
    /// The level that was set.
    pub level: ConsentLevel,
    /// Rows that changed.
    pub written: u64,
}
