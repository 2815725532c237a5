//! `POST /v1/mcp`: the memory as tools and resources of an MCP server (`docs/protocol/mcp.md`; Streamable HTTP).
//!
//! The endpoint is stateless: no sessions, no stream from the server, one JSON object per request. Tools that the scopes of the key do not
//! allow are not listed. A failed call is a result with `isError`, which a model can read and correct.

mod tools;

use std::sync::Arc;

use app::config::Urls;
use app::services::knowledge::{Batches, KnowledgeSearch, Memories, Spaces};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use domain::api_key::ApiKeyScope;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use wire::mcp::McpTool;

use self::tools::MemoryTools;
use super::error::KnowledgeResult;
use super::stream::EventStreams;
use super::{AnyKey, access_of};
use crate::body::RawBody;
use crate::error::{ApiError, Code};
use crate::guide::mcp::version;
use crate::origin::{self, OriginPolicy};
use crate::rpc::{self, Members, RpcError, RpcMessage};

/// The supported protocol versions, newest first. They do not differ in the parts that this server uses.
const PROTOCOL_VERSIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];

/// The description of this server, which a model reads when it connects.
const INSTRUCTIONS: &str = "A person's shared memory of pages and notes. Search it before you answer from general knowledge, and add what will matter later.";

/// `POST /v1/mcp`
#[expect(clippy::too_many_arguments, reason = "each argument is a part of the state")]
pub async fn answer(
    State(search): State<KnowledgeSearch>,
    State(memories): State<Memories>,
    State(spaces): State<Spaces>,
    State(batches): State<Batches>,
    State(streams): State<EventStreams>,
    State(urls): State<Arc<Urls>>,
    State(policy): State<Arc<OriginPolicy>>,
    AnyKey(key): AnyKey,
    headers: HeaderMap,
    RawBody(body): RawBody,
) -> KnowledgeResult {
    if !origin::allows_program(&headers, &policy) {
        return Err(Code::CrossSiteRequest.into());
    }
    let scopes = key.scopes.clone();
    let access = access_of(key);
    if !scopes.iter().any(|scope| matches!(scope, ApiKeyScope::Search | ApiKeyScope::Write)) {
        return Err(ApiError::new(Code::InsufficientScope).with("scope", ApiKeyScope::Search.as_str().into()).into());
    }
    let tools = MemoryTools { search, memories, spaces, batches, streams, urls, access, scopes };
    Ok(match rpc::read(&body) {
        Ok(_) if !rpc::is_version_2(&body) => rpc::answer(RawValue::NULL, Err(RpcError::INVALID_REQUEST)),
        Ok(RpcMessage::Request { id, method, params }) => {
            let params = params.and_then(Members::of).unwrap_or_default();
            rpc::answer(id, respond(&method, &params, version(&headers), &tools).await)
        }
        Ok(RpcMessage::Silent) => StatusCode::ACCEPTED.into_response(),
        Err((id, error)) => rpc::answer(id.unwrap_or(RawValue::NULL), Err(error)),
    })
}

async fn respond(
    method: &str,
    params: &Members<'_>,
    version: Option<&str>,
    tools: &MemoryTools,
) -> Result<Value, RpcError> {
    // An unknown method is answered for any version: newer clients detect an older server by calling newer methods.
    let is_known = matches!(
        method,
        "initialize"
            | "ping"
            | "tools/list"
            | "tools/call"
            | "resources/list"
            | "resources/templates/list"
            | "resources/read"
    );
    if !is_known {
        return Err(RpcError::METHOD_NOT_FOUND);
    }
    if let Some(version) = version.filter(|version| !PROTOCOL_VERSIONS.contains(version)) {
        return Err(RpcError::unsupported_version(version, &PROTOCOL_VERSIONS));
    }
    match method {
        "initialize" => Ok(initialize(params)),
        "tools/list" => Ok(json!({ "tools": tools.listed().map(McpTool::described).collect::<Vec<_>>() })),
        "tools/call" => call(params, tools).await,
        "resources/list" => Ok(json!({ "resources": tools.resources() })),
        "resources/templates/list" => Ok(json!({ "resourceTemplates": tools.templates() })),
        "resources/read" => {
            let uri = params.text("uri").ok_or_else(|| RpcError::invalid_params("uri must be that of a resource"))?;
            let content = tools.read(&uri).await.map_err(|reason| RpcError::internal(&reason))?;
            let content = content.ok_or_else(|| RpcError::no_resource(&uri))?;
            Ok(json!({ "contents": [content] }))
        }
        _ => Ok(json!({})),
    }
}

fn initialize(params: &Members<'_>) -> Value {
    let requested = params.text("protocolVersion").unwrap_or_default();
    let [newest, ..] = PROTOCOL_VERSIONS;
    let agreed = PROTOCOL_VERSIONS.into_iter().find(|version| *version == requested).unwrap_or(newest);
    json!({
        "protocolVersion": agreed,
        "capabilities": { "tools": {}, "resources": {} },
        "serverInfo": { "name": "attache-memory", "title": "attache memory", "version": env!("CARGO_PKG_VERSION") },
        "instructions": INSTRUCTIONS,
    })
}

async fn call(params: &Members<'_>, tools: &MemoryTools) -> Result<Value, RpcError> {
    let name = params.text("name").ok_or_else(|| RpcError::invalid_params("name must be the name of a tool"))?;
    let tool = tools.listed().find(|tool| tool.name() == name);
    let tool = tool
        .ok_or_else(|| RpcError::invalid_params("unknown tool: tools/list returns those that this API key may call"))?;
    let arguments = params.get("arguments").map_or("{}", RawValue::get);
    let (text, structured, is_error) = match tools.call(tool, arguments).await {
        Ok((text, value)) => (text, Some(value), false),
        Err(reason) => (reason, None, true),
    };
    let mut result = json!({ "content": [{ "type": "text", "text": text }], "isError": is_error });
    if let Some(value) = structured {
        result["structuredContent"] = value;
    }
    Ok(result)
}
