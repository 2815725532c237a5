//! Batches of URLs and notes, and the stream that reports their outcomes (`docs/protocol/knowledge.md` and
//! `docs/decisions/0024-batches.md`).
//!
//! The stream is a pure function of the order in which items finished, so any process can produce it from any position:
//! message 0 reports no progress, messages 2k−1 and 2k report the k-th finished item, and the last message ends the
//! stream.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::{BatchId, MemoryId, SpaceId};
use crate::item::Fault;
use crate::memory::{MemoryType, Tag};
use crate::{Timestamp, UnknownName};

/// Kind of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "lowercase", parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<Self>)]
pub enum BatchKind {
    /// URLs and notes of `POST /v1/batch-add`. They are finished in any order.
    Batch,
    /// Lines of `POST /v1/import`. They are finished in their order.
    Import,
}

/// A memory of an export, checked and ready to be stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedMemory {
    /// Id of the memory, of the time of its creation.
    pub id: MemoryId,
    /// Id to use if another account has a memory with the first one.
    pub other_id: MemoryId,
    /// Type of the memory.
    #[serde(rename = "type")]
    pub kind: MemoryType,
    /// Title as exported; may be empty.
    pub title: String,
    /// URL of a page.
    pub url: Option<String>,
    /// Text as Markdown.
    pub content: String,
    /// Time of the first addition.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Tags of the memory, sorted.
    pub tags: Vec<Tag>,
    /// The spaces that it is added to.
    pub spaces: Vec<SpaceId>,
}

/// An item of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Item {
    /// A URL to fetch, as the client wrote it.
    Url(String),
    /// A note from the client.
    Note {
        /// Text of the note.
        content: String,
        /// Title from the client; derived from the text if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// Type from the client.
        #[serde(rename = "type")]
        kind: MemoryType,
    },
    /// A line of an import.
    Memory(Box<ImportedMemory>),
    /// A line of an import that is no memory.
    Faulty {
        /// Machine-readable error code.
        error: Fault,
        /// Explanation for a person.
        message: String,
    },
}

impl Item {
    /// The URL of a page; `None` for a note.
    pub fn url(&self) -> Option<&str> {
        match self {
            Self::Url(url) => Some(url),
            Self::Note { .. } | Self::Memory(_) | Self::Faulty { .. } => None,
        }
    }

    /// The client's title of a note; `None` for a page.
    pub fn title(&self) -> Option<&str> {
        match self {
            Self::Url(_) | Self::Memory(_) | Self::Faulty { .. } => None,
            Self::Note { title, .. } => title.as_deref(),
        }
    }
}

/// The final outcome of an item. Every item gets exactly one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ItemOutcome {
    /// The item is stored and searchable.
    Success {
        /// The stored memory.
        id: MemoryId,
        /// Canonical URL of the page, or the URL under which the note is stored.
        url: String,
        /// Whether the account had the memory before; for lines of imports.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        existing: Option<bool>,
    },
    /// The item was not added.
    Error {
        /// The URL of a page item.
        #[serde(skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// The client's title of a note item.
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// Machine-readable error code.
        error: Fault,
        /// Explanation for a person.
        message: String,
    },
    /// The item was left out by a rule, not by an error.
    Skipped {
        /// The URL of a page item.
        #[serde(skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// `filtered` or `robots_disallowed`.
        reason: String,
    },
}

impl ItemOutcome {
    /// The error outcome of `item`, with its URL or title.
    pub fn error(item: &Item, fault: Fault, message: impl Into<String>) -> Self {
        Self::Error {
            url: item.url().map(str::to_owned),
            title: item.title().map(str::to_owned),
            error: fault,
            message: message.into(),
        }
    }

    fn text_bytes(&self) -> usize {
        let texts = match self {
            Self::Success { url, .. } => [Some(url), None, None],
            Self::Error { url, title, message, .. } => [url.as_ref(), title.as_ref(), Some(message)],
            Self::Skipped { url, reason } => [url.as_ref(), Some(reason), None],
        };
        texts.into_iter().flatten().map(String::len).sum()
    }
}

/// How a batch ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchEnd {
    /// Every item has an outcome.
    Complete,
    /// The batch stopped before every item had an outcome; the reason is for a person.
    Failed(String),
}

