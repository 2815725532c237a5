//! A batch as it is worked on, for a page that is open: each event carries the parts of the page that are other than before.

use actors::ingest::BatchStreamReader;
use askama::Template;
use axum::extract::State;
use axum::http::HeaderMap;
use bytes::Bytes;
use domain::batch::{ItemOutcome, Message};
use domain::ids::{SpaceId, UserAccountId};
use futures_util::stream::{self, Stream};
use serde::Deserialize;
use serde_json::json;

use super::batch::{Line, Progress, kept, titles};
use super::{gone, page_error};
use crate::app::App;
use crate::http::knowledge::batch::join_as;
use crate::http::knowledge::stream::{event, event_of_this_stream, place, streamed};
use crate::http::named::Named;
use crate::web::account::Owner;
use crate::web::{PageError, PageLayout, PageQuery, PageResult};

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

/// `?after=…`: the message up to which the page shows everything.
#[derive(Debug, Deserialize)]
pub struct From {
    after: Option<u32>,
}

/// `GET /knowledge/batches/{id}/stream`
pub async fn stream(
    State(app): State<App>,
    owner: Owner,
    Named(id): Named,
    PageQuery(from): PageQuery<From>,
    headers: HeaderMap,
) -> PageResult {
    let reader = owner.reader();
    let place = place(&app, &reader.account).map_err(|error| PageError::api(&app, &error))?;
    let joined = join_as(&app, &reader, &id, &headers, from.after).await;
    let feed = joined.map_err(page_error(&app, &owner.visitor))?;
    let batch = app.store.batch_by_id(feed.batch(), Some(&owner.account)).await.map_err(PageError::store(&app))?;
    let spaces = batch.ok_or_else(|| gone(&app, &owner.visitor))?.spaces;
    let frame = PageLayout::new(&app, Some(&owner.visitor));
    let batch = feed.batch();
    let told = PageStream { app: app.clone(), account: owner.account, frame, spaces, feed };
    Ok(streamed(&app, place, &reader, batch, told.events(), signed_out()))
}

/// The event that a page receives when its visitor is signed out.
fn signed_out() -> String {
    let told = "You are signed out, so this page is not updated any more. Sign in and load it again.";
    event_of_this_stream(&json!({ "parts": {}, "told": told, "done": true }).to_string())
}

/// What is told to one page.
struct PageStream {
    app: App,
    account: UserAccountId,
    frame: PageLayout,
    spaces: Vec<SpaceId>,
    feed: BatchStreamReader,
}

/// What a page is told of a message: the item that is finished, if it tells of one, and how far the batch is.
type PageMessage = (Option<(usize, ItemOutcome)>, Progress);

impl PageStream {
    fn events(self) -> impl Stream<Item = Bytes> {
        stream::unfold(self, |mut telling| async move {
            match telling.next().await {
                Ok(Some(event)) => Some((event.into(), telling)),
                Ok(None) => None,
                Err(why) => {
                    // The page joins again by itself.
                    tracing::warn!(batch.id = %telling.feed.batch(), error = why, "a page heard no more of a batch");
                    None
                }
            }
        })
    }

    async fn next(&mut self) -> Result<Option<String>, String> {
        let (batch, spaces) = (self.feed.batch(), self.spaces.clone());
        let news = move |journal: &domain::batch::Journal, message: &Message<'_>| -> Option<PageMessage> {
            let item = match message {
                // Every item comes with the numbers that this would tell.
                Message::Progress { .. } => return None,
                Message::Item { index, outcome } => Some((*index, (*outcome).clone())),
                Message::Complete | Message::Fatal { .. } | Message::Unauthorized => None,
            };
            let mut progress = Progress::of(batch, journal, &spaces, false);
            // The end is told once all items are.
            progress.is_running = item.is_some();
            Some((item, progress))
        };
        loop {
            let next = self.feed.next_with(&news).await.map_err(|page_error| page_error.to_string())?;
            let Some((id, told)) = next else { return Ok(None) };
            if let Some((item, progress)) = told {
                let data = self.parts(item, &progress).await?;
                return Ok(Some(event(&id, &data)));
            }
        }
    }

    /// The parts of the page, each under the id of what it takes the place of.
    async fn parts(&self, item: Option<(usize, ItemOutcome)>, progress: &Progress) -> Result<String, String> {
        let drawn = |part: Result<String, askama::Error>| part.map_err(|error| error.to_string());
        let meter = drawn(MeterPart { progress }.render())?;
        let mut parts = json!({ "meter": meter });
        if let Some((index, outcome)) = item {
            let ids: Vec<_> = kept(&outcome).into_iter().collect();
            let titles = titles(&self.app, &self.account, &ids).await.map_err(|_| "the store did not answer")?;
            let line = Line::of(index, &outcome, &titles);
            parts[format!("item-{index}")] = drawn(ItemPart { frame: &self.frame, line }.render())?.into();
        }
        if !progress.is_running {
            parts["actions"] = drawn(ActionsPart { frame: &self.frame, progress }.render())?.into();
        }
        Ok(json!({ "parts": parts, "told": progress.told(), "done": !progress.is_running }).to_string())
    }
}
