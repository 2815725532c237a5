//! Errors (`docs/protocol/errors.md` and `docs/decisions/0034-errors-of-the-knowledge-api.md` and `docs/decisions/0021-refusals-outside-the-error-table.md`).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// `{error: <code>, …}`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// The code.
    pub error: String,
    /// Whether the same request may be sent again later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = bool)]
    pub retryable: Option<bool>,
    /// What was wrong, place by place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issues: Vec<Issue>,
    /// In a sentence, for a person: on every error of the knowledge API, and where a code alone does not say what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub details: Option<String>,
    /// What else a code carries, `interval` for instance.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// One place in a request that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Issue {
    /// The place, `contents[3].title` for instance; empty for the whole.
    pub path: String,
    /// The rule.
    pub message: String,
}
