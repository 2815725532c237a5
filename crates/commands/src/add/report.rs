//! The outcome of every item, and the summary.

use client::Client;
use domain::foreign::visible;
use domain::ids::{BatchId, MemoryId};
use serde::Serialize;
use serde_json::json;

use crate::connection::page_of;
use crate::failure::{Done, Failure};
use crate::output;
use crate::terminal::{self, BAD, GOOD, WARNING, styled};

/// The outcomes of all batches of one command; also the output of `--json`.
#[derive(Debug, Serialize)]
pub struct Report {
    #[serde(skip)]
    client: Client,
    /// Ids of the batches.
    pub batches: Vec<BatchId>,
    /// Items that search can find.
    pub added: Vec<Added>,
    /// Items that the account's content filter rejected.
    pub skipped: Vec<Skipped>,
    /// Items that failed.
    pub failed: Vec<Failed>,
}

/// A successful item.
#[derive(Debug, Serialize)]
pub struct Added {
    /// Id of the memory.
    pub id: MemoryId,
    /// URL of the page, or of the note.
    pub url: String,
    /// Address that opens in a browser.
    #[serde(skip)]
    pub page: String,
}

/// An item that the content filter rejected.
#[derive(Debug, Serialize)]
pub struct Skipped {
    /// Index within its batch, from 0.
    pub index: u64,
    /// URL of a page; `None` for a note.
    pub url: Option<String>,
    /// Reason given by the filter.
    pub reason: String,
}

/// A failed item.
#[derive(Debug, Serialize)]
pub struct Failed {
    /// Index within its batch, from 0.
    pub index: Option<u64>,
    /// URL of a page; `None` for a note.
    pub url: Option<String>,
    /// Title of a note, if it has one.
    pub title: Option<String>,
    /// Error code, such as `http_404`.
    pub error: String,
    /// Error message for people.
    pub message: String,
}

impl Added {
    /// One line of text.
    pub fn line(&self) -> String {
        format!("{}    {}", styled(GOOD, "added"), visible(&self.page))
    }
}

impl Skipped {
    /// One line of text.
    pub fn line(&self) -> String {
        let what = self.url.clone().unwrap_or_else(|| format!("item {}", self.index));
        format!("{}  {}: {}", styled(WARNING, "skipped"), visible(&what), visible(&self.reason))
    }
}

impl Failed {
    /// One line of text.
    pub fn line(&self) -> String {
        let nameless = || self.index.map_or_else(|| "an item".to_owned(), |index| format!("item {index}"));
        let what = self.url.clone().or_else(|| self.title.clone()).unwrap_or_else(nameless);
        format!("{}   {}: {}: {}", styled(BAD, "failed"), visible(&what), visible(&self.error), visible(&self.message))
    }
}

impl Report {
    /// An empty report about requests of this client.
    pub fn of(client: &Client) -> Self {
        let (batches, added, skipped, failed) = Default::default();
        Self { client: client.clone(), batches, added, skipped, failed }
    }

    /// Adds a successful item; returns its line of text.
    pub fn add(&mut self, id: MemoryId, url: String) -> String {
        let page = page_of(&self.client, &url);
        let added = Added { id, url, page };
        let line = added.line();
        self.added.push(added);
        line
    }

    /// Prints the counts, then skipped and failed items.
    pub fn print(&self, is_json: bool) {
        if is_json {
            return output::print_json(&json!(self));
        }
        let Self { added, skipped, failed, .. } = self;
        let mut sums = vec![styled(GOOD, format!("{} added", added.len()))];
        if !skipped.is_empty() {
            sums.push(styled(WARNING, format!("{} skipped", skipped.len())));
        }
        if !failed.is_empty() {
            sums.push(styled(BAD, format!("{} failed", failed.len())));
        }
        output::print(&sums.join(", "));
        // Without a progress bar, each item was already printed when it ended.
        if terminal::has_bars() {
            let lines = skipped.iter().map(Skipped::line).chain(failed.iter().map(Failed::line));
            lines.for_each(|line| output::print(&format!("  {line}")));
        }
    }

    /// An error if an item failed.
    pub fn judge(&self) -> Done {
        match self.failed.len() {
            0 => Ok(()),
            1 => Err(Failure::refused("1 item could not be added")),
            failed => Err(Failure::refused(format!("{failed} items could not be added"))),
        }
    }
}
