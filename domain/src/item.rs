//! What became of one item of a batch (`docs/decisions/0040-batches-and-streams.md`).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use strum::{EnumIter, IntoEnumIterator as _, IntoStaticStr};

/// Why an item could not be added; written as one word, `http_404` for what a web server refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
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

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(status) => write!(f, "http_{status}"),
            fixed => f.write_str(fixed.into()),
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
        let mut fixed = Self::iter().filter(|fault| !matches!(fault, Self::Http(_)));
        fixed.find(|fault| <&str>::from(fault) == text).ok_or(UnknownFault)
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
        let fixed = Fault::iter().filter(|fault| !matches!(fault, Fault::Http(_)));
        for fault in fixed.chain([Fault::Http(404)]) {
            assert_eq!(fault.to_string().parse(), Ok(fault));
        }
        assert_eq!(Fault::DnsFailed.to_string(), "dns_failed");
        for wrong in ["http", "http_", "http_x", "Timeout"] {
            assert_eq!(wrong.parse::<Fault>(), Err(UnknownFault), "{wrong}");
        }
    }
}
