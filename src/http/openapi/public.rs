//! What agents and people read first, and what stands under `/.well-known`.

use std::borrow::Cow;

use serde_json::{Value, json};
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::openapi::{RefOr, schema};
use utoipa::{PartialSchema, ToSchema};

use super::operation::Operation;

pub(super) fn operations() -> Vec<Operation> {
    let key = json!({ "kty": "OKP", "crv": "Ed25519", "kid": "k1", "use": "sig", "alg": "EdDSA", "x": "11qYAYKxCrfV" });
    Operation::tagged(
        "Guides",
        vec![
            Operation::get("/", "welcome", "What this is")
                .says("A browser is led to its person's account.")
                .answers_text("text/plain; charset=utf-8", 200, "Where to go.")
                .answers_nothing(303, "To the account page."),
            Operation::get("/openapi.json", "openapi", "This document")
                .answers::<AnObject>(200, "This document.", Value::Null)
                .with_header("ETag", "Changes with the document.")
                .answers_nothing(304, "The document that the caller has is the newest."),
            Operation::get("/.well-known/jwks.json", "jwks", "Keys of identity assertions").answers::<AnObject>(
                200,
                "The keys, as RFC 7517 has them.",
                json!({ "keys": [key] }),
            ),
        ],
    )
}

/// A JSON value of which nothing is known.
pub(super) enum Anything {}

impl PartialSchema for Anything {
    fn schema() -> RefOr<Schema> {
        let anything = ObjectBuilder::new().schema_type(schema::SchemaType::AnyValue);
        anything.description(Some("Whatever the statistics service says.")).build().into()
    }
}

impl ToSchema for Anything {
    fn name() -> Cow<'static, str> {
        "Anything".into()
    }
}

/// An object whose members are described elsewhere.
pub(super) enum AnObject {}

impl PartialSchema for AnObject {
    fn schema() -> RefOr<Schema> {
        let object = ObjectBuilder::new().schema_type(Type::Object);
        object.description(Some("An object whose members are described elsewhere.")).build().into()
    }
}

impl ToSchema for AnObject {
    fn name() -> Cow<'static, str> {
        "AnyObject".into()
    }
}
