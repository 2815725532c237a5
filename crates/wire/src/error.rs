//! Errors (`docs/protocol/errors.md`, `docs/decisions/0009-errors-and-limits.md`).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// Body of every error: `{error: <code>, …}`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// Error code.
    pub error: String,
    /// Whether the request can be retried later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = bool)]
    pub retryable: Option<bool>,
    /// Violated rules of the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issues: Vec<Issue>,
    /// Explanation for a person: on every error of the knowledge API, and on codes that need one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub details: Option<String>,
    /// Further members of a code, such as `interval`.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// A violated rule of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Issue {
    /// Path of the value, such as `contents[3].title`; empty for the whole request.
    pub path: String,
    /// The violated rule.
    pub message: String,
}
