//! The agent card, which describes this server to agents that use A2A.

use std::sync::Arc;

use app::config::Urls;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::json;

use crate::document::Document;

/// `GET /.well-known/agent-card.json` (A2A 1.0, section *Agent discovery*): a card of that version only, since the server does not
/// support the method names of older versions.
pub async fn agent_card(State(urls): State<Arc<Urls>>, headers: HeaderMap) -> Response {
    let base = &urls.base;
    let card = json!({
        "name": "attache",
        "description": "Gives software agents and computers a person's account to attach to, that person's consent to act under, a record of \
            what they did that can be checked, and a shared memory. Any message is answered with the guide that says how.",
        "supportedInterfaces": [
            { "url": format!("{base}/api/v1/a2a"), "protocolBinding": "JSONRPC", "protocolVersion": "1.0" },
        ],
        "version": env!("CARGO_PKG_VERSION"),
        "documentationUrl": format!("{base}/llms-full.txt"),
        "capabilities": { "streaming": false, "pushNotifications": false, "extendedAgentCard": false },
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{
            "id": "about_service",
            "name": "About this service",
            "description": "Explains how to register, be claimed by a person, send events, and use the shared memory.",
            "tags": ["guide", "registration", "consent", "audit", "memory"],
            "examples": ["How do I register?", "How do I act for a person here?"],
        }],
    });
    Document::json(&card).answer(&headers)
}
