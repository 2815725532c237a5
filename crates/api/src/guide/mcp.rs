//! MCP with one tool, which returns the guide (`docs/protocol/guides.md`; Streamable HTTP of 2025-06-18).
//!
//! The endpoint is stateless: no sessions, no stream from the server, one JSON object per request. The checks, in this order:
//!
//! 1. a request from a page of another site: 403;
//! 2. a body that is not JSON: −32700, a body that is not a message: −32600, both with 400;
//! 3. a notification or a response: 202 without a body;
//! 4. an unknown method: −32601 with 200 for any protocol version, because newer clients detect an older server by calling newer methods;
//! 5. an unsupported `MCP-Protocol-Version`: 400.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Guides;
use crate::body::RawBody;
use crate::error::{ApiResult, Code};
use crate::origin::{self, OriginPolicy};
use crate::rpc::{self, Members, RpcError, RpcMessage};

/// The supported protocol version.
const PROTOCOL_VERSION: &str = "2025-06-18";

/// Name of the only tool.
const TOOL: &str = "about_service";

/// `POST /api/v1/mcp`
pub async fn answer(
    State(guides): State<Arc<Guides>>,
    State(policy): State<Arc<OriginPolicy>>,
    headers: HeaderMap,
    RawBody(body): RawBody,
) -> ApiResult {
    if !origin::allows_program(&headers, &policy) {
        return Err(Code::CrossSiteRequest.into());
    }
    Ok(match rpc::read(&body) {
        Ok(RpcMessage::Request { id, method, params }) => {
            rpc::answer(id, respond(&method, params, version(&headers), &guides))
        }
        Ok(RpcMessage::Silent) => StatusCode::ACCEPTED.into_response(),
        Err((id, error)) => rpc::answer(id.unwrap_or(RawValue::NULL), Err(error)),
    })
}

fn respond(method: &str, params: Option<&RawValue>, version: Option<&str>, guides: &Guides) -> Result<Value, RpcError> {
    let method = Method::named(method).ok_or(RpcError::METHOD_NOT_FOUND)?;
    if let Some(version) = version.filter(|version| *version != PROTOCOL_VERSION) {
        return Err(RpcError::unsupported_version(version, &[PROTOCOL_VERSION]));
    }
    match method {
        Method::Initialize => Ok(json!({
            "protocolVersion": PROTOCOL_VERSION,
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "attache", "title": "attache", "version": env!("CARGO_PKG_VERSION") },
            "instructions": format!("Call {TOOL} for the guide on acting for a person with this server."),
        })),
        Method::Ping => Ok(json!({})),
        Method::ListTools => Ok(json!({ "tools": [{
            "name": TOOL,
            "title": "About this service",
            "description": "Returns the short guide: how to register, be claimed by a person, send events, and use the shared memory, \
             with links to the complete guide and to the guide to authentication.",
            "inputSchema": { "type": "object", "properties": {} },
            "annotations": { "readOnlyHint": true, "idempotentHint": true, "openWorldHint": false },
        }]})),
        Method::CallTool => match params.and_then(Members::of).unwrap_or_default().text("name").as_deref() {
            Some(TOOL) => Ok(json!({ "content": [{ "type": "text", "text": guides.short() }], "isError": false })),
            Some(_) => Err(RpcError::invalid_params("unknown tool: tools/list returns the available ones")),
            None => Err(RpcError::invalid_params("name must be the name of a tool")),
        },
    }
}

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

/// The value of `MCP-Protocol-Version`, if present.
pub fn version(headers: &HeaderMap) -> Option<&str> {
    headers.get("mcp-protocol-version").map(|version| version.to_str().unwrap_or("?"))
}
