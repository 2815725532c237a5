//! Information about the key of the request (`docs/protocol/knowledge.md#api-key`).

use super::AnyKey;
use super::error::KnowledgeResult;
use crate::api_keys::described;
use crate::body;

/// `GET /v1/key`: name, scopes, spaces and expiry of the key of the request. Any valid key is accepted.
pub async fn show(AnyKey(key): AnyKey) -> KnowledgeResult {
    Ok(body::answer(&described(&key))?)
}
