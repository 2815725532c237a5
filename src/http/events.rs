//! Event intake (`docs/protocol/events.md` and `docs/decisions/0018-forward-or-hold.md` and `docs/decisions/0021-refusals-outside-the-error-table.md`).

use actors::intake::{Sender, Verdict};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::ids::ReceiptId;
use wire::events::SubmitResult;

use super::auth::{Caller, unauthorized};
use super::body::{self, RawBody};
use super::error::{Answer, ApiError, Code};
use super::passed;
use crate::house::House;

/// `POST /api/v1/events`: 202 `{receipt_id}` or 202 `{held: true, warning}`; 409, 422 and 429 are the statistics service's own.
pub async fn submit(State(house): State<House>, caller: Caller, RawBody(body): RawBody) -> Answer {
    let sender = match caller {
        Caller::PreClaim { agent } => Sender::Unclaimed(agent),
        Caller::Machine { facts, has_held } => Sender::Machine { facts, has_held },
        Caller::Account { account, agent, .. } => Sender::Account { account, agent: Some(agent) },
        Caller::Session { account: Some(account), .. } => Sender::Account { account, agent: None },
        Caller::Session { account: None, .. } | Caller::Key(_) => {
            return Err(unauthorized(Code::Unauthorized, true, &house));
        }
    };
    Ok(match house.intake.submit(sender, body).await? {
        Verdict::Forwarded(receipt) => forwarded(receipt),
        Verdict::Held { warning } => accepted(&SubmitResult::Held { held: true, warning })?,
        Verdict::Passed(answer) => passed::to_sender(answer),
        Verdict::Unavailable { reason, retry_after } => return Err(ApiError::unavailable(reason, retry_after)),
    })
}

/// [`SubmitResult::Forwarded`] without a serialiser: most answers of a busy server are this one.
fn forwarded(receipt: ReceiptId) -> Response {
    let json = HeaderValue::from_static("application/json");
    (StatusCode::ACCEPTED, [(CONTENT_TYPE, json)], format!("{{\"receipt_id\":\"{receipt}\"}}")).into_response()
}

fn accepted(result: &SubmitResult) -> Answer {
    Ok((StatusCode::ACCEPTED, body::answer(result)?).into_response())
}

/// `GET /api/v1/events/registry`
pub async fn registry(State(house): State<House>) -> Answer {
    Ok(axum::Json(&house.registry_description).into_response())
}

#[cfg(test)]
mod tests {
    use domain::{Chance, Timestamp};
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn a_receipt_is_written_as_the_serialiser_writes_it() {
        let receipt_id = Chance::seeded(1).uuid_v7(Timestamp::UNIX_EPOCH).into();
        let by_hand = forwarded(receipt_id);
        let serialised = accepted(&SubmitResult::Forwarded { receipt_id }).unwrap();
        assert_eq!((by_hand.status(), by_hand.headers()), (serialised.status(), serialised.headers()));
        let body = async |response: Response| response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body(by_hand).await, body(serialised).await);
    }
}
