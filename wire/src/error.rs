//! Errors (`docs/protocol/errors.md`, `docs/decisions/0034-errors-of-the-knowledge-api.md` and
//! `docs/decisions/0021-refusals-outside-the-error-table.md`).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// The body of every response with an error status.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// Error code, such as `invalid_request`.
    pub error: String,
    /// Whether the same request may be sent again later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = bool)]
    pub retryable: Option<bool>,
    /// The faults of an invalid request, each with its place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issues: Vec<Issue>,
    /// Text for a person: on every error of the knowledge API, and where the code alone does not name the next step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub details: Option<String>,
    /// Members that only some codes have, such as `interval`.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// A fault in a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Issue {
    /// Path of the member, such as `contents[3].title`; empty for the whole request.
    pub path: String,
    /// The rule that the member breaks.
    pub message: String,
}
