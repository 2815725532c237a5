//! The progress of a batch, for an open page: each event contains the parts of the page that changed.

use actors::ingest::BatchStreamReader;
use api::knowledge::batch::last_event_id;
use api::knowledge::stream::{EventStreams, event, event_of_this_stream, of_batch};
use api::named::Named;
use app::services::knowledge::Batches;
use askama::Template;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use bytes::Bytes;
use domain::Timestamp;
use domain::batch::{ItemOutcome, Message};
use domain::ids::{SpaceId, UserAccountId};
use futures_util::stream::{self, Stream};
use serde::Deserialize;
use serde_json::json;

use super::batch::{Line, Progress, kept, titles};
use super::{gone, page_error};
use crate::account::AccountOwner;
use crate::{PageError, PageLayout, PageQuery, PageResult, Site};

#[derive(Template)]
#[template(path = "knowledge/item.html")]
struct ItemPart<'a> {
    frame: &'a PageLayout,
    line: Line,
}

#[derive(Template)]
#[template(path = "knowledge/meter.html")]
struct MeterPart<'a> {
    progress: &'a Progress,
}

#[derive(Template)]
#[template(path = "knowledge/actions.html")]
struct ActionsPart<'a> {
    frame: &'a PageLayout,
    progress: &'a Progress,
}

/// `?after=…`: the last message that the page shows.
#[derive(Debug, Deserialize)]
pub struct From {
    after: Option<u32>,
}

/// `GET /knowledge/batches/{id}/stream`
pub async fn stream(
    State(site): State<Site>,
    State(batches): State<Batches>,
    State(streams): State<EventStreams>,
    owner: AccountOwner,
    Named(id): Named,
    PageQuery(from): PageQuery<From>,
    headers: HeaderMap,
) -> PageResult {
    let access = owner.access();
    let place = streams.place(&access.account).map_err(PageError::of(&site))?;
    let id = id.parse().map_err(|_| gone(&site, &owner.visitor))?;
    let last_received = last_event_id(&headers).map_err(PageError::of(&site))?;
    let joined = batches.join(&access, id, last_received, from.after).await;
    let feed = joined.map_err(page_error(&site, &owner.visitor))?;
    let batch = batches.of_account(feed.batch(), &owner.account).await.map_err(PageError::of(&site))?;
    let batch = batch.ok_or_else(|| gone(&site, &owner.visitor))?;
    let (spaces, begun) = (batch.spaces, batch.created_at);
    if feed.is_at_end() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let frame = PageLayout::new(&site, Some(&owner.visitor));
    let batch = feed.batch();
    let stream = PageStream { site, account: owner.account, frame, spaces, begun, feed };
    Ok(of_batch(streams.respond(place, access.credential, stream.events(), signed_out()), batch))
}

/// The event that a page receives when its visitor is signed out.
fn signed_out() -> String {
    let notice = "You are signed out, so this page is no longer updated. Sign in and reload it.";
    event_of_this_stream(&json!({ "parts": {}, "status": notice, "done": true }).to_string())
}

/// The event stream of one page.
struct PageStream {
    site: Site,
    account: UserAccountId,
    frame: PageLayout,
    spaces: Vec<SpaceId>,
    /// The start of the batch.
    begun: Timestamp,
    feed: BatchStreamReader,
}

/// The content of one event: the item that has finished, if any, and the progress of the batch.
type PageMessage = (Option<(usize, ItemOutcome)>, Progress);

impl PageStream {
    fn events(self) -> impl Stream<Item = Bytes> {
        stream::unfold(self, |mut telling| async move {
            match telling.next().await {
                Ok(Some(event)) => Some((event.into(), telling)),
                Ok(None) => None,
                Err(why) => {
                    // The script of the page joins again.
                    tracing::warn!(batch.id = %telling.feed.batch(), error = why, "the event stream of a batch page ended early");
                    None
                }
            }
        })
    }

    async fn next(&mut self) -> Result<Option<String>, String> {
        let (batch, spaces) = (self.feed.batch(), self.spaces.clone());
        let (begun, clock) = (self.begun, self.site.ports.clock.clone());
        let news = move |journal: &domain::batch::Journal, message: &Message<'_>| -> Option<PageMessage> {
            let item = match message {
                // The event of each item contains the same numbers.
                Message::Progress { .. } => return None,
                Message::Item { index, outcome } => Some((*index, (*outcome).clone())),
                Message::Complete | Message::Fatal { .. } | Message::Unauthorized => None,
            };
            let mut progress = Progress::of(batch, journal, &spaces, false);
            // The end follows after all items.
            progress.is_running = item.is_some();
            progress.estimate(begun, clock.now());
            Some((item, progress))
        };
        loop {
            let next = self.feed.next_with(&news).await.map_err(|error| error.to_string())?;
            let Some((id, message)) = next else { return Ok(None) };
            if let Some((item, progress)) = message {
                let data = self.parts(item, &progress).await?;
                return Ok(Some(event(&id, &data)));
            }
        }
    }

    /// The parts of the page, each under the id of the element that it replaces.
    async fn parts(&self, item: Option<(usize, ItemOutcome)>, progress: &Progress) -> Result<String, String> {
        let drawn = |part: Result<String, askama::Error>| part.map_err(|error| error.to_string());
        let meter = drawn(MeterPart { progress }.render())?;
        let mut parts = json!({ "meter": meter });
        if let Some((index, outcome)) = item {
            let ids: Vec<_> = kept(&outcome).into_iter().collect();
            let titles = titles(&self.site, &self.account, &ids).await.map_err(|_| "the store did not respond")?;
            let line = Line::of(index, &outcome, &titles);
            parts[format!("item-{index}")] = drawn(ItemPart { frame: &self.frame, line }.render())?.into();
        }
        if !progress.is_running {
            parts["actions"] = drawn(ActionsPart { frame: &self.frame, progress }.render())?.into();
        }
        Ok(json!({ "parts": parts, "status": progress.summary(), "done": !progress.is_running }).to_string())
    }
}
