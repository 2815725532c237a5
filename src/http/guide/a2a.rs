//! A2A: whoever sends a message is answered with the guide (specification, *Guide endpoints*, A2A rules).
//!
//! 1. `SendMessage` is answered with a message; its parameters do not matter.
//! 2. Everything else, requests that cannot be read included, is 200 with error −32601.

use axum::extract::State;
use serde_json::{Value, json};

use super::rpc::{self, RpcError};
use crate::house::House;
use crate::http::body::RawBody;
use crate::http::error::Answer;

/// `POST /api/v1/a2a`
pub async fn answer(State(house): State<House>, RawBody(body): RawBody) -> Answer {
    let Request { id, method } = read(&body);
    let outcome = if method.as_deref() == Some("SendMessage") {
        Ok(json!({ "message": {
            "messageId": house.chance.uuid_v7(house.clock.now()).to_string(),
            "role": "ROLE_AGENT",
            "parts": [{ "text": house.guides.short() }],
        }}))
    } else {
        Err(RpcError::METHOD_NOT_FOUND)
    };
    Ok(rpc::answer(&id, outcome))
}

/// What is read of a request; without a method when it is none of those that the specification describes.
#[derive(Debug, Default, PartialEq)]
struct Request {
    id: Value,
    method: Option<String>,
}

fn read(body: &[u8]) -> Request {
    let Ok(Value::Object(mut members)) = serde_json::from_slice(body) else { return Request::default() };
    let id = members.remove("id").unwrap_or_default();
    if !matches!(id, Value::String(_) | Value::Number(_) | Value::Null) {
        return Request::default();
    }
    let Some(Value::String(method)) = members.remove("method") else { return Request { id, method: None } };
    Request { id, method: Some(method) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_given_back_even_when_the_rest_is_invalid() {
        let request = |id: Value, method: Option<&str>| Request { id, method: method.map(Into::into) };
        for (body, expected) in [
            (r#"{"id": "a", "method": "SendMessage"}"#, request(json!("a"), Some("SendMessage"))),
            (r#"{"id": 1.5, "method": 5}"#, request(json!(1.5), None)),
            (r#"{"id": 7}"#, request(json!(7), None)),
            (r#"{"method": "SendMessage"}"#, request(Value::Null, Some("SendMessage"))),
            (r#"{"id": [1], "method": "SendMessage"}"#, request(Value::Null, None)),
            ("[]", request(Value::Null, None)),
            ("{", request(Value::Null, None)),
            ("", request(Value::Null, None)),
        ] {
            assert_eq!(read(body.as_bytes()), expected, "{body}");
        }
    }
}
