//! The guides, and the documents under `/.well-known`.

use serde_json::{Value, json};

use super::operation::Operation;
use super::rpc::{RpcAnswer, RpcRequest};
use super::schemas::AnObject;
use crate::http::error::Code;

const PLAIN: &str = "text/plain; charset=utf-8";

pub(super) fn operations() -> Vec<Operation> {
    let operations = [protocols(), guides(), metadata()].into_iter().flatten();
    // Clients may revalidate their copies.
    Operation::tagged("Guides", operations.map(Operation::answers_if_changed).collect())
}

fn protocols() -> Vec<Operation> {
    let id = "019b76da-a800-7274-8acf-2e56e162ebd9";
    let text = "attache is where software agents act for people.";
    let message = json!({ "messageId": id, "role": "ROLE_AGENT", "parts": [{ "text": text }] });
    let a2a = json!({ "jsonrpc": "2.0", "id": 1, "result": { "message": message } });
    let mcp = json!({ "jsonrpc": "2.0", "id": 1, "result": { "tools": [{ "name": "about_service" }] } });
    let parse = json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32700, "message": "Parse error" } });
    let answer = "An answer of JSON-RPC 2.0, or one of its errors.";
    vec![
        Operation::post("/api/v1/a2a", "a2a", "Ask over A2A")
            .says("A2A 1.0, one method: `SendMessage` is answered with the guide, whatever the message. Everything else is \
                `Method not found`.")
            .takes::<RpcRequest>(json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {} }))
            .answers::<RpcAnswer>(200, answer, a2a),
        Operation::post("/api/v1/mcp", "mcp", "Ask over MCP")
            .says("MCP 2025-06-18 over HTTP, without sessions: `initialize`, `ping`, `tools/list`, `tools/call`. The one \
                tool, `about_service`, gives the guide.")
            .takes::<RpcRequest>(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }))
            .answers::<RpcAnswer>(200, answer, mcp)
            .answers_nothing(202, "There is nothing to say to a notification.")
            .answers::<RpcAnswer>(400, "Not JSON, no message, or a version of MCP that is not spoken here.", parse)
            .refuses(&[Code::CrossSiteRequest]),
    ]
}

fn guides() -> Vec<Operation> {
    vec![
        Operation::get("/", "welcome", "What this is")
            .says("A browser is led to its person's account.")
            .answers_text(PLAIN, 200, "Where to go.")
            .answers_nothing(303, "To the account page."),
        Operation::get("/llms.txt", "guide", "The guide").answers_text(PLAIN, 200, "The short guide for agents."),
        Operation::get("/llms-full.txt", "wholeGuide", "The whole guide").answers_text(
            PLAIN,
            200,
            "From a registration to a search, as commands.",
        ),
        Operation::get("/auth.md", "authGuide", "The guide to credentials").answers_text(
            "text/markdown; charset=utf-8",
            200,
            "How to get a credential, renew it and give it back.",
        ),
        Operation::get("/openapi.json", "openapi", "This document")
            .answers::<AnObject>(200, "This document.", Value::Null)
            .with_header("ETag", "Changes with the document."),
    ]
}

fn metadata() -> Vec<Operation> {
    let key = json!({ "kty": "OKP", "crv": "Ed25519", "kid": "k1", "use": "sig", "alg": "EdDSA", "x": "11qYAYKxCrfV" });
    let told = |path, id, summary, what| Operation::get(path, id, summary).answers::<AnObject>(200, what, Value::Null);
    let resource = "/.well-known/oauth-protected-resource";
    let resource_at = "/.well-known/oauth-protected-resource/{*path}";
    let issuer = "/.well-known/oauth-authorization-server";
    vec![
        Operation::get("/.well-known/jwks.json", "jwks", "Keys of identity assertions").answers::<AnObject>(
            200,
            "The keys, as RFC 7517 has them.",
            json!({ "keys": [key] }),
        ),
        told("/.well-known/agent-card.json", "agentCard", "The agent card of A2A", "The card."),
        told(issuer, "authorizationServer", "Metadata for tokens", "RFC 8414, with the block `agent_auth`."),
        told(resource, "protectedResource", "Metadata of the API", "RFC 9728."),
        told(resource_at, "protectedResourceAt", "Metadata of one resource", "RFC 9728."),
    ]
}
