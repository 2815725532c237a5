//! Errors of the knowledge API: `{error, details, issues?}` (`docs/decisions/0009-errors-and-limits.md`).

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::error::{ApiError, Code};

/// An error of the knowledge API. A temporary failure is 503 here, and 424 on the account and agent API.
#[derive(Debug)]
pub struct KnowledgeError(ApiError);

impl<E: Into<ApiError>> From<E> for KnowledgeError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl KnowledgeError {
    /// The reason in words: the first issue of the request, or the remedy for the code.
    pub fn reason(&self) -> String {
        self.0.first_issue().unwrap_or_else(|| details(self.0.code()).to_owned())
    }
}

impl KnowledgeError {
    /// Counts an error that does not become a separate response, such as an error of a tool.
    pub fn count(&self) {
        self.0.count();
    }
}

impl IntoResponse for KnowledgeError {
    fn into_response(self) -> Response {
        let details = self.reason();
        let Self(error) = self;
        let error = error.with("details", json!(details));
        if error.code() == Code::TemporarilyUnavailable {
            return error.answered_as(StatusCode::SERVICE_UNAVAILABLE);
        }
        error.into_response()
    }
}

/// The result of a handler of the knowledge API.
pub type KnowledgeResult<T = Response> = Result<T, KnowledgeError>;

/// A sentence with the remedy for a code.
fn details(code: Code) -> &'static str {
    match code {
        Code::Unauthorized => {
            "send the header Authorization: Bearer <API key>, with a key that is neither expired nor revoked"
        }
        Code::InvalidJson => "the body is not JSON",
        Code::SpaceForbidden => "the space does not exist, or this API key has no access to it",
        Code::InsufficientScope => "this API key lacks the required scope: use a key that has it",
        Code::NotFound => "it does not exist, or it belongs to another account",
        Code::MethodNotAllowed => "this path does not support the method",
        Code::PayloadTooLarge => "the body is too large: send several smaller requests",
        Code::UnsupportedMediaType => "send the body as application/json",
        Code::UnsupportedContentEncoding => "send the body without Content-Encoding",
        Code::RateLimited => "the account has reached a limit: wait and try again",
        Code::TemporarilyUnavailable => "the service is temporarily unavailable: try again",
        Code::IdempotencyKeyReused => "an earlier request with this Idempotency-Key had another body: use a new key",
        Code::InvalidRequest => "the request is invalid: see its issues",
        _ => "the request was refused: see its error code",
    }
}
