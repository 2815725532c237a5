//! The formats of content that are read.

/// The ways in which content is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A web page.
    Html,
    /// Plain text.
    Text,
    /// Markdown.
    Markdown,
    /// JSON, whatever its schema.
    Json,
    /// XML, whatever its vocabulary: feeds among it.
    Xml,
    /// PDF.
    Pdf,
}

impl Format {
    /// How content of this media type is read, parameters and case aside; `None` for types that are not.
    pub fn of(media_type: &str) -> Option<Self> {
        let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match essence.as_str() {
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

    /// Whether reading it can go so wrong that it is done in a process that can be killed.
    pub(super) fn is_risky(self) -> bool {
        matches!(self, Self::Html | Self::Pdf)
    }
}
