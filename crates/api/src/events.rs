//! Event intake (`docs/protocol/events.md` and `docs/decisions/0007-held-events.md` and `docs/decisions/0009-errors-and-limits.md`).

use std::sync::Arc;
use std::time::Duration;

use actors::intake::{Intake, IntakeOutcome, Sender};
use app::config::Urls;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::ids::ReceiptId;
use domain::registry::Registry;
use serde_json::Value;
use wire::events::SubmitResult;

use super::auth::{Caller, unauthorized};
use super::body::{self, RawBody};
use super::error::{ApiError, ApiResult, Code};
use super::passed;

/// `POST /api/v1/events`: 202 `{receipt_id}` or 202 `{held: true, warning}`; 409, 422 and 429 are the statistics service's own.
pub async fn submit(
    State(intake): State<Intake>,
    State(urls): State<Arc<Urls>>,
    caller: Caller,
    body: Result<RawBody, ApiError>,
) -> ApiResult {
    let RawBody(body) = body.map_err(unread)?;
    let sender = match caller {
        Caller::PreClaim { agent } => Sender::Unclaimed(agent),
        Caller::Machine { facts, has_held } => Sender::Machine { facts, has_held },
        Caller::Account { account, agent, .. } => Sender::Account { account, agent: Some(agent) },
        Caller::Session { account: Some(account), .. } => Sender::Account { account, agent: None },
        Caller::Session { account: None, .. } | Caller::Key(_) => {
            return Err(unauthorized(Code::Unauthorized, true, &urls));
        }
    };
    Ok(match intake.submit(sender, body).await? {
        IntakeOutcome::Forwarded(receipt) => forwarded(receipt),
        IntakeOutcome::Held { warning } => accepted(&SubmitResult::Held { held: true, warning })?,
        IntakeOutcome::Passed(answer) => passed::to_sender(answer),
        IntakeOutcome::Paused(paused) => return Err(paused.into()),
        IntakeOutcome::Unavailable { reason, retry_after } => return Err(ApiError::unavailable(reason, retry_after)),
    })
}

/// A body that cannot be read is 424 on this route, malformed chunks included: the specification has no 400 here.
fn unread(error: ApiError) -> ApiError {
    match error.code() {
        Code::InvalidRequest => ApiError::unavailable("body_unreadable", Duration::from_secs(1)),
        _ => error,
    }
}

/// [`SubmitResult::Forwarded`] without a serialiser, because it is the most frequent response of a busy server.
fn forwarded(receipt: ReceiptId) -> Response {
    let json = HeaderValue::from_static("application/json");
    (StatusCode::ACCEPTED, [(CONTENT_TYPE, json)], format!("{{\"receipt_id\":\"{receipt}\"}}")).into_response()
}

fn accepted(result: &SubmitResult) -> ApiResult {
    Ok((StatusCode::ACCEPTED, body::answer(result)?).into_response())
}

/// The body of `GET /api/v1/events/registry`.
#[derive(Debug)]
pub struct RegistryDescription(Value);

impl RegistryDescription {
    /// Describes these event types.
    pub fn new(registry: &Registry) -> Self {
        Self(registry.describe())
    }
}

/// `GET /api/v1/events/registry`
pub async fn registry(State(description): State<Arc<RegistryDescription>>) -> ApiResult {
    Ok(axum::Json(&description.0).into_response())
}

#[cfg(test)]
mod tests {
    use domain::{Rng, Timestamp};
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn a_receipt_is_written_as_the_serialiser_writes_it() {
        let receipt_id = Rng::seeded(1).uuid_v7(Timestamp::UNIX_EPOCH).into();
        let by_hand = forwarded(receipt_id);
        let serialised = accepted(&SubmitResult::Forwarded { receipt_id }).unwrap();
        assert_eq!((by_hand.status(), by_hand.headers()), (serialised.status(), serialised.headers()));
        let body = async |response: Response| response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body(by_hand).await, body(serialised).await);
    }
}
