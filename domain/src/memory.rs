//! Pages and notes that the knowledge API keeps, and what makes two of them the same (`docs/decisions/0041-duplicates.md`).

mod note;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use note::{TITLE_CHARS_MAX, heading, normalised, note_digest, note_title, short_title};

/// What a memory is: the `type` of search results and of content items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryType {
    /// A text that a client sent.
    Note,
    /// A web page.
    Page,
    /// A file such as a PDF or a plain text.
    Document,
    /// A short public message.
    Tweet,
    /// A page of a notes application.
    Notion,
}

impl MemoryType {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Note, Self::Page, Self::Document, Self::Tweet, Self::Notion];

    /// The type as it is written in requests, answers and rows.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Page => "page",
            Self::Document => "document",
            Self::Tweet => "tweet",
            Self::Notion => "notion",
        }
    }
}

impl fmt::Display for MemoryType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which model made a vector: vectors of two models are never compared. Written as `name/dimensions`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ModelId {
    /// The model's name.
    pub name: String,
    /// Numbers of a vector.
    pub dimensions: u16,
}

impl fmt::Display for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.dimensions)
    }
}

/// A text that is no type of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected one of note, page, document, tweet, notion")]
pub struct UnknownMemoryType;

impl FromStr for MemoryType {
    type Err = UnknownMemoryType;

    fn from_str(text: &str) -> Result<Self, UnknownMemoryType> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or(UnknownMemoryType)
    }
}
