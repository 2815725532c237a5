//! The form of the token exchange, whose members depend on each other (`docs/protocol/agents.md#token`).

use std::borrow::Cow;

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::{Moment, bearer, named, text, words};
use crate::agent_auth::{ASSERTION_GRANT, SCOPE_ACCOUNT, SCOPE_EVENTS, TokenRequest, TokenResult};

impl PartialSchema for TokenRequest {
    fn schema() -> RefOr<Schema> {
        // The server does not compare the vendor.
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
