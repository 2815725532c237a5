//! Request and response bodies of both HTTP surfaces. Handlers, clients and the OpenAPI description share these types.
//! No IO and no behaviour.
//!
//! Clients ignore unknown members (`docs/protocol/conventions.md#versioning`). Servers write exactly the members that the
//! protocol defines: an absent value is left out or `null`. Credentials are [`Secret`](domain::secret::Secret)s, which
//! `Debug` hides.
//!
//! | module | specification |
//! |---|---|
//! | [`agent_auth`] | *Agent auth*: registration, claim, token |
//! | [`device`] | *Device attachment*, and registration of computers |
//! | [`account`] | *Account summary*, *`AccountComputers`*, sessions and keys |
//! | [`usage`] | *`UsageBar`* |
//! | [`costs`] | tokens and costs of models |
//! | [`consent`] | *Consent* |
//! | [`events`] | *Events* |
//! | [`activity`] | *Activity and audit* |
//! | [`agent_session`] | sessions of agents |
//! | [`knowledge`] | *Knowledge API* |
//! | [`webhook`] | endpoints of accounts and their deliveries |
//! | [`mcp`] | tools of both MCP servers |
//! | [`ops`] | the operator's API |
//! | [`error`] | *Errors* |
//! | [`schema`] | *Resources*: schemas of identifiers, names and date-times |

pub mod account;
pub mod activity;
pub mod agent_auth;
pub mod agent_session;
pub mod consent;
pub mod costs;
pub mod device;
pub mod error;
pub mod events;
pub mod form;
pub mod grant;
pub mod knowledge;
pub mod mcp;
pub mod ops;
pub mod rule;
pub mod schema;
pub mod usage;
pub mod webhook;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `{ok: true}`: success without further content.
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
