//! Schemas of JSON-RPC 2.0, which both guide endpoints use.

use std::borrow::Cow;

use serde_json::json;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

/// A request; without `id` a notification.
pub(super) enum RpcRequest {}

impl PartialSchema for RpcRequest {
    fn schema() -> RefOr<Schema> {
        let request = ObjectBuilder::new()
            .property("jsonrpc", version())
            .property("id", kinds([Type::String, Type::Number]))
            .property("method", kinds([Type::String]))
            .property("params", ObjectBuilder::new().schema_type(SchemaType::AnyValue))
            .required("method");
        request.description(Some("A JSON-RPC 2.0 request; without `id` a notification.")).build().into()
    }
}

impl ToSchema for RpcRequest {
    fn name() -> Cow<'static, str> {
        "RpcRequest".into()
    }
}

/// A response: a result or an error.
pub(super) enum RpcAnswer {}

impl PartialSchema for RpcAnswer {
    fn schema() -> RefOr<Schema> {
        let answer = || {
            ObjectBuilder::new()
                .property("jsonrpc", version())
                .property("id", kinds([Type::String, Type::Number, Type::Null]))
                .required("jsonrpc")
                .required("id")
        };
        let error = ObjectBuilder::new()
            .property("code", kinds([Type::Integer]))
            .property("message", kinds([Type::String]))
            .property("data", ObjectBuilder::new().schema_type(SchemaType::AnyValue))
            .required("code")
            .required("message");
        let success = answer().property("result", kinds([Type::Object])).required("result");
        let failed = answer().property("error", error).required("error");
        Schema::from(OneOfBuilder::new().item(success).item(failed).build()).into()
    }
}

impl ToSchema for RpcAnswer {
    fn name() -> Cow<'static, str> {
        "RpcAnswer".into()
    }
}

fn version() -> ObjectBuilder {
    kinds([Type::String]).enum_values(Some([json!("2.0")]))
}

fn kinds<const N: usize>(kinds: [Type; N]) -> ObjectBuilder {
    let kinds = Vec::from(kinds);
    let kind = if let [only] = kinds.as_slice() { SchemaType::from(only.clone()) } else { SchemaType::Array(kinds) };
    ObjectBuilder::new().schema_type(kind)
}
