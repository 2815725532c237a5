//! Batches: submit, stream the progress, rejoin, cancel (`docs/protocol/batches.md#stream`).

use actors::ingest::Feed;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName};
use axum::response::Response;
use bytes::Bytes;
use domain::batch::{Item, Message, MessageId};
use domain::ids::BatchId;
use domain::memory::MemoryType;
use futures_util::stream::{self, Stream};
use store::batch::Standing;
use uuid::Uuid;
use wire::Done;
use wire::knowledge::{BatchRequest, Note};

use super::error::Answer;
use super::large::large_body;
use super::places::Place;
use super::stream::{event, event_of_this_stream, place, streamed};
use super::{Key, ToWrite, parse, says_json};
use crate::house::House;
use crate::http::body;
use crate::http::error::{ApiError, Code};
use crate::http::named::Named;
use crate::knowledge::Reader;

/// `POST /v1/batch-add`: a stream of what becomes of each item, addresses first. The batch is committed before the first byte.
pub async fn add(State(house): State<House>, Key(reader, _): Key<ToWrite>, request: Request) -> Answer {
    says_json(&request)?;
    let (parts, body) = request.into_parts();
    let body = large_body(&parts, body, &reader.account, &house).await?;
    let BatchRequest { urls, contents, spaces } = parse(&body.bytes)?;
    let named = spaces.unwrap_or_default();
    let items = items(urls.unwrap_or_default(), contents.unwrap_or_default());
    let place = place(&house, &reader.account)?;
    Ok(told(begin(&house, &reader, items, &named).await?, place, &reader, &house))
}

/// Takes a batch in, within every limit, and gives its stream.
pub async fn begin(house: &House, reader: &Reader, items: Vec<Item>, named: &[Uuid]) -> Result<Feed, ApiError> {
    let settings = &house.settings.knowledge.batch;
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
    let spaces = reader.to_write(named, house).await?;
    let (ingestion, Reader { account, within, .. }) = (house.ingestion.clone(), reader.clone());
    let work = async move { ingestion.add(&account, (&spaces, within.as_deref()), &items).await };
    let feed = actors::detached(work).await??;
    feed.ok_or_else(|| ApiError::rate_limited(settings.heartbeat))
}

/// `GET /v1/batch-add/{id}`: the stream again, from the beginning or after the message of `Last-Event-ID`.
pub async fn join(
    State(house): State<House>,
    Key(reader, _): Key<ToWrite>,
    Named(id): Named,
    headers: HeaderMap,
) -> Answer {
    let place = place(&house, &reader.account)?;
    Ok(told(join_as(&house, &reader, &id, &headers, None).await?, place, &reader, &house))
}

/// The stream of a batch of the reader's account: after the message that the client heard last, or else after the one that is named.
pub async fn join_as(
    house: &House,
    reader: &Reader,
    id: &str,
    headers: &HeaderMap,
    after: Option<u32>,
) -> Result<Feed, ApiError> {
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
    let standing = standing(house, reader, id).await?;
    house.ingestion.join(&standing, after).await?.ok_or_else(|| Code::NotFound.into())
}

/// How a batch of the reader's account stands. It tells what is in all of its spaces, so a key for certain spaces has to cover them.
async fn standing(house: &House, reader: &Reader, id: BatchId) -> Result<Standing, ApiError> {
    let standing = house.store.batch_standing(id, &reader.account).await?;
    let seen = standing.filter(|standing| standing.spaces.iter().all(|space| reader.covers(*space)));
    seen.ok_or_else(|| Code::NotFound.into())
}

/// `DELETE /v1/batch-add/{id}`: `{ok: true}`; items without an outcome get the error `cancelled`, and the stream its end.
pub async fn cancel(State(house): State<House>, Key(reader, _): Key<ToWrite>, Named(id): Named) -> Answer {
    cancel_as(&house, &reader, &id).await?;
    Ok(body::answer(&Done::OK)?)
}

/// Cancels a batch of the reader's account; one that has ended stays as it is.
pub async fn cancel_as(house: &House, reader: &Reader, id: &str) -> Result<(), ApiError> {
    let id: BatchId = id.parse().map_err(|_| Code::NotFound)?;
    if standing(house, reader, id).await?.is_running {
        let (ingestion, account) = (house.ingestion.clone(), reader.account.clone());
        actors::detached(async move { ingestion.cancel(id, &account).await }).await??;
    }
    Ok(())
}

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The answer that tells a batch: `id:` and one line of `data:` for each message, and a comment when there was none for a while.
fn told(feed: Feed, place: Place, reader: &Reader, house: &House) -> Response {
    let last = event_of_this_stream(&Message::Unauthorized.data());
    streamed(house, place, reader, feed.batch(), messages(feed), last)
}

/// Messages that are known already go together, in pieces of about so many bytes.
const PIECE_BYTES: usize = 16 * 1024;

fn messages(feed: Feed) -> impl Stream<Item = Bytes> {
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
