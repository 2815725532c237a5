//! What became of every item, in the end.

use domain::foreign::visible;
use domain::ids::{BatchId, MemoryId};
use serde::Serialize;
use serde_json::json;

use crate::cli::terminal::{self, BAD, GOOD, WARNING, styled};
use crate::cli::{Done, Failure, output};

/// Of all batches together.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// The batches.
    pub batches: Vec<BatchId>,
    /// What can be found now.
    pub added: Vec<Added>,
    /// What the account's filter left out.
    pub skipped: Vec<Skipped>,
    /// What could not be added.
    pub failed: Vec<Failed>,
}

/// An item that can be found.
#[derive(Debug, Serialize)]
pub struct Added {
    /// The memory.
    pub id: MemoryId,
    /// Its page, or the note itself.
    pub url: String,
}

/// An item that was left out.
#[derive(Debug, Serialize)]
pub struct Skipped {
    /// Its place in its batch, from 0.
    pub index: u64,
    /// Its address.
    pub url: Option<String>,
    /// Why.
    pub reason: String,
}

/// An item that could not be added.
#[derive(Debug, Serialize)]
pub struct Failed {
    /// Its place in its batch, from 0.
    pub index: Option<u64>,
    /// Its address.
    pub url: Option<String>,
    /// Its title.
    pub title: Option<String>,
    /// Why, in one word.
    pub error: String,
    /// Why, in a sentence.
    pub message: String,
}

impl Added {
    /// In a line, for a person.
    pub fn line(&self) -> String {
        format!("{}    {}", styled(GOOD, "added"), visible(&self.url))
    }
}

impl Skipped {
    /// In a line, for a person.
    pub fn line(&self) -> String {
        let what = self.url.clone().unwrap_or_else(|| format!("item {}", self.index));
        format!("{}  {}: {}", styled(WARNING, "skipped"), visible(&what), visible(&self.reason))
    }
}

impl Failed {
    /// In a line, for a person.
    pub fn line(&self) -> String {
        let nameless = || self.index.map_or_else(|| "an item".to_owned(), |index| format!("item {index}"));
        let what = self.url.clone().or_else(|| self.title.clone()).unwrap_or_else(nameless);
        format!("{}   {}: {}: {}", styled(BAD, "failed"), visible(&what), visible(&self.error), visible(&self.message))
    }
}

impl Report {
    /// The summary: sums, then what needs an eye.
    pub fn say(&self, is_json: bool) {
        if is_json {
            return output::say_json(&json!(self));
        }
        let Self { added, skipped, failed, .. } = self;
        let mut sums = vec![styled(GOOD, format!("{} added", added.len()))];
        if !skipped.is_empty() {
            sums.push(styled(WARNING, format!("{} skipped", skipped.len())));
        }
        if !failed.is_empty() {
            sums.push(styled(BAD, format!("{} failed", failed.len())));
        }
        output::say(&sums.join(", "));
        // Where there is no bar, each was a line already when it happened.
        if terminal::has_bars() {
            let lines = skipped.iter().map(Skipped::line).chain(failed.iter().map(Failed::line));
            lines.for_each(|line| output::say(&format!("  {line}")));
        }
    }

    /// Whether all went well.
    pub fn judge(&self) -> Done {
        match self.failed.len() {
            0 => Ok(()),
            1 => Err(Failure::refused("1 item could not be added")),
            failed => Err(Failure::refused(format!("{failed} items could not be added"))),
        }
    }
}
