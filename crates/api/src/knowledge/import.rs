//! Import: `POST /v1/import` takes the lines of an export and reports each (`docs/decisions/0024-batches.md`).

use std::sync::Arc;

use actors::ingest::{BatchStreamReader, Repeatable};
use app::services::knowledge::{Batches, Memories};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use axum::response::IntoResponse;
use bytes::Bytes;
use domain::Digest;
use domain::batch::{ItemOutcome, Journal, Message};
use futures_util::stream::{self, Stream, StreamExt};
use serde_json::json;
use wire::knowledge::{ImportMessage, X_BATCH_ID};

use super::error::KnowledgeResult;
use super::idempotency::repeatable;
use super::large::LargeBodies;
use super::stream::EventStreams;
use super::{KnowledgeKey, ToWrite};
use crate::error::Code;
use crate::media_type;

/// `POST /v1/import`: one line of outcome for each line, then `complete`. The import is committed before the first byte of the response,
/// and continues without the client.
pub async fn import(
    State(memories): State<Memories>,
    State(batches): State<Batches>,
    State(bodies): State<Arc<LargeBodies>>,
    State(streams): State<EventStreams>,
    KnowledgeKey(access, _): KnowledgeKey<ToWrite>,
    request: Request,
) -> KnowledgeResult {
    let kind = request.headers().get(CONTENT_TYPE).map(|kind| kind.to_str().unwrap_or_default());
    if kind.is_some_and(|kind| {
        !["application/x-ndjson", "application/jsonl"].iter().any(|known| media_type::is(kind, known))
    }) {
        return Err(Code::UnsupportedMediaType.into());
    }
    let (parts, body) = request.into_parts();
    let body = bodies.read(&parts, body, &access.account).await?;
    let text = std::str::from_utf8(&body.bytes).map_err(|_| Code::InvalidJson)?;
    let sha256 = Digest::of(text.as_bytes());
    let repeat = repeatable(&parts.headers, &body.bytes)?.unwrap_or(Repeatable { key: None, body: sha256 });
    let lines = memories.lines(&access, text).await?;
    drop(body);
    let place = streams.place(&access.account)?;
    let reader = batches.import(&access, lines, repeat).await?;
    let batch = reader.batch().to_string();
    let guarded = streams.guarded(place, access.credential, outcomes(reader), Err(ImportError::Revoked));
    // At shutdown the response has no last line: the import continues, and the same request joins it.
    let guarded = guarded.take_until(streams.closing());
    let headers = [(CONTENT_TYPE, "application/x-ndjson"), (CACHE_CONTROL, "no-store")];
    Ok((headers, [(HeaderName::from_static(X_BATCH_ID), batch)], Body::from_stream(guarded)).into_response())
}

/// The lines of the response.
fn outcomes(reader: BatchStreamReader) -> impl Stream<Item = Result<Bytes, ImportError>> {
    stream::unfold(Some(reader), |reader| async move {
        let mut reader = reader?;
        loop {
            match reader.next_with(line_of).await {
                Ok(Some((_, Some(line)))) => return Some((Ok(line), Some(reader))),
                Ok(Some((_, None))) => {}
                Ok(None) => return None,
                Err(error) => {
                    tracing::warn!(batch.id = %reader.batch(), error = domain::reasons(&error), "a response of an import was cut off");
                    // The connection is aborted, so that the client does not treat the partial response as complete.
                    return Some((Err(ImportError::Store), None));
                }
            }
        }
    })
}

/// The line of a message; `None` for progress, which these responses do not have, and for an end before every line has an outcome.
fn line_of(journal: &Journal, message: &Message<'_>) -> Option<Bytes> {
    let message = match message {
        Message::Item { index, outcome } => {
            let index = *index as u64;
            match outcome {
                ItemOutcome::Success { id, existing, .. } => {
                    ImportMessage::Success { index, id: *id, existing: existing.unwrap_or_default() }
                }
                ItemOutcome::Error { error, message, .. } => {
                    ImportMessage::Error { index, error: error.to_string(), message: message.clone() }
                }
                ItemOutcome::Skipped { reason, .. } => {
                    ImportMessage::Error { index, error: reason.clone(), message: reason.clone() }
                }
            }
        }
        Message::Complete => {
            let ImportCounts { created, existing, failed } = ImportCounts::of(journal);
            ImportMessage::Complete { created, existing, failed }
        }
        Message::Progress { .. } | Message::Fatal { .. } | Message::Unauthorized => return None,
    };
    Some((json!(message).to_string() + "\n").into())
}

/// Number of lines per outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ImportCounts {
    /// Memories that were created.
    pub created: u64,
    /// Memories that the account already had.
    pub existing: u64,
    /// Lines that were not imported.
    pub failed: u64,
}

impl ImportCounts {
    /// Counts the outcomes so far.
    pub fn of(journal: &Journal) -> Self {
        let mut counts = Self::default();
        for (_, outcome) in journal.finished() {
            match outcome {
                ItemOutcome::Success { existing: Some(true), .. } => counts.existing += 1,
                ItemOutcome::Success { .. } => counts.created += 1,
                ItemOutcome::Error { .. } | ItemOutcome::Skipped { .. } => counts.failed += 1,
            }
        }
        counts
    }
}

/// The reason why the response of an import ends early.
#[derive(Debug, thiserror::Error)]
enum ImportError {
    #[error("the store did not answer")]
    Store,
    #[error("the key was revoked or expired")]
    Revoked,
}
