//! The supported formats of content.

use crate::content_type::essence;

/// A format of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentFormat {
    /// A web page, HTML or XHTML.
    Html,
    /// Plain text.
    Text,
    /// Markdown, with or without front matter.
    Markdown,
    /// JSON of any schema.
    Json,
    /// XML of any vocabulary, such as feeds.
    Xml,
    /// PDF.
    Pdf,
}

impl ContentFormat {
    /// The format of a media type, ignoring case and parameters; `None` if it is not supported.
    pub fn of(media_type: &str) -> Option<Self> {
        match essence(media_type).as_str() {
            "text/html" | "application/xhtml+xml" => Some(Self::Html),
            "text/plain" => Some(Self::Text),
            "text/markdown" | "text/x-markdown" => Some(Self::Markdown),
            "application/json" => Some(Self::Json),
            "text/xml" | "application/xml" => Some(Self::Xml),
            "application/pdf" => Some(Self::Pdf),
            other if other.ends_with("+json") => Some(Self::Json),
            other if other.ends_with("+xml") => Some(Self::Xml),
            _ => None,
        }
    }

    /// Whether parsing must run in the worker process.
    pub(super) fn is_risky(self) -> bool {
        matches!(self, Self::Html | Self::Pdf)
    }
}
