//! Memories of the knowledge API: pages and notes, and the form by which duplicates are found
//! (`docs/decisions/0021-memories.md`).

mod note;
mod tag;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::UnknownName;

pub use note::{TITLE_CHARS_MAX, heading, normalised, note_digest, note_title, short_title};
pub use tag::{InvalidTag, TAG_CHARS_MAX, Tag, sorted_tags};

/// Kind of a memory: `type` of search results and content items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(strum::EnumString, strum::IntoStaticStr, strum::VariantNames, strum::Display)]
#[strum(serialize_all = "lowercase", parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<Self>)]
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
    /// The name in requests, responses and rows.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The model that made a vector. Vectors of different models are not comparable. Written as `name/dimensions`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ModelId {
    /// Name of the model.
    pub name: String,
    /// Numbers per vector.
    pub dimensions: u16,
}

impl fmt::Display for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.dimensions)
    }
}
