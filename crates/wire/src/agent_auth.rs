//! Registration and claims of agents, and their tokens (`docs/protocol/agents.md`).

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
    /// For any person to claim.
    Anonymous,
    /// For the person with an e-mail address.
    ServiceAuth {
        /// E-mail address of the person.
        #[schema(schema_with = schema::email)]
        login_hint: String,
    },
}

/// A registration (`docs/protocol/agents.md#identity`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RegistrationResult {
    /// Id of the agent.
    #[schema(value_type = schema::UuidV7)]
    pub registration_id: RegistrationId,
    /// Claim token, with which the agent polls.
    #[serde(with = "form::clear")]
    #[schema(value_type = String, min_length = 1)]
    pub claim_token: Secret,
    /// Always `["svc.account"]`.
    #[schema(schema_with = schema::account_scopes)]
    pub post_claim_scopes: Vec<String>,
    /// Members that depend on the type of registration.
    #[serde(flatten)]
    pub variant: RegistrationVariant,
}

/// The part of a registration that depends on its type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "registration_type", rename_all = "snake_case")]
pub enum RegistrationVariant {
    /// For one person; the claim starts immediately.
    ServiceAuth {
        /// The claim to show to the person.
        claim: AgentClaim,
    },
    /// For any person to claim.
    Anonymous {
        /// JWT to exchange for a token with the scope `svc.events`.
        #[serde(with = "form::clear")]
        #[schema(value_type = String, min_length = 1)]
        identity_assertion: Secret,
        /// Always `["svc.events"]`.
        #[schema(schema_with = schema::events_scopes)]
        pre_claim_scopes: Vec<String>,
        /// Expiry of the claim token.
        #[serde(with = "form::moment")]
        #[schema(value_type = schema::Moment)]
        claim_token_expires: Timestamp,
    },
}

/// A claim, for the agent to show to its person (`docs/protocol/agents.md#agentclaim`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentClaim {
    /// Six digits to enter on the page.
    #[serde(with = "form::clear")]
    #[schema(schema_with = schema::six_digits)]
    pub user_code: Secret,
    /// Lifetime of the code in seconds; always 1800.
    #[schema(schema_with = schema::seconds_valid)]
    pub expires_in: u64,
    /// Link for the person to open.
    #[schema(schema_with = schema::uri)]
    pub verification_uri: String,
    /// Interval of polls in seconds; always 5.
    #[schema(schema_with = schema::interval)]
    pub interval: u64,
}

/// The body of `POST /api/v1/agent-auth/claim`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClaimRequest {
    /// Claim token of the registration.
    #[serde(with = "form::clear")]
    #[schema(value_type = String, min_length = 1)]
    pub claim_token: Secret,
    /// E-mail address that the claim is bound to. A `service_auth` registration accepts only its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::email, required = false)]
    pub email: Option<String>,
}

/// Response to a new claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClaimResult {
    /// The new link and code; earlier ones are no longer valid.
    pub claim: AgentClaim,
}

/// The body of `POST /api/v1/agent-auth/claim/complete`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CompleteRequest {
    /// Token of the link.
    #[serde(with = "form::clear")]
    #[schema(value_type = String, min_length = 1)]
    pub claim_attempt_token: Secret,
    /// Six digits that the agent shows.
    #[serde(with = "form::clear")]
    #[schema(schema_with = schema::six_digits)]
    pub user_code: Secret,
}

/// The form of `POST /api/v1/agent-auth/revoke` (RFC 7009).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RevokeRequest {
    /// The access token to revoke.
    #[serde(default, with = "form::clear_or_none", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub token: Option<Secret>,
    /// Ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub token_type_hint: Option<String>,
}

/// Empty response: the token is not valid, whether it was before or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Revoked {}
