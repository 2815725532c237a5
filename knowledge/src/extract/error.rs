//! Errors of extraction.

use domain::item::Fault;
use serde::{Deserialize, Serialize};

/// Why there is nothing to remember.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "error", content = "message", rename_all = "snake_case")]
pub enum ExtractError {
    /// Not a word in it.
    #[error("there is no text in it")]
    Empty,
    /// No type that is read.
    #[error("content of the type {0} is not read")]
    Unsupported(String),
    /// More text than is kept of one item.
    #[error("its text has more than {0} bytes")]
    TooLarge(usize),
    /// An element of the page with more attributes than are read.
    #[error("it cannot be read: one of its elements has more than {0} attributes")]
    TooManyAttributes(usize),
    /// It breaks the rules of its type, or breaks whoever reads it.
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

/// As much of a foreign text as belongs into a message.
pub(super) fn short(text: &str) -> String {
    const CHARS_MAX: usize = 100;
    text.chars().filter(|character| !character.is_control()).take(CHARS_MAX).collect()
}
