//! Requests of operators with an `Idempotency-Key` (`docs/decisions/0040-door-of-operators.md`).

use chrono::TimeDelta;
use domain::ids::EventId;
use domain::node_order::OrderAnswer;
use domain::{Digest, Timestamp};
use serde_json::json;
use uuid::Uuid;

use crate::error::{Corrupt, StoreError};
use crate::operation::{During, Operation};
use crate::pool::{Tx, query, scalar};
use crate::row::undecodable;
use crate::{Store, in_transaction};

/// Time for which an answer is kept.
const KEPT: TimeDelta = TimeDelta::days(1);

/// Time after which a request without an answer has ended with its process.
const RUNS_FOR: TimeDelta = TimeDelta::minutes(5);

/// A request with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorRequest {
    /// SHA-256 of its author and its key.
    pub key: Digest,
    /// SHA-256 of its method, path and body.
    pub content: Digest,
    /// Id of the act that it is.
    pub act: EventId,
}

/// What becomes of a request with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestBegun {
    /// It is the first one, or the first one ended with its process before the act was recorded.
    First,
    /// The first one has this answer.
    Answered(OrderAnswer),
    /// The first one runs.
    Running,
    /// The first one ended with its process before its answer. This act records its effect.
    Recorded(EventId),
    /// The first one with this key was another request.
    Other,
}

crate::row! {
    struct RequestRow {
        content: Vec<u8>,
        act: Uuid,
        begun_at: Timestamp,
        answer: Option<String>,
    }
}

impl Store {
    /// Begins a request with a key, unless it began before. [`Store::operator_request_end`] follows for the first one.
    #[boxed]
    pub async fn operator_request_begin(
        &self,
        request: &OperatorRequest,
        now: Timestamp,
    ) -> Result<RequestBegun, StoreError> {
        const FORGET: &str = "DELETE FROM operator_requests WHERE begun_at < $1";
        const BEGIN: &str = "INSERT INTO operator_requests (key, content, act, begun_at) VALUES ($1, $2, $3, $4)
            ON CONFLICT (key) DO NOTHING";
        in_transaction!(&self.pool, |tx| {
            query(FORGET).bind(now - KEPT).execute(&mut *tx).await?;
            let begun = query(BEGIN)
                .bind(&request.key.as_bytes()[..])
                .bind(&request.content.as_bytes()[..])
                .bind(request.act.as_uuid())
                .bind(now)
                .execute(&mut *tx)
                .await?;
            if begun == 1 { Ok(RequestBegun::First) } else { begun_before(tx, request, now).await }
        })
        .during(Operation::BeginOperatorRequest)
        .await
    }

    /// Stores the answer to a request that began; without one the request may be sent again with its key.
    #[boxed]
    pub async fn operator_request_end(
        &self,
        request: &OperatorRequest,
        answer: Option<&OrderAnswer>,
    ) -> Result<(), StoreError> {
        const ANSWER: &str = "UPDATE operator_requests SET answer = $2 WHERE key = $1";
        const FORGET: &str = "DELETE FROM operator_requests WHERE key = $1";
        let ended = match answer {
            Some(answer) => query(ANSWER).bind(&request.key.as_bytes()[..]).bind(json!(answer).to_string()),
            None => query(FORGET).bind(&request.key.as_bytes()[..]),
        };
        ended.execute(self.pool.writer()).during(Operation::EndOperatorRequest).await.map(drop)
    }
}

async fn begun_before(tx: &mut Tx<'_>, request: &OperatorRequest, now: Timestamp) -> Result<RequestBegun, sqlx::Error> {
    const READ: &str = "SELECT content, act, begun_at, answer FROM operator_requests WHERE key = $1";
    const IS_RECORDED: &str = "SELECT COUNT(*) FROM operator_acts WHERE id = $1";
    const AGAIN: &str = "UPDATE operator_requests SET act = $2, begun_at = $3 WHERE key = $1";
    let first: RequestRow = query(READ).bind(&request.key.as_bytes()[..]).fetch_one(&mut *tx).await?;
    if first.content != request.content.as_bytes() {
        return Ok(RequestBegun::Other);
    }
    if let Some(answer) = first.answer {
        let answer = serde_json::from_str(&answer);
        return answer
            .map(RequestBegun::Answered)
            .map_err(|error| undecodable(Corrupt::new("operator_requests.answer", error)));
    }
    if now - first.begun_at < RUNS_FOR {
        return Ok(RequestBegun::Running);
    }
    let recorded: i64 = scalar(IS_RECORDED).bind(first.act).fetch_one(&mut *tx).await?;
    if recorded > 0 {
        return Ok(RequestBegun::Recorded(first.act.into()));
    }
    query(AGAIN).bind(&request.key.as_bytes()[..]).bind(request.act.as_uuid()).bind(now).execute(&mut *tx).await?;
    Ok(RequestBegun::First)
}
