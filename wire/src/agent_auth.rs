//! Registration, claims and the token exchange of agents (`docs/protocol/agents.md`).

use domain::Timestamp;
use domain::ids::RegistrationId;
use domain::secret::Secret;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{form, schema};

/// The grant of an agent that presents its claim token; the server does not compare the vendor in it.
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
    /// The agent may be claimed by any person.
    Anonymous,
    /// The agent may be claimed by one person only.
    ServiceAuth {
        /// E-mail address of that person.
        #[schema(schema_with = schema::email)]
        login_hint: String,
    },
}

/// A registration (`docs/protocol/agents.md#identity`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RegistrationResult {
    /// Registration id of the agent.
    #[schema(value_type = schema::UuidV7)]
    pub registration_id: RegistrationId,
    /// The secret with which the agent polls for its token.
    #[serde(with = "form::clear")]
    #[schema(value_type = String, min_length = 1)]
    pub claim_token: Secret,
    /// Scopes of a token after the claim: `["svc.account"]`.
    #[schema(schema_with = schema::account_scopes)]
    pub post_claim_scopes: Vec<String>,
    /// Members that depend on the registration type.
    #[serde(flatten)]
    pub variant: RegistrationVariant,
}

/// Registration type of an agent, with the members that this type adds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "registration_type", rename_all = "snake_case")]
pub enum RegistrationVariant {
    /// For one person; the claim has started already.
    ServiceAuth {
        /// Link and code, which the agent shows to that person.
        claim: AgentClaim,
    },
    /// For any person.
    Anonymous {
        /// Identity assertion, a JWT that the agent exchanges for a token with the scope `svc.events`.
        #[serde(with = "form::clear")]
        #[schema(value_type = String, min_length = 1)]
        identity_assertion: Secret,
        /// Scopes of a token before the claim: `["svc.events"]`.
        #[schema(schema_with = schema::events_scopes)]
        pre_claim_scopes: Vec<String>,
        /// Time until which the agent can be claimed.
        #[serde(with = "form::moment")]
        #[schema(value_type = schema::Moment)]
        claim_token_expires: Timestamp,
    },
}

/// Link and code that an agent shows to its person (`docs/protocol/agents.md#agentclaim`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentClaim {
    /// The code, six decimal digits.
    #[serde(with = "form::clear")]
    #[schema(schema_with = schema::six_digits)]
    pub user_code: Secret,
    /// Validity of link and code in seconds; always 1800.
    #[schema(schema_with = schema::seconds_valid)]
    pub expires_in: u64,
    /// The page on which the person types the code.
    #[schema(schema_with = schema::uri)]
    pub verification_uri: String,
    /// Seconds between polls; always 5.
    #[schema(schema_with = schema::interval)]
    pub interval: u64,
}

/// The body of `POST /api/v1/agent-auth/claim`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClaimRequest {
    /// The claim token of the registration result.
    #[serde(with = "form::clear")]
    #[schema(value_type = String, min_length = 1)]
    pub claim_token: Secret,
    /// E-mail address of the person that the claim is for; must match `login_hint` of a `service_auth` registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::email, required = false)]
    pub email: Option<String>,
}

/// The response to `POST /api/v1/agent-auth/claim`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClaimResult {
    /// The new link and code; earlier ones are superseded.
    pub claim: AgentClaim,
}

/// The body of `POST /api/v1/agent-auth/claim/complete`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CompleteRequest {
    /// The claim attempt token in the link.
    #[serde(with = "form::clear")]
    #[schema(value_type = String, min_length = 1)]
    pub claim_attempt_token: Secret,
    /// The code that the agent shows, six decimal digits.
    #[serde(with = "form::clear")]
    #[schema(schema_with = schema::six_digits)]
    pub user_code: Secret,
}

/// The form of `POST /api/v1/agent-auth/token`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRequest {
    /// [`ASSERTION_GRANT`], or [`CLAIM_GRANT`] with any vendor.
    pub grant_type: String,
    /// The claim token; with the claim grant only.
    #[serde(default, with = "form::clear_or_none", skip_serializing_if = "Option::is_none")]
    pub claim_token: Option<Secret>,
    /// The identity assertion; with the assertion grant only.
    #[serde(default, with = "form::clear_or_none", skip_serializing_if = "Option::is_none")]
    pub assertion: Option<Secret>,
}

/// The form of `POST /api/v1/agent-auth/revoke` (RFC 7009).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RevokeRequest {
    /// The access token to revoke.
    #[serde(default, with = "form::clear_or_none", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub token: Option<Secret>,
    /// Ignored by the server; accepted because RFC 7009 defines it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub token_type_hint: Option<String>,
}

/// The result of a token exchange (`docs/protocol/agents.md#token`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenResult {
    /// Bearer token of the agent API.
    #[serde(with = "form::clear")]
    pub access_token: Secret,
    /// Type of the token; always `Bearer`.
    pub token_type: String,
    /// Validity of the token in seconds.
    pub expires_in: u64,
    /// Scope of the token, `svc.events` before the claim and `svc.account` after it.
    pub scope: String,
    /// Identity assertion for the next exchange, a JWT; only with `svc.account`.
    #[serde(default, with = "form::clear_or_none", skip_serializing_if = "Option::is_none")]
    pub identity_assertion: Option<Secret>,
    /// Time at which the assertion expires; only with `svc.account`.
    #[serde(default, with = "form::moment_or_null", skip_serializing_if = "Option::is_none")]
    pub assertion_expires: Option<Timestamp>,
}

/// `{}`: the token is not valid any more, or never was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Revoked {}
