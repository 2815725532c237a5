//! The state of each item of a batch.

use std::collections::HashMap;

use api::named::Named;
use app::services::knowledge::batches::Batch;
use app::services::knowledge::{Batches, Spaces};
use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect};
use domain::Timestamp;
use domain::batch::{BatchEnd, ItemOutcome, Journal};
use domain::ids::{BatchId, MemoryId, SpaceId, UserAccountId};
use domain::item::Fault;
use serde::Deserialize;

use super::found::titled;
use super::{SpaceLink, TAB, capitalised, gone, links, page_error};
use crate::account::AccountOwner;
use crate::account::undo::ConfirmForm;
use crate::{Moment, PageError, PageForm, PageLayout, PageQuery, PageResult, Site, page};

#[derive(Template)]
#[template(path = "knowledge/batch.html")]
struct BatchPage {
    frame: PageLayout,
    tab: &'static str,
    begun: Moment,
    places: Vec<SpaceLink>,
    lines: Vec<Line>,
    only_failed: bool,
    progress: Progress,
    /// URL of the event stream with the remaining messages; `None` if the batch has ended.
    stream: Option<String>,
}

/// One item of the batch.
pub(super) struct Line {
    pub index: usize,
    pub label: String,
    /// The memory of a stored item.
    pub memory: Option<String>,
    /// The URL of a page, shown below its title.
    pub url: Option<String>,
    pub badge: &'static str,
    /// The style class of the badge.
    pub look: &'static str,
    /// Why the item was not added.
    pub why: Option<String>,
    /// Order of the lines of an ended batch: failures first.
    pub rank: u8,
}

/// The progress of a batch.
pub(super) struct Progress {
    pub id: BatchId,
    pub processed: usize,
    pub total: usize,
    pub added: usize,
    pub skipped: usize,
    pub failed: usize,
    pub is_running: bool,
    /// The batch was cancelled, and has not ended yet.
    pub is_ending: bool,
    /// Why it ended early.
    pub broken: Option<String>,
    /// Addresses that failed temporarily, one per line.
    pub again: String,
    /// The estimated remaining time.
    pub remaining: Option<String>,
    pub spaces: Vec<String>,
}

/// [`Line::rank`] of an item that was not added.
const FAILED: u8 = 0;

/// Number of finished items from which the remaining time is estimated.
const ESTIMATED_FROM: usize = 5;

/// `?show=failed`
#[derive(Debug, Deserialize)]
pub struct BatchQuery {
    show: Option<String>,
}

/// `GET /knowledge/batches/{id}`
pub async fn show(
    State(site): State<Site>,
    State(spaces): State<Spaces>,
    State(batches): State<Batches>,
    owner: AccountOwner,
    Named(id): Named,
    PageQuery(query): PageQuery<BatchQuery>,
) -> PageResult {
    let id: BatchId = id.parse().map_err(|_| gone(&site, &owner.visitor))?;
    let batch = batches.of_account(id, &owner.account).await.map_err(PageError::of(&site))?;
    let batch = batch.ok_or_else(|| gone(&site, &owner.visitor))?;
    let frame = PageLayout::new(&site, Some(&owner.visitor));
    let now = site.ports.clock.now();
    let mut progress = Progress::of(id, &batch.journal, &batch.spaces, batch.cancelled_at.is_some());
    progress.estimate(batch.created_at, now);
    let only_failed = query.show.as_deref() == Some("failed");
    let mut lines = lines(&site, &owner.account, &batch).await?;
    if !progress.is_running {
        lines.sort_by_key(|line| (line.rank, line.index));
    }
    lines.retain(|line| !only_failed || line.rank == FAILED);
    let after = 2 * batch.journal.processed();
    let stream = progress.is_running.then(|| format!("{}/knowledge/batches/{id}/stream?after={after}", frame.root));
    Ok(page(
        StatusCode::OK,
        &BatchPage {
            tab: TAB,
            begun: Moment::new(batch.created_at, now),
            places: links(&site, &spaces, &owner.account, &batch.spaces).await?,
            lines,
            only_failed,
            progress,
            stream,
            frame,
        },
    ))
}

/// `POST /knowledge/batches/{id}/cancel`
pub async fn cancel(
    State(site): State<Site>,
    State(batches): State<Batches>,
    owner: AccountOwner,
    Named(id): Named,
    PageForm(ConfirmForm {}): PageForm<ConfirmForm>,
) -> PageResult {
    let batch: BatchId = id.parse().map_err(|_| gone(&site, &owner.visitor))?;
    batches.cancel(&owner.access(), batch).await.map_err(page_error(&site, &owner.visitor))?;
    Ok(Redirect::to(&format!("{}/knowledge/batches/{id}", site.urls.root_path())).into_response())
}

/// All lines, in the order of the items in the request.
async fn lines(site: &Site, account: &UserAccountId, batch: &Batch) -> Result<Vec<Line>, PageError> {
    let finished = batch.journal.finished();
    let memories: Vec<MemoryId> = finished.iter().filter_map(|(_, outcome)| kept(outcome)).collect();
    let titles = titles(site, account, &memories).await?;
    let ended = finished.iter().map(|(index, outcome)| Line::of(*index, outcome, &titles));
    let waits = batch.pending.iter().map(|(index, url)| Line::waiting(*index, url.as_deref()));
    let mut lines: Vec<Line> = ended.chain(waits).collect();
    lines.sort_by_key(|line| line.index);
    Ok(lines)
}