/// A message of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message<'j> {
    /// Progress of the batch.
    Progress {
        /// Number of items with an outcome.
        processed: usize,
        /// Number of items in the batch.
        total: usize,
    },
    /// The outcome of one item.
    Item {
        /// Index of the item: URLs first, then notes, in the order of the request, from 0.
        index: usize,
        /// The recorded outcome.
        outcome: &'j ItemOutcome,
    },
    /// The end of a batch in which every item has an outcome.
    Complete,
    /// The end of a batch before every item had an outcome.
    Fatal {
        /// Explanation for a person.
        message: &'j str,
    },
    /// The end of this stream, not of the batch: its credential was revoked or expired, or its session was signed out.
    Unauthorized,
}

/// The JSON object of a `data:` line. The members are defined by the specification, except `index`, which is an
/// addition.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum StreamLine<'j> {
    Progress {
        processed: usize,
        total: usize,
    },
    Success {
        id: MemoryId,
        url: &'j str,
        index: usize,
    },
    Complete,
    Error {
        fatal: bool,
        error: &'static str,
        message: &'j str,
    },
    #[serde(untagged)]
    Other {
        #[serde(flatten)]
        outcome: &'j ItemOutcome,
        index: usize,
    },
}

/// Ends the stream after a message that could not be serialised, so that the client joins again.
const UNSERIALISABLE: &str = r#"{"type":"error","fatal":true,"error":"temporarily_unavailable","message":"a message of this stream cannot be sent"}"#;

impl Message<'_> {
    /// The JSON object of the `data:` line, without line breaks.
    pub fn data(&self) -> String {
        let line = match self {
            Self::Progress { processed, total } => StreamLine::Progress { processed: *processed, total: *total },
            Self::Item { index, outcome: ItemOutcome::Success { id, url, .. } } => {
                StreamLine::Success { id: *id, url, index: *index }
            }
            Self::Item { index, outcome } => StreamLine::Other { outcome, index: *index },
            Self::Complete => StreamLine::Complete,
            Self::Fatal { message } => StreamLine::Error { fatal: true, error: "temporarily_unavailable", message },
            Self::Unauthorized => StreamLine::Error {
                fatal: true,
                error: "unauthorized",
                message: "the credential of this stream was revoked or expired; the batch continues: join it with another credential",
            },
        };
        // Strings and numbers under fixed names always serialise. If they did not, the client must not miss a message.
        serde_json::to_string(&line).unwrap_or_else(|_| UNSERIALISABLE.to_owned())
    }
}

/// The outcomes of a batch in the order in which they were committed, and its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    total: usize,
    finished: Vec<(usize, ItemOutcome)>,
    end: Option<BatchEnd>,
}

impl Journal {
    /// A journal of `total` items. `finished` are the recorded outcomes with the index of their item, in the order of
    /// the commits.
    pub fn new(total: usize, finished: Vec<(usize, ItemOutcome)>, end: Option<BatchEnd>) -> Self {
        Self { total, finished, end }
    }

    /// Number of items in the batch.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Number of items with an outcome.
    pub fn processed(&self) -> usize {
        self.finished.len()
    }

    /// Recorded outcomes with the index of their item, in the order of the commits.
    pub fn finished(&self) -> &[(usize, ItemOutcome)] {
        &self.finished
    }

    /// How the batch ended; `None` while it runs.
    pub fn ending(&self) -> Option<&BatchEnd> {
        self.end.as_ref()
    }

    /// Whether the last message of the stream is available.
    pub fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Approximate size in memory, in bytes.
    pub fn bytes(&self) -> usize {
        let texts = self.finished.iter().map(|(_, outcome)| outcome.text_bytes()).sum::<usize>();
        size_of::<Self>() + self.finished.len() * size_of::<(usize, ItemOutcome)>() + texts
    }

    /// Records the outcome of an item.
    pub fn finish(&mut self, index: usize, outcome: ItemOutcome) {
        self.finished.push((index, outcome));
    }

    /// Records the end of the batch.
    pub fn end(&mut self, end: BatchEnd) {
        self.end = Some(end);
    }

