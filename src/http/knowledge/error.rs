//! Errors of the knowledge API: `{error, details, issues?}` (`docs/decisions/0034-errors-of-the-knowledge-api.md`).

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::http::error::{ApiError, Code};

/// An error of the knowledge API. What could not be done right now is 503 here: 424 belongs to the other surface.
#[derive(Debug)]
pub struct KnowledgeError(ApiError);

impl<E: Into<ApiError>> From<E> for KnowledgeError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for KnowledgeError {
    fn into_response(self) -> Response {
        let Self(error) = self;
        let details = error.first_issue().unwrap_or_else(|| details(error.code()).to_owned());
        let error = error.with("details", json!(details));
        if error.code() == Code::TemporarilyUnavailable {
            return error.answered_as(StatusCode::SERVICE_UNAVAILABLE);
        }
        error.into_response()
    }
}

/// What handlers of the knowledge API give.
pub type KnowledgeResult<T = Response> = Result<T, KnowledgeError>;

/// A code in a sentence that says what to do.
fn details(code: Code) -> &'static str {
    match code {
        Code::Unauthorized => {
            "send the header Authorization: Bearer <API key>, with a key that is neither expired nor revoked"
        }
        Code::InvalidJson => "the body is not JSON",
        Code::SpaceForbidden => "a space does not exist, or this key may not do this there",
        Code::InsufficientScope => "this key does not have the scope for this: make one that has it",
        Code::NotFound => "there is nothing here, or it belongs to another account",
        Code::MethodNotAllowed => "this path takes other methods",
        Code::PayloadTooLarge => "the body is too large: send several smaller ones",
        Code::UnsupportedMediaType => "send the body as application/json",
        Code::UnsupportedContentEncoding => "send the body as it is, without Content-Encoding",
        Code::RateLimited => "the account has as much going on as it may: wait and try again",
        Code::TemporarilyUnavailable => "this could not be done right now: try again",
        Code::InvalidRequest => "the request cannot be taken as it is: see its issues",
        _ => "the request was refused: its error says why",
    }
}
