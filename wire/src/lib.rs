//! The bodies of both HTTP surfaces: handlers serialise them, clients parse them, and the machine-readable description is generated from
//! them. No IO and no behaviour.
//!
//! Parsing is tolerant: clients ignore members that they do not know (`docs/protocol/conventions.md#versioning`). Serialising is exact:
//! an absent value is left out or `null`, as the specification says. Credentials and codes are a [`Secret`](domain::secret::Secret), whose
//! `Debug` output does not contain the value.
//!
//! | module | specification |
//! |---|---|
//! | [`agent_auth`] | *Agent auth*: registration, claim, token |
//! | [`device`] | *Device attachment*, and registration of computers |
//! | [`account`] | *Account summary*, *`AccountComputers`*, sessions and keys |
//! | [`usage`] | *`UsageBar`* |
//! | [`consent`] | *Consent* |
//! | [`events`] | *Events* |
//! | [`activity`] | *Activity and audit* |
//! | [`knowledge`] | *Knowledge API* |
//! | [`error`] | *Errors* |
//! | [`schema`] | *Resources*: the form of identifiers, enumerated words and moments |

pub mod account;
pub mod activity;
pub mod agent_auth;
pub mod consent;
pub mod device;
pub mod error;
pub mod events;
pub mod form;
pub mod knowledge;
pub mod schema;
pub mod usage;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `{ok: true}`: the request succeeded, and the response has no other content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Done {
    /// Always `true`.
    #[schema(schema_with = schema::yes)]
    pub ok: bool,
}

impl Done {
    /// The only value.
    pub const OK: Self = Self { ok: true };
}
