//! The key of a request about itself (`docs/protocol/knowledge.md#api-key`).

use std::sync::Arc;

use app::config::Urls;
use axum::extract::State;

use super::error::KnowledgeResult;
use crate::api_keys::described;
use crate::auth::{Caller, Challenge};
use crate::body;
use crate::error::Code;

/// `GET /v1/key`: name, scopes, spaces and expiry of the key with which it is asked. Any valid key may ask.
pub async fn show(State(urls): State<Arc<Urls>>, caller: Caller) -> KnowledgeResult {
    let Caller::Key(key) = caller else { return Err(Challenge::for_key(&urls).to(Code::Unauthorized).into()) };
    Ok(body::answer(&described(&key))?)
}
