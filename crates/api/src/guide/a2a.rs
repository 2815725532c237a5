//! A2A: every message is answered with the guide (`docs/protocol/guides.md`).
//!
//! 1. The response to `SendMessage` is a message; its parameters are ignored.
//! 2. The response to every other request, including malformed ones, is 200 with error −32601.

use std::borrow::Cow;
use std::sync::Arc;

use app::services::Ports;
use axum::extract::State;
use serde_json::json;
use serde_json::value::RawValue;

use super::Guides;
use crate::body::RawBody;
use crate::error::ApiResult;
use crate::rpc::{self, Members, RpcError};

/// `POST /api/v1/a2a`
pub async fn answer(
    State(guides): State<Arc<Guides>>,
    State(ports): State<Ports>,
    RawBody(body): RawBody,
) -> ApiResult {
    let Request { id, method } = read(&body);
    let outcome = if method.is_some_and(|method| method == "SendMessage") {
        Ok(json!({ "message": {
            "messageId": ports.rng.uuid_v7(ports.clock.now()).to_string(),
            "role": "ROLE_AGENT",
            "parts": [{ "text": guides.short() }],
        }}))
    } else {
        Err(RpcError::METHOD_NOT_FOUND)
    };
    Ok(rpc::answer(id.unwrap_or(RawValue::NULL), outcome))
}

/// Id and method of a request; without a method if the request is malformed.
#[derive(Debug, Default)]
struct Request<'b> {
    id: Option<&'b RawValue>,
    method: Option<Cow<'b, str>>,
}

fn read(body: &[u8]) -> Request<'_> {
    let members = serde_json::from_slice(body).ok().and_then(Members::of).unwrap_or_default();
    match (members.get("id").map(RawValue::get), members.id()) {
        (None | Some("null"), id) | (_, id @ Some(_)) => Request { id, method: members.text("method") },
        (Some(_), None) => Request::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_given_back_even_when_the_rest_is_invalid() {
        for (body, id, method) in [
            (r#"{"id": "a", "method": "SendMessage"}"#, Some(r#""a""#), Some("SendMessage")),
            (r#"{"id": 1.50, "method": 5}"#, Some("1.50"), None),
            (r#"{"id": 7}"#, Some("7"), None),
            (r#"{"id": null, "method": "SendMessage"}"#, None, Some("SendMessage")),
            (r#"{"method": "SendMessage"}"#, None, Some("SendMessage")),
            (r#"{"id": [1], "method": "SendMessage"}"#, None, None),
            ("[]", None, None),
            ("{", None, None),
            ("", None, None),
        ] {
            let request = read(body.as_bytes());
            assert_eq!((request.id.map(RawValue::get), request.method.as_deref()), (id, method), "{body}");
        }
    }
}
