//! The bodies of both HTTP surfaces, as they go over the wire: what handlers answer with, what clients send and read, and what the
//! machine-readable description describes. One truth for the three of them; no IO and no behaviour.
//!
//! Reading is tolerant: clients ignore members that they do not know (`docs/protocol/conventions.md#versioning`). Writing is exact: what is absent is
//! left out or `null` as the specification says. Whatever opens something is a [`Secret`](domain::secret::Secret), which `Debug` does not
//! show.
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
//! | [`schema`] | *Resources*: what identifiers, words and moments look like |

pub mod account;
pub mod activity;
pub mod agent_auth;
pub mod consent;
pub mod device;
pub mod error;
pub mod events;
pub mod form;
pub mod grant;
pub mod knowledge;
pub mod schema;
pub mod usage;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `{ok: true}`: it is done, and there is nothing to say about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Done {
    /// Always `true`.
    #[schema(schema_with = schema::yes)]
    pub ok: bool,
}

impl Done {
    /// It is done.
    pub const OK: Self = Self { ok: true };
}