    /// The message with this number; `None` if it is not available yet or does not exist.
    pub fn message(&self, seq: u32) -> Option<Message<'_>> {
        let seq = usize::try_from(seq).ok()?;
        let count = self.finished.len();
        if seq == 2 * count + 1 {
            return self.end.as_ref().map(|end| match end {
                BatchEnd::Complete => Message::Complete,
                BatchEnd::Failed(message) => Message::Fatal { message },
            });
        }
        if seq > 2 * count {
            return None;
        }
        Some(if seq.is_multiple_of(2) {
            Message::Progress { processed: seq / 2, total: self.total }
        } else {
            let (index, outcome) = self.finished.get(seq / 2)?;
            Message::Item { index: *index, outcome }
        })
    }
}

/// The `id:` of a stream message: `<batch>:<seq>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageId {
    /// The batch of the stream.
    pub batch: BatchId,
    /// Number of the message, from 0.
    pub seq: u32,
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.batch, self.seq)
    }
}

/// A text that is not the id of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected the id of a message, as <batch>:<number>")]
pub struct NotAMessageId;

impl FromStr for MessageId {
    type Err = NotAMessageId;

    fn from_str(text: &str) -> Result<Self, NotAMessageId> {
        let (batch, seq) = text.rsplit_once(':').ok_or(NotAMessageId)?;
        Ok(Self { batch: batch.parse().map_err(|_| NotAMessageId)?, seq: seq.parse().map_err(|_| NotAMessageId)? })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Rng;

    fn messages(journal: &Journal) -> Vec<Value> {
        let numbers = 0..1000;
        numbers
            .map_while(|seq| journal.message(seq))
            .map(|message| serde_json::from_str(&message.data()).unwrap())
            .collect()
    }

    #[test]
    fn a_stream_follows_the_order_in_which_items_finished() {
        let rng = Rng::seeded(1);
        let id: MemoryId = rng.uuid_v7(chrono::DateTime::UNIX_EPOCH).into();
        let mut journal = Journal::new(3, Vec::new(), None);
        assert_eq!(messages(&journal), [json!({"type": "progress", "processed": 0, "total": 3})]);
        journal.finish(2, ItemOutcome::Success { id, url: "https://example.com/".into(), existing: None });
        let note = Item::Note { content: "x".into(), title: Some("T".into()), kind: MemoryType::Note };
        journal.finish(0, ItemOutcome::error(&note, Fault::Http(404), "not there"));
        journal.finish(1, ItemOutcome::Skipped { url: Some("http://x/".into()), reason: "filtered".into() });
        let open = messages(&journal);
        assert_eq!(
            open,
            [
                json!({"type": "progress", "processed": 0, "total": 3}),
                json!({"type": "success", "id": id, "url": "https://example.com/", "index": 2}),
                json!({"type": "progress", "processed": 1, "total": 3}),
                json!({"type": "error", "index": 0, "title": "T", "error": "http_404", "message": "not there"}),
                json!({"type": "progress", "processed": 2, "total": 3}),
                json!({"type": "skipped", "index": 1, "url": "http://x/", "reason": "filtered"}),
                json!({"type": "progress", "processed": 3, "total": 3}),
            ]
        );
        journal.end(BatchEnd::Complete);
        assert_eq!(messages(&journal)[open.len()..], [json!({"type": "complete"})]);
        journal.end(BatchEnd::Failed("gone".into()));
        assert_eq!(messages(&journal).last().unwrap()["fatal"], true);
    }

    #[test]
    fn items_and_outcomes_are_read_as_they_were_written() {
        let note = Item::Note { content: "x".into(), title: None, kind: MemoryType::Tweet };
        for item in [note, Item::Url("https://example.com/".into())] {
            assert_eq!(serde_json::from_str::<Item>(&serde_json::to_string(&item).unwrap()).unwrap(), item);
            let outcome = ItemOutcome::error(&item, Fault::Timeout, "slow");
            assert_eq!(
                serde_json::from_str::<ItemOutcome>(&serde_json::to_string(&outcome).unwrap()).unwrap(),
                outcome
            );
        }
    }

    #[test]
    fn the_id_of_a_message_is_read_as_it_was_written() {
        let id = MessageId { batch: Rng::seeded(1).uuid_v7(chrono::DateTime::UNIX_EPOCH).into(), seq: 7 };
        assert_eq!(id.to_string().parse(), Ok(id));
        for wrong in ["", "7", "x:7", &format!("{}:-1", id.batch), &format!("{}:", id.batch)] {
            assert_eq!(wrong.parse::<MessageId>(), Err(NotAMessageId), "{wrong}");
        }
    }
}
