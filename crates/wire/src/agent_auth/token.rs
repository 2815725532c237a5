//! Exchange of an agent's credentials for a token (`docs/protocol/agents.md` and `docs/protocol/agents.md#token`).

use std::borrow::Cow;

use domain::Timestamp;
use domain::secret::Secret;
use serde::{Deserialize, Serialize};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::form;
use crate::grant::{ASSERTION_GRANT, SCOPE_ACCOUNT, SCOPE_EVENTS};
use crate::schema::{Moment, bearer, named, text, words};

/// The form of `POST /api/v1/agent-auth/token`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRequest {
    /// [`crate::grant::CLAIM_GRANT`] or [`ASSERTION_GRANT`].
    pub grant_type: String,
    /// Required for the claim grant.
    #[serde(default, with = "form::clear_or_none", skip_serializing_if = "Option::is_none")]
    pub claim_token: Option<Secret>,
    /// Required for the assertion grant.
    #[serde(default, with = "form::clear_or_none", skip_serializing_if = "Option::is_none")]
    pub assertion: Option<Secret>,
}

/// An issued token (`docs/protocol/agents.md#token`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenResult {
    /// Bearer token of the agent API.
    #[serde(with = "form::clear")]
    pub access_token: Secret,
    /// Always `Bearer`.
    pub token_type: String,
    /// Lifetime in seconds.
    pub expires_in: u64,
    /// `svc.events` or `svc.account`.
    pub scope: String,
    /// JWT for the next exchange; only with `svc.account`.
    #[serde(default, with = "form::clear_or_none", skip_serializing_if = "Option::is_none")]
    pub identity_assertion: Option<Secret>,
    /// Expiry of the JWT; only with `svc.account`.
    #[serde(default, with = "form::moment_or_null", skip_serializing_if = "Option::is_none")]
    pub assertion_expires: Option<Timestamp>,
}

impl PartialSchema for TokenRequest {
    fn schema() -> RefOr<Schema> {
        // Servers ignore the vendor.
        let claim = ObjectBuilder::new()
            .title(Some("by claim token"))
            .property("grant_type", text("^urn:[^:]+:agent-auth:grant-type:claim$"))
            .property("claim_token", text("^.").description(Some("From the registration.")))
            .property("assertion", string())
            .required("grant_type")
            .required("claim_token");
        let assertion = ObjectBuilder::new()
            .title(Some("by identity assertion"))
            .property("grant_type", words([ASSERTION_GRANT]))
            .property("assertion", text("^.").description(Some("From the registration, or from the exchange before.")))
            .property("claim_token", string())
            .required("grant_type")
            .required("assertion");
        Schema::from(OneOfBuilder::new().item(claim).item(assertion).build()).into()
    }
}

impl ToSchema for TokenRequest {
    fn name() -> Cow<'static, str> {
        "TokenRequest".into()
    }
}

impl PartialSchema for TokenResult {
    fn schema() -> RefOr<Schema> {
        let common = |scope| {
            ObjectBuilder::new()
                .title(Some(scope))
                .property("access_token", text("^.").description(Some("The bearer of the agent API.")))
                .property("token_type", bearer())
                .property("expires_in", ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)))
                .property("scope", words([scope]))
                .required("access_token")
                .required("token_type")
                .required("expires_in")
                .required("scope")
        };
        let account = common(SCOPE_ACCOUNT)
            .property("identity_assertion", string().description(Some("A JWT, for the next exchange.")))
            .property("assertion_expires", named::<Moment>())
            .required("identity_assertion")
            .required("assertion_expires");
        Schema::from(OneOfBuilder::new().item(common(SCOPE_EVENTS)).item(account).build()).into()
    }
}

impl ToSchema for TokenResult {
    fn name() -> Cow<'static, str> {
        "TokenResult".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((Moment::name().into_owned(), Moment::schema()));
    }
}

fn string() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}
