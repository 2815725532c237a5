//! Import: `POST /v1/import` takes the lines of an export and reports each.

use std::sync::Arc;
use std::time::Duration;

use app::config::ImportSettings;
use app::services::knowledge::Memories;
use app::services::knowledge::import::{Import, Imported, LineFault};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse;
use bytes::Bytes;
use domain::ids::UserAccountId;
use futures_util::stream::{self, StreamExt};
use serde_json::json;
use wire::knowledge::ImportMessage;

use super::error::KnowledgeResult;
use super::large::{LargeBodies, LargeBody};
use super::places::{Full, Permit, Places};
use super::stream::EventStreams;
use super::{KnowledgeKey, ToWrite};
use crate::error::{ApiError, Code};
use crate::media_type;

/// Time after which another attempt is reasonable.
const SOON: Duration = Duration::from_secs(5);

/// Limits the imports that run at the same time. Clones share the limits.
#[derive(Debug, Clone)]
pub struct ImportPlaces(Places);

impl ImportPlaces {
    /// `settings` is the section `[knowledge.import]`.
    pub fn new(settings: &ImportSettings) -> Self {
        Self(Places::new(settings.running_max, settings.running_per_account_max))
    }

    /// A place for an import of this account.
    pub fn take(&self, account: &UserAccountId) -> Result<Permit, ApiError> {
        self.0.take(account).map_err(|full| match full {
            Full::Account => ApiError::rate_limited(SOON),
            Full::All => ApiError::unavailable("overloaded", SOON),
        })
    }
}

/// `POST /v1/import`: one line of outcome for each line, then `complete`.
pub async fn import(
    State(memories): State<Memories>,
    State(bodies): State<Arc<LargeBodies>>,
    State(places): State<ImportPlaces>,
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
    let place = places.take(&access.account)?;
    let (parts, body) = request.into_parts();
    let body = bodies.read(&parts, body, &access.account).await?;
    let lines = lines(&body.bytes)?;
    let credential = access.credential.clone();
    let import = memories.import(access, lines.len()).await?;
    let run = ImportRun {
        import,
        _body: body,
        lines: lines.into_iter().enumerate(),
        counts: Counts::default(),
        done: false,
        _place: place,
    };
    let outcomes = stream::unfold(run, |run| async move { run.next().await });
    let guarded = streams.checks().while_valid(credential, outcomes, Err(ImportError::Revoked));
    // A client whose import ends at shutdown repeats it: there is no last line.
    let guarded = guarded.take_until(streams.closing());
    let headers = [(CONTENT_TYPE, "application/x-ndjson"), (CACHE_CONTROL, "no-store")];
    Ok((headers, Body::from_stream(guarded)).into_response())
}

/// The lines with text. They share the memory of the body.
fn lines(body: &Bytes) -> Result<Vec<Bytes>, ApiError> {
    if std::str::from_utf8(body).is_err() {
        return Err(Code::InvalidJson.into());
    }
    let lines = body.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    Ok(lines.map(|line| body.slice_ref(line)).collect())
}

/// The rest of an import.
struct ImportRun {
    import: Import,
    /// Keeps its place among the large bodies.
    _body: LargeBody,
    lines: std::iter::Enumerate<std::vec::IntoIter<Bytes>>,
    counts: Counts,
    done: bool,
    _place: Permit,
}

#[derive(Default)]
struct Counts {
    created: u64,
    existing: u64,
    failed: u64,
}

impl ImportRun {
    async fn next(mut self) -> Option<(Result<Bytes, ImportError>, Self)> {
        if self.done {
            return None;
        }
        let Some((nth, line)) = self.lines.next() else {
            self.done = true;
            let Counts { created, existing, failed } = self.counts;
            return Some((Ok(written(&ImportMessage::Complete { created, existing, failed })), self));
        };
        let index = nth as u64;
        let message = match self.import.line(&String::from_utf8_lossy(&line)).await {
            Ok(Ok(Imported::Created(id))) => {
                self.counts.created += 1;
                ImportMessage::Success { index, id, existing: false }
            }
            Ok(Ok(Imported::Existing(id))) => {
                self.counts.existing += 1;
                ImportMessage::Success { index, id, existing: true }
            }
            Ok(Err(LineFault { code, message })) => {
                self.counts.failed += 1;
                ImportMessage::Error { index, error: code, message }
            }
            Err(refusal) => {
                self.done = true;
                tracing::error!(error = domain::reasons(&refusal), "an import was cut off");
                // The connection breaks, so that the client does not take the part for the whole.
                return Some((Err(ImportError::Store), self));
            }
        };
        Some((Ok(written(&message)), self))
    }
}

fn written(message: &ImportMessage) -> Bytes {
    (json!(message).to_string() + "\n").into()
}

/// An import that could not be finished.
#[derive(Debug, thiserror::Error)]
enum ImportError {
    #[error("the store did not answer")]
    Store,
    #[error("the key was revoked or expired")]
    Revoked,
}
