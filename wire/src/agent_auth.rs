//! Agents register, are claimed, and exchange what they have for tokens (`docs/protocol/agents.md`).

use domain::Timestamp;
use domain::ids::RegistrationId;
use domain::secret::Secret;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{form, schema};

/// The grant of an agent that presents its claim token; servers do not compare the vendor in it.
pub const CLAIM_GRANT: &str = "urn:svc:agent-auth:grant-type:claim";

/// The grant of an agent that presents its identity assertion (RFC 7523).
pub const ASSERTION_GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// Scope of an unclaimed agent: it may send events, which are held.
pub const SCOPE_EVENTS: &str = "svc.events";

/// Scope of a claimed agent: it acts for an account.
pub const SCOPE_ACCOUNT: &str = "svc.account";

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

/// The form of `POST /api/v1/agent-auth/token`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRequest {
    /// [`CLAIM_GRANT`] or [`ASSERTION_GRANT`].
    pub grant_type: String,
    /// For the claim grant.
    #[serde(default, with = "form::clear_or_none", skip_serializing_if = "Option::is_none")]
    pub claim_token: Option<Secret>,
    /// For the assertion grant.
    #[serde(default, with = "form::clear_or_none", skip_serializing_if = "Option::is_none")]
    pub assertion: Option<Secret>,
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

/// What an exchange gave (`docs/protocol/agents.md#token`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenResult {
    /// The bearer of the agent API.
    #[serde(with = "form::clear")]
    pub access_token: Secret,
    /// Always `Bearer`.
    pub token_type: String,
    /// Seconds.
    pub expires_in: u64,
    /// `svc.events` or `svc.account`.
    pub scope: String,
    /// The claimed agent's JWT, for the next exchange; only with `svc.account`.
    #[serde(default, with = "form::clear_or_none", skip_serializing_if = "Option::is_none")]
    pub identity_assertion: Option<Secret>,
    /// When that ends; only with `svc.account`.
    #[serde(default, with = "form::moment_or_null", skip_serializing_if = "Option::is_none")]
    pub assertion_expires: Option<Timestamp>,
}

/// `{}`: the token does not work, whether it did before or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Revoked {}
