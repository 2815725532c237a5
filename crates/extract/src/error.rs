//! Errors of extraction.

use domain::item::Fault;
use serde::{Deserialize, Serialize};

/// Why no content was extracted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "error", content = "message", rename_all = "snake_case")]
pub enum ExtractError {
    /// The content has no words.
    #[error("there is no text in it")]
    Empty,
    /// The media type is not supported.
    #[error("content of the type {0} is not supported")]
    Unsupported(String),
    /// The text exceeds the limit of one item.
    #[error("its text has more than {0} bytes")]
    TooLarge(usize),
    /// An element has more attributes than the limit.
    #[error("it cannot be read: one of its elements has more than {0} attributes")]
    TooManyAttributes(usize),
    /// The content is invalid, or the parser failed.
    #[error("it cannot be read: {0}")]
    Failed(String),
}

impl ExtractError {
    /// The item's error code.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Empty => Fault::EmptyContent,
            Self::Unsupported(_) => Fault::UnsupportedType,
            Self::TooLarge(_) => Fault::TooLarge,
            Self::TooManyAttributes(_) | Self::Failed(_) => Fault::ExtractFailed,
        }
    }
}

/// Shortens text from a third party for a message.
pub(super) fn short(text: &str) -> String {
    const CHARS_MAX: usize = 100;
    text.chars().filter(|character| !character.is_control()).take(CHARS_MAX).collect()
}
