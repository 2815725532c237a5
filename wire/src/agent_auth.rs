//! Agents register, are claimed, and exchange what they have for tokens (`docs/protocol/agents.md`).

mod token;

use domain::Timestamp;
use domain::ids::RegistrationId;
use domain::secret::Secret;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use self::token::{TokenRequest, TokenResult};
pub use crate::grant::{ASSERTION_GRANT, CLAIM_GRANT, SCOPE_ACCOUNT, SCOPE_EVENTS};
use crate::{form, schema};

/// The body of `POST /api/v1/agent-auth/identity`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RegistrationRequest {
    /// For whoever will claim it.
    Anonymous,
    /// For one person.
    ServiceAuth {
        /// Their e-mail address.
        #[schema(schema_with = schema::email)]
        login_hint: String,
    },
}

/// A registration (`docs/protocol/agents.md#identity`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RegistrationResult {
    /// The agent's id.
    #[schema(value_type = schema::UuidV7)]
    pub registration_id: RegistrationId,
    /// What it polls with.
    #[serde(with = "form::clear")]
    #[schema(value_type = String, min_length = 1)]
    pub claim_token: Secret,
    /// `["svc.account"]`
    #[schema(schema_with = schema::account_scopes)]
    pub post_claim_scopes: Vec<String>,
    /// What depends on how it registered.
    #[serde(flatten)]
    pub variant: RegistrationVariant,
}

/// How an agent registered, and what it got for that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "registration_type", rename_all = "snake_case")]
pub enum RegistrationVariant {
    /// For one person, who is asked at once.
    ServiceAuth {
        /// What to show to them.
        claim: AgentClaim,
    },
    /// For whoever will claim it.
    Anonymous {
        /// A JWT, exchanged for a token with the scope `svc.events`.
        #[serde(with = "form::clear")]
        #[schema(value_type = String, min_length = 1)]
        identity_assertion: Secret,
        /// `["svc.events"]`
        #[schema(schema_with = schema::events_scopes)]
        pre_claim_scopes: Vec<String>,
        /// How long it may be claimed.
        #[serde(with = "form::moment")]
        #[schema(value_type = schema::Moment)]
        claim_token_expires: Timestamp,
    },
}

/// What an agent shows to its person (`docs/protocol/agents.md#agentclaim`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentClaim {
    /// Six digits.
    #[serde(with = "form::clear")]
    #[schema(schema_with = schema::six_digits)]
    pub user_code: Secret,
    /// Seconds; always 1800.
    #[schema(schema_with = schema::seconds_valid)]
    pub expires_in: u64,
    /// The link that the person opens.
    #[schema(schema_with = schema::uri)]
    pub verification_uri: String,
    /// Seconds between polls; always 5.
    #[schema(schema_with = schema::interval)]
    pub interval: u64,
}

/// The body of `POST /api/v1/agent-auth/claim`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClaimRequest {
    /// From the registration.
    #[serde(with = "form::clear")]
    #[schema(value_type = String, min_length = 1)]
    pub claim_token: Secret,
    /// Whom the claim is for; of a registration for one person, that person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::email, required = false)]
    pub email: Option<String>,
}

/// The answer to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClaimResult {
    /// A new link and code; those before it are void.
    pub claim: AgentClaim,
}

/// The body of `POST /api/v1/agent-auth/claim/complete`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CompleteRequest {
    /// From the link.
    #[serde(with = "form::clear")]
    #[schema(value_type = String, min_length = 1)]
    pub claim_attempt_token: Secret,
    /// Six digits, from the agent.
    #[serde(with = "form::clear")]
    #[schema(schema_with = schema::six_digits)]
    pub user_code: Secret,
}

/// The form of `POST /api/v1/agent-auth/revoke` (RFC 7009).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RevokeRequest {
    /// The access token.
    #[serde(default, with = "form::clear_or_none", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub token: Option<Secret>,
    /// Read by nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub token_type_hint: Option<String>,
}

/// `{}`: the token does not work, whether it did before or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Revoked {}
