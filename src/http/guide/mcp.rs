//! MCP: one tool, which gives the guide (specification, *Guide endpoints*, MCP rules; Streamable HTTP of 2025-06-18).
//!
//! Stateless: no sessions, no stream from the server, each request answered by one JSON object. What is checked, in this order:
//!
//! 1. a page of another site may not ask: 403;
//! 2. what is not JSON is −32700, what is no message −32600, both with 400;
//! 3. notifications and responses are 202, since there is nothing to say to them;
//! 4. an unknown method is −32601 with 200, whatever version its client speaks: newer clients ask for methods that we do not have to learn
//!    that we are older;
//! 5. `MCP-Protocol-Version`, when it is sent, has to be ours: 400.

use axum::extract::State;
use axum::http::header::ORIGIN;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use serde_json::{Value, json};

use super::rpc::{self, RpcError};
use crate::house::House;
use crate::http::body::RawBody;
use crate::http::error::{Answer, ApiError, Code};

/// The one version that is spoken here.
const PROTOCOL_VERSION: &str = "2025-06-18";

/// The one tool.
const TOOL: &str = "about_service";

/// `POST /api/v1/mcp`
pub async fn answer(State(house): State<House>, headers: HeaderMap, RawBody(body): RawBody) -> Answer {
    own_origin(&headers, &house)?;
    Ok(match read(&body) {
        Ok(Message::Request { id, method, params }) => {
            rpc::answer(&id, respond(&method, &params, version(&headers), &house))
        }
        Ok(Message::Silent) => StatusCode::ACCEPTED.into_response(),
        Err((id, error)) => rpc::answer(&id, Err(error)),
    })
}

fn respond(method: &str, params: &Value, version: Option<&str>, house: &House) -> Result<Value, RpcError> {
    let method = Method::named(method).ok_or(RpcError::METHOD_NOT_FOUND)?;
    if let Some(version) = version.filter(|version| *version != PROTOCOL_VERSION) {
        return Err(RpcError::unsupported_version(version, PROTOCOL_VERSION));
    }
    match method {
        Method::Initialize => Ok(json!({
            "protocolVersion": PROTOCOL_VERSION,
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "attache", "title": "attache", "version": env!("CARGO_PKG_VERSION") },
            "instructions": format!("Call {TOOL} to learn how to act for a person here."),
        })),
        Method::Ping => Ok(json!({})),
        Method::ListTools => Ok(json!({ "tools": [{
            "name": TOOL,
            "title": "About this service",
            "description": "How to register, be claimed by a person, send events, and remember and find things here: a short guide, \
                with links to the whole guide and to the one about authentication.",
            "inputSchema": { "type": "object", "properties": {} },
            "annotations": { "readOnlyHint": true, "idempotentHint": true, "openWorldHint": false },
        }]})),
        Method::CallTool => match params.get("name").and_then(Value::as_str) {
            Some(TOOL) => {
                Ok(json!({ "content": [{ "type": "text", "text": house.guides.short() }], "isError": false }))
            }
            Some(_) => Err(RpcError::invalid_params("there is no such tool: tools/list tells which there are")),
            None => Err(RpcError::invalid_params("name must be the name of a tool")),
        },
    }
}

/// The methods that we have.
#[derive(Debug, Clone, Copy)]
enum Method {
    Initialize,
    Ping,
    ListTools,
    CallTool,
}

impl Method {
    fn named(name: &str) -> Option<Self> {
        match name {
            "initialize" => Some(Self::Initialize),
            "ping" => Some(Self::Ping),
            "tools/list" => Some(Self::ListTools),
            "tools/call" => Some(Self::CallTool),
            _ => None,
        }
    }
}

/// What a client sends.
#[derive(Debug, PartialEq)]
enum Message {
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    /// A notification, or an answer to a request that we never made.
    Silent,
}

fn read(body: &[u8]) -> Result<Message, (Value, RpcError)> {
    let message = serde_json::from_slice(body).map_err(|_| (Value::Null, RpcError::PARSE))?;
    let Value::Object(mut members) = message else { return Err((Value::Null, RpcError::INVALID_REQUEST)) };
    let is_response = members.contains_key("result") || members.contains_key("error");
    let params = members.remove("params").unwrap_or_default();
    match (members.remove("method"), members.remove("id")) {
        (Some(Value::String(method)), Some(id @ (Value::String(_) | Value::Number(_)))) => {
            Ok(Message::Request { id, method, params })
        }
        (Some(Value::String(_)), None) => Ok(Message::Silent),
        (None, _) if is_response => Ok(Message::Silent),
        (_, Some(id @ (Value::String(_) | Value::Number(_)))) => Err((id, RpcError::INVALID_REQUEST)),
        _ => Err((Value::Null, RpcError::INVALID_REQUEST)),
    }
}

/// A foreign page could otherwise make a browser on this network ask for it (DNS rebinding). Clients that are no browsers send none.
fn own_origin(headers: &HeaderMap, house: &House) -> Result<(), ApiError> {
    let own = headers.get_all(ORIGIN).iter().all(|origin| origin.as_bytes() == house.origin().as_bytes());
    if own { Ok(()) } else { Err(Code::CrossSiteRequest.into()) }
}

/// What stands in `MCP-Protocol-Version`.
fn version(headers: &HeaderMap) -> Option<&str> {
    headers.get("mcp-protocol-version").map(|version| version.to_str().unwrap_or("?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_a_request_or_silent_or_wrong() {
        let code = |body: &str| read(body.as_bytes()).map_err(|(id, error)| (id, error == RpcError::PARSE));
        let request = |id: Value| Ok(Message::Request { id, method: "ping".into(), params: Value::Null });
        assert_eq!(code(r#"{"id": 1, "method": "ping"}"#), request(json!(1)));
        assert_eq!(code(r#"{"id": "a", "method": "ping", "extra": 1}"#), request(json!("a")));
        for silent in [
            r#"{"method": "notifications/initialized"}"#,
            r#"{"method": "ping"}"#,
            r#"{"id": 1, "result": {}}"#,
            r#"{"id": 1, "error": {"code": 1, "message": "no"}}"#,
        ] {
            assert_eq!(code(silent), Ok(Message::Silent), "{silent}");
        }
        for (wrong, id) in [
            ("[]", Value::Null),
            ("1", Value::Null),
            ("{}", Value::Null),
            (r#"{"id": null, "method": "ping"}"#, Value::Null),
            (r#"{"id": [], "method": "ping"}"#, Value::Null),
            (r#"{"id": 1}"#, json!(1)),
            (r#"{"id": 1, "method": 2, "result": {}}"#, json!(1)),
        ] {
            assert_eq!(code(wrong), Err((id, false)), "{wrong}");
        }
        for garbage in ["", "{", "{} x", "\u{feff}{}"] {
            assert_eq!(code(garbage), Err((Value::Null, true)), "{garbage}");
        }
    }
}
