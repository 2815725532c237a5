//! Guides, and metadata under `/.well-known`.

use serde_json::{Value, json};

use super::operation::Operation;
use super::rpc::{RpcAnswer, RpcRequest};
use super::schemas::AnObject;
use crate::error::Code;

const PLAIN: &str = "text/plain; charset=utf-8";

pub(super) fn operations() -> Vec<Operation> {
    let operations = [protocols(), guides(), metadata()].into_iter().flatten();
    // All of these operations support conditional requests.
    Operation::tagged("Guides", operations.map(Operation::answers_if_changed).collect())
}

fn protocols() -> Vec<Operation> {
    let id = "019b76da-a800-7274-8acf-2e56e162ebd9";
    let text = "attache is where software agents act for people.";
    let message = json!({ "messageId": id, "role": "ROLE_AGENT", "parts": [{ "text": text }] });
    let a2a = json!({ "jsonrpc": "2.0", "id": 1, "result": { "message": message } });
    let mcp = json!({ "jsonrpc": "2.0", "id": 1, "result": { "tools": [{ "name": "about_service" }] } });
    let parse = json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32700, "message": "Parse error" } });
    let answer = "A JSON-RPC 2.0 result or error.";
    vec![
        Operation::post("/api/v1/a2a", "a2a", "Get the guide over A2A")
            .says("A2A 1.0 with one method: `SendMessage` returns the guide, for any message. Other methods are answered \
             `Method not found`.")
            .takes::<RpcRequest>(json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {} }))
            .answers::<RpcAnswer>(200, answer, a2a),
        Operation::post("/api/v1/mcp", "mcp", "Get the guide over MCP")
            .says("MCP 2025-06-18 over HTTP, without sessions: `initialize`, `ping`, `tools/list`, `tools/call`. The only \
             tool, `about_service`, returns the guide.")
            .takes::<RpcRequest>(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }))
            .answers::<RpcAnswer>(200, answer, mcp)
            .answers_nothing(202, "A notification was accepted.")
            .answers::<RpcAnswer>(400, "Not JSON, not a message, or an unsupported version of MCP.", parse)
            .refuses(&[Code::CrossSiteRequest]),
    ]
}

fn guides() -> Vec<Operation> {
    vec![
        Operation::get("/", "welcome", "Welcome")
            .says("Browsers get the start page; those of signed-in people are redirected to the account page.")
            .answers_text(PLAIN, 200, "Links to the guides; for browsers, the start page.")
            .answers_text("text/html; charset=utf-8", 200, "The start page, for browsers.")
            .answers_nothing(303, "Redirect to the account page."),
        Operation::get("/llms.txt", "guide", "Short guide").answers_text(PLAIN, 200, "The short guide for agents."),
        Operation::get("/llms-full.txt", "wholeGuide", "Complete guide").answers_text(
            PLAIN,
            200,
            "From registration to search, as commands.",
        ),
        Operation::get("/auth.md", "authGuide", "Guide to credentials").answers_text(
            "text/markdown; charset=utf-8",
            200,
            "How to get, renew and revoke a credential.",
        ),
        Operation::get("/openapi.json", "openapi", "This document")
            .answers::<AnObject>(200, "This document.", Value::Null)
            .with_header("ETag", "Changes with the document."),
    ]
}

fn metadata() -> Vec<Operation> {
    let key = json!({ "kty": "OKP", "crv": "Ed25519", "kid": "k1", "use": "sig", "alg": "EdDSA", "x": "11qYAYKxCrfV" });
    let metadata_of =
        |path, id, summary, what| Operation::get(path, id, summary).answers::<AnObject>(200, what, Value::Null);
    let resource = "/.well-known/oauth-protected-resource";
    let resource_at = "/.well-known/oauth-protected-resource/{*path}";
    let issuer = "/.well-known/oauth-authorization-server";
    vec![
        Operation::get("/.well-known/jwks.json", "jwks", "Public keys of identity assertions").answers::<AnObject>(
            200,
            "JSON Web Key Set (RFC 7517).",
            json!({ "keys": [key] }),
        ),
        metadata_of("/.well-known/agent-card.json", "agentCard", "A2A agent card", "The agent card."),
        metadata_of(
            issuer,
            "authorizationServer",
            "Authorization server metadata",
            "RFC 8414, with the block `agent_auth`.",
        ),
        metadata_of(resource, "protectedResource", "Protected resource metadata", "RFC 9728."),
        metadata_of(resource_at, "protectedResourceAt", "Protected resource metadata of one resource", "RFC 9728."),
    ]
}
