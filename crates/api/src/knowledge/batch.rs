//! Batches: submit, stream the progress, rejoin, cancel (`docs/protocol/batches.md#stream`).

use std::sync::Arc;

use actors::ingest::BatchStreamReader;
use app::services::knowledge::{Batches, KnowledgeAccess};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use domain::batch::{Item, Message, MessageId};
use domain::ids::BatchId;
use domain::memory::MemoryType;
use futures_util::stream::{self, Stream};
use wire::Done;
use wire::knowledge::{BatchRequest, Note};

use super::error::KnowledgeResult;
use super::idempotency::repeatable;
use super::large::LargeBodies;
use super::places::Permit;
use super::stream::{EventStreams, event, event_of_this_stream, of_batch};
use super::{KnowledgeKey, ToWrite, parse, says_json};
use crate::body;
use crate::error::{ApiError, Code};
use crate::named::Named;

/// `POST /v1/batch-add`: a stream with the outcome of each item, addresses first. The batch is committed before the first byte. With an
/// `Idempotency-Key`, a repeated request returns the stream of the same batch.
pub async fn add(
    State(batches): State<Batches>,
    State(bodies): State<Arc<LargeBodies>>,
    State(streams): State<EventStreams>,
    KnowledgeKey(access, _): KnowledgeKey<ToWrite>,
    request: Request,
) -> KnowledgeResult {
    says_json(&request)?;
    let (parts, body) = request.into_parts();
    let body = bodies.read(&parts, body, &access.account).await?;
    let repeat = repeatable(&parts.headers, &body.bytes)?;
    let BatchRequest { urls, contents, spaces } = parse(&body.bytes)?;
    let named = spaces.unwrap_or_default();
    let items = items(urls.unwrap_or_default(), contents.unwrap_or_default());
    // A place is only for bodies that are being read and parsed.
    drop(body);
    let place = streams.place(&access.account)?;
    let reader = batches.add(&access, items, &named, repeat).await?;
    Ok(stream_of(reader, place, access, &streams))
}

/// `GET /v1/batch-add/{id}`: the stream again, from the start or after the message of `Last-Event-ID`. After the last message of an ended
/// batch the response is 204, which stops an `EventSource`.
pub async fn join(
    State(batches): State<Batches>,
    State(streams): State<EventStreams>,
    KnowledgeKey(access, _): KnowledgeKey<ToWrite>,
    Named(id): Named,
    headers: HeaderMap,
) -> KnowledgeResult {
    let place = streams.place(&access.account)?;
    let id = id.parse().map_err(|_| Code::NotFound)?;
    let reader = batches.join(&access, id, last_event_id(&headers)?, None).await?;
    if reader.is_at_end() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Ok(stream_of(reader, place, access, &streams))
}

/// `DELETE /v1/batch-add/{id}`: `{ok: true}`; items without an outcome get the error `cancelled`, and the stream ends.
pub async fn cancel(
    State(batches): State<Batches>,
    KnowledgeKey(access, _): KnowledgeKey<ToWrite>,
    Named(id): Named,
) -> KnowledgeResult {
    let id: BatchId = id.parse().map_err(|_| Code::NotFound)?;
    batches.cancel(&access, id).await?;
    Ok(body::answer(&Done::OK)?)
}

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The message that the client received last, from the header `Last-Event-ID`.
pub fn last_event_id(headers: &HeaderMap) -> Result<Option<MessageId>, ApiError> {
    match headers.get(LAST_EVENT_ID).map(|value| value.to_str().unwrap_or_default()) {
        None | Some("") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|error| ApiError::invalid("Last-Event-ID", format!("{error}"))),
    }
}

/// The event stream of a batch: `id:` and one line of `data:` for each message.
fn stream_of(reader: BatchStreamReader, place: Permit, access: KnowledgeAccess, streams: &EventStreams) -> Response {
    let last = event_of_this_stream(&Message::Unauthorized.data());
    let batch = reader.batch();
    of_batch(streams.respond(place, access.credential, messages(reader), last), batch)
}

/// Approximate size in bytes of a piece of available messages that are sent together.
const PIECE_BYTES: usize = 16 * 1024;

fn messages(feed: BatchStreamReader) -> impl Stream<Item = Bytes> {
    stream::unfold(feed, |mut feed| async move {
        let (id, data) = match feed.next().await {
            Ok(Some(message)) => message,
            Ok(None) => return None,
            Err(trouble) => {
                // Without the last message the client joins again.
                tracing::warn!(batch.id = %feed.batch(), error = domain::reasons(&trouble), "a stream was cut off");
                return None;
            }
        };
        let mut piece = event(&id, &data);
        while piece.len() < PIECE_BYTES
            && let Some((id, data)) = feed.ready()
        {
            piece.push_str(&event(&id, &data));
        }
        Some((piece.into(), feed))
    })
}

fn items(urls: Vec<String>, contents: Vec<Note>) -> Vec<Item> {
    let notes = contents.into_iter().map(|note| Item::Note {
        content: note.content,
        title: note.title.map(|title| title.trim().to_owned()).filter(|title| !title.is_empty()),
        kind: note.kind.unwrap_or(MemoryType::Note),
    });
    urls.into_iter().map(Item::Url).chain(notes).collect()
}