/// The memory of an item; `None` if it was not stored.
pub(super) fn kept(outcome: &ItemOutcome) -> Option<MemoryId> {
    match outcome {
        ItemOutcome::Success { id, .. } => Some(*id),
        _ => None,
    }
}

/// The titles of memories of an account.
pub(super) async fn titles(
    site: &Site,
    account: &UserAccountId,
    ids: &[MemoryId],
) -> Result<HashMap<MemoryId, String>, PageError> {
    let memories = site.memories.of_account(ids, account).await.map_err(PageError::of(site))?;
    Ok(memories.into_iter().map(|memory| (memory.id, titled(memory.title))).collect())
}

impl Line {
    /// The line of a finished item.
    pub(super) fn of(index: usize, outcome: &ItemOutcome, titles: &HashMap<MemoryId, String>) -> Self {
        let nothing =
            Self { index, label: String::new(), memory: None, url: None, badge: "Added", look: "", why: None, rank: 3 };
        match outcome {
            ItemOutcome::Success { id, url, .. } => match titles.get(id) {
                // The address of a note is its URL in the API, which a browser cannot open.
                Some(title) => Self {
                    label: title.clone(),
                    memory: Some(id.to_string()),
                    url: (!url.ends_with(&id.to_string())).then(|| url.clone()),
                    ..nothing
                },
                None => Self { label: url.clone(), badge: "Deleted since", look: "off", ..nothing },
            },
            ItemOutcome::Error { url, title, error, message } => {
                let label = url.clone().or_else(|| title.clone()).unwrap_or_else(|| "A note".into());
                if *error == Fault::Cancelled {
                    return Self { label, badge: "Cancelled", look: "off", rank: FAILED, ..nothing };
                }
                Self {
                    label,
                    badge: "Not added",
                    look: "bad",
                    why: Some(capitalised(message)),
                    rank: FAILED,
                    ..nothing
                }
            }
            ItemOutcome::Skipped { url, reason } => {
                let why = match reason.as_str() {
                    "robots_disallowed" => "Its site does not allow programs to read it (robots.txt).".to_owned(),
                    "filtered" => "Your content filter rejected it. The settings page shows the reason.".to_owned(),
                    other => capitalised(other),
                };
                let label = url.clone().unwrap_or_else(|| "A note".into());
                Self { label, badge: "Rejected", look: "warn", why: Some(why), rank: 1, ..nothing }
            }
        }
    }

    fn waiting(index: usize, url: Option<&str>) -> Self {
        let label = url.map_or_else(|| "A note".to_owned(), str::to_owned);
        Self { index, label, memory: None, url: None, badge: "Waiting", look: "off", why: None, rank: 2 }
    }
}

impl Progress {
    /// The progress according to the messages so far.
    pub(super) fn of(id: BatchId, journal: &Journal, spaces: &[SpaceId], is_ending: bool) -> Self {
        let finished = journal.finished();
        let count = |is: fn(&ItemOutcome) -> bool| finished.iter().filter(|(_, outcome)| is(outcome)).count();
        let again = finished.iter().filter_map(|(_, outcome)| match outcome {
            // Only items that may succeed without a change are offered again.
            ItemOutcome::Error { url: Some(url), error, .. } if error.may_pass() => Some(url.as_str()),
            _ => None,
        });
        Self {
            id,
            processed: journal.processed(),
            total: journal.total(),
            added: count(|outcome| matches!(outcome, ItemOutcome::Success { .. })),
            skipped: count(|outcome| matches!(outcome, ItemOutcome::Skipped { .. })),
            failed: count(|outcome| matches!(outcome, ItemOutcome::Error { .. })),
            is_running: !journal.has_ended(),
            is_ending,
            broken: match journal.ending() {
                Some(BatchEnd::Failed(reason)) => Some(capitalised(reason)),
                _ => None,
            },
            again: again.collect::<Vec<_>>().join("\n"),
            remaining: None,
            spaces: spaces.iter().map(ToString::to_string).collect(),
        }
    }

    /// Estimates the remaining time from the pace so far.
    pub(super) fn estimate(&mut self, begun: Timestamp, now: Timestamp) {
        let left = self.total.saturating_sub(self.processed);
        if !self.is_running || self.is_ending || self.processed < ESTIMATED_FROM || left == 0 {
            return;
        }
        let seconds = (now - begun).num_seconds().max(1).unsigned_abs();
        let rest = seconds * left as u64 / self.processed as u64;
        self.remaining = Some(match rest {
            0..45 => "less than a minute left".to_owned(),
            45..90 => "about a minute left".to_owned(),
            _ => format!("about {} minutes left", rest.div_ceil(60)),
        });
    }

    /// The progress as one sentence.
    pub(super) fn summary(&self) -> String {
        let counts = [(self.added, "added"), (self.skipped, "rejected"), (self.failed, "not added")];
        let counts: Vec<String> =
            counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        let counts = if counts.is_empty() { "nothing yet".to_owned() } else { counts.join(", ") };
        if self.is_running {
            format!("{} of {} done: {counts}.", self.processed, self.total)
        } else {
            format!("Done: {counts}.")
        }
    }
}
