//! What became of one item of a batch (`docs/decisions/0040-batches-and-streams.md`).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Why an item could not be added; written as one word, `http_404` for what a web server refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// No address that we fetch: another scheme, a user name, no host.
    InvalidUrl,
    /// The address, its port, or where its name or a redirect leads, is none that we connect to.
    BlockedAddress,
    /// The host's name has no address.
    DnsFailed,
    /// No connection.
    ConnectFailed,
    /// Too slow.
    Timeout,
    /// No TLS that we trust.
    TlsFailed,
    /// Redirected too often, in a circle, or from https to http.
    TooManyRedirects,
    /// What the web server answered.
    Http(u16),
    /// The web server asked us to come back later than we can wait.
    RateLimitedByHost,
    /// More bytes than we take, counted after decompression.
    TooLarge,
    /// No type of content that we read.
    UnsupportedType,
    /// Nothing to remember.
    EmptyContent,
    /// The content could not be read.
    ExtractFailed,
    /// The words could not be turned into a vector.
    EmbeddingFailed,
    /// The account keeps as much as it may.
    QuotaExceeded,
    /// The batch was cancelled before this item's turn.
    Cancelled,
}

impl Fault {
    /// Every fault with a fixed word.
    const FIXED: [(Self, &str); 15] = [
        (Self::InvalidUrl, "invalid_url"),
        (Self::BlockedAddress, "blocked_address"),
        (Self::DnsFailed, "dns_failed"),
        (Self::ConnectFailed, "connect_failed"),
        (Self::Timeout, "timeout"),
        (Self::TlsFailed, "tls_failed"),
        (Self::TooManyRedirects, "too_many_redirects"),
        (Self::RateLimitedByHost, "rate_limited_by_host"),
        (Self::TooLarge, "too_large"),
        (Self::UnsupportedType, "unsupported_type"),
        (Self::EmptyContent, "empty_content"),
        (Self::ExtractFailed, "extract_failed"),
        (Self::EmbeddingFailed, "embedding_failed"),
        (Self::QuotaExceeded, "quota_exceeded"),
        (Self::Cancelled, "cancelled"),
    ];
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(status) => write!(f, "http_{status}"),
            other => f.write_str(
                Self::FIXED.iter().find(|(fault, _)| fault == other).map_or("extract_failed", |(_, word)| word),
            ),
        }
    }
}

/// A text that is no fault of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected a fault of an item, such as timeout or http_404")]
pub struct UnknownFault;

impl FromStr for Fault {
    type Err = UnknownFault;

    fn from_str(text: &str) -> Result<Self, UnknownFault> {
        if let Some(status) = text.strip_prefix("http_") {
            return status.parse().map(Self::Http).map_err(|_| UnknownFault);
        }
        Self::FIXED.iter().find(|(_, word)| *word == text).map(|(fault, _)| *fault).ok_or(UnknownFault)
    }
}

impl Serialize for Fault {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fault {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_read_as_it_was_written() {
        for fault in Fault::FIXED.iter().map(|(fault, _)| *fault).chain([Fault::Http(404)]) {
            assert_eq!(fault.to_string().parse(), Ok(fault));
        }
        assert_eq!("http_x".parse::<Fault>(), Err(UnknownFault));
    }
}
