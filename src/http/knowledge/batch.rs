//! Batches: submit, stream the progress, rejoin, cancel (`docs/protocol/batches.md#stream`).

use actors::ingest::BatchStreamReader;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName};
use axum::response::Response;
use bytes::Bytes;
use domain::batch::{Item, Message, MessageId};
use domain::ids::BatchId;
use domain::memory::MemoryType;
use futures_util::stream::{self, Stream};
use store::batch::BatchAccess;
use uuid::Uuid;
use wire::Done;
use wire::knowledge::{BatchRequest, Note};

use super::error::KnowledgeResult;
use super::large::large_body;
use super::places::StreamPermit;
use super::stream::{event, event_of_this_stream, place, streamed};
use super::{KnowledgeKey, ToWrite, parse, says_json};
use crate::app::App;
use crate::http::body;
use crate::http::error::{ApiError, Code};
use crate::http::named::Named;
use crate::knowledge::KnowledgeAccess;

/// `POST /v1/batch-add`: a stream of what becomes of each item, addresses first. The batch is committed before the first byte.
pub async fn add(
    State(app): State<App>,
    KnowledgeKey(reader, _): KnowledgeKey<ToWrite>,
    request: Request,
) -> KnowledgeResult {
    says_json(&request)?;
    let (parts, body) = request.into_parts();
    let body = large_body(&parts, body, &reader.account, &app).await?;
    let BatchRequest { urls, contents, spaces } = parse(&body.bytes)?;
    let named = spaces.unwrap_or_default();
    let items = items(urls.unwrap_or_default(), contents.unwrap_or_default());
    let place = place(&app, &reader.account)?;
    Ok(told(begin(&app, &reader, items, &named).await?, place, &reader, &app))
}

/// Takes a batch in, within every limit, and gives its stream.
pub async fn begin(
    app: &App,
    reader: &KnowledgeAccess,
    items: Vec<Item>,
    named: &[Uuid],
) -> Result<BatchStreamReader, ApiError> {
    let settings = &app.settings.knowledge.batch;
    let rule = |kept: bool, path: &str, rule: String| if kept { Ok(()) } else { Err(ApiError::invalid(path, rule)) };
    rule(!items.is_empty(), "", "supply urls, contents, or both".to_owned())?;
    let most = settings.items_max;
    rule(items.len() <= most, "", format!("a batch has at most {most} items, and this one has {}", items.len()))?;
    rule(named.len() <= settings.spaces_max, "spaces", format!("must name at most {}", settings.spaces_max))?;
    let notes = items.iter().filter_map(|item| match item {
        Item::Note { content, .. } => Some(content),
        Item::Url(_) => None,
    });
    for (nth, content) in notes.enumerate() {
        let path = format!("contents[{nth}].content");
        let most = settings.note_bytes_max;
        rule(content.len() <= most, &path, format!("must have at most {most} bytes, and has {}", content.len()))?;
    }
    let spaces = reader.to_write(named, app).await?;
    let (ingestion, KnowledgeAccess { account, within, .. }) = (app.ingestion.clone(), reader.clone());
    let work = async move { ingestion.add(&account, (&spaces, within.as_deref()), &items).await };
    let feed = actors::detached(work).await??;
    feed.ok_or_else(|| ApiError::rate_limited(settings.heartbeat))
}

/// `GET /v1/batch-add/{id}`: the stream again, from the beginning or after the message of `Last-Event-ID`.
pub async fn join(
    State(app): State<App>,
    KnowledgeKey(reader, _): KnowledgeKey<ToWrite>,
    Named(id): Named,
    headers: HeaderMap,
) -> KnowledgeResult {
    let place = place(&app, &reader.account)?;
    Ok(told(join_as(&app, &reader, &id, &headers, None).await?, place, &reader, &app))
}

/// The stream of a batch of the reader's account: after the message that the client heard last, or else after the one that is named.
pub async fn join_as(
    app: &App,
    reader: &KnowledgeAccess,
    id: &str,
    headers: &HeaderMap,
    after: Option<u32>,
) -> Result<BatchStreamReader, ApiError> {
    let id: BatchId = id.parse().map_err(|_| Code::NotFound)?;
    let after = match headers.get(LAST_EVENT_ID).map(|value| value.to_str().unwrap_or_default()) {
        None | Some("") => after,
        Some(text) => {
            let heard: MessageId =
                text.parse().map_err(|error| ApiError::invalid("Last-Event-ID", format!("{error}")))?;
            if heard.batch != id {
                return Err(ApiError::invalid("Last-Event-ID", "belongs to another batch"));
            }
            Some(heard.seq)
        }
    };
    let standing = standing(app, reader, id).await?;
    app.ingestion.join(&standing, after).await?.ok_or_else(|| Code::NotFound.into())
}

/// How a batch of the reader's account stands. It tells what is in all of its spaces, so a key for certain spaces has to cover them.
async fn standing(app: &App, reader: &KnowledgeAccess, id: BatchId) -> Result<BatchAccess, ApiError> {
    let standing = app.store.batch_standing(id, &reader.account).await?;
    let seen = standing.filter(|standing| standing.spaces.iter().all(|space| reader.covers(*space)));
    seen.ok_or_else(|| Code::NotFound.into())
}

/// `DELETE /v1/batch-add/{id}`: `{ok: true}`; items without an outcome get the error `cancelled`, and the stream its end.
pub async fn cancel(
    State(app): State<App>,
    KnowledgeKey(reader, _): KnowledgeKey<ToWrite>,
    Named(id): Named,
) -> KnowledgeResult {
    cancel_as(&app, &reader, &id).await?;
    Ok(body::answer(&Done::OK)?)
}

/// Cancels a batch of the reader's account; one that has ended stays as it is.
pub async fn cancel_as(app: &App, reader: &KnowledgeAccess, id: &str) -> Result<(), ApiError> {
    let id: BatchId = id.parse().map_err(|_| Code::NotFound)?;
    if standing(app, reader, id).await?.is_running {
        let (ingestion, account) = (app.ingestion.clone(), reader.account.clone());
        actors::detached(async move { ingestion.cancel(id, &account).await }).await??;
    }
    Ok(())
}

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The answer that tells a batch: `id:` and one line of `data:` for each message, and a comment when there was none for a while.
fn told(feed: BatchStreamReader, place: StreamPermit, reader: &KnowledgeAccess, app: &App) -> Response {
    let last = event_of_this_stream(&Message::Unauthorized.data());
    streamed(app, place, reader, feed.batch(), messages(feed), last)
}

/// Messages that are known already go together, in pieces of about so many bytes.
const PIECE_BYTES: usize = 16 * 1024;

fn messages(feed: BatchStreamReader) -> impl Stream<Item = Bytes> {
    stream::unfold(feed, |mut feed| async move {
        let (id, data) = match feed.next().await {
            Ok(Some(message)) => message,
            Ok(None) => return None,
            Err(trouble) => {
                // Without the last message the client knows that it has to join again.
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
