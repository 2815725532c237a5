//! Error codes of batch items (`docs/decisions/0024-batches.md`).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use strum::{EnumIter, IntoEnumIterator as _, IntoStaticStr};

/// Why an item was not added. Serialised in snake case, with `http_404` for a status of the web server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Fault {
    /// The URL cannot be fetched: another scheme, user information, or no host.
    InvalidUrl,
    /// The address, port, resolved name or redirect target is not allowed.
    BlockedAddress,
    /// The host name does not resolve.
    DnsFailed,
    /// The connection failed.
    ConnectFailed,
    /// A deadline passed.
    Timeout,
    /// The TLS handshake failed, or the certificate is not trusted.
    TlsFailed,
    /// Too many redirects, a redirect loop, or a redirect from https to http.
    TooManyRedirects,
    /// The web server responded with this status.
    Http(u16),
    /// The web server requested a longer delay than the fetcher waits.
    RateLimitedByHost,
    /// The decompressed content exceeds the limit.
    TooLarge,
    /// The media type is not supported.
    UnsupportedType,
    /// The content has no text.
    EmptyContent,
    /// The content could not be extracted.
    ExtractFailed,
    /// The text could not be embedded.
    EmbeddingFailed,
    /// The account's memory limit is reached.
    QuotaExceeded,
    /// The line of an import is no memory.
    InvalidRequest,
    /// The API key covers none of the spaces of an imported memory.
    SpaceForbidden,
    /// The batch was cancelled before this item was processed.
    Cancelled,
}

impl Fault {
    /// Whether the same item may succeed later, without any change to it or to the settings.
    pub fn may_pass(self) -> bool {
        match self {
            Self::DnsFailed
            | Self::ConnectFailed
            | Self::Timeout
            | Self::RateLimitedByHost
            | Self::EmbeddingFailed
            | Self::Cancelled
            | Self::Http(408 | 425 | 429 | 500..=599) => true,
            Self::InvalidUrl
            | Self::BlockedAddress
            | Self::TlsFailed
            | Self::TooManyRedirects
            | Self::Http(_)
            | Self::TooLarge
            | Self::UnsupportedType
            | Self::EmptyContent
            | Self::ExtractFailed
            | Self::InvalidRequest
            | Self::SpaceForbidden
            | Self::QuotaExceeded => false,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(status) => write!(f, "http_{status}"),
            fixed => f.write_str(fixed.into()),
        }
    }
}

/// A text that is not an error code of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected an error code of an item, such as timeout or http_404")]
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

    #[test]
    fn a_fault_may_pass_if_time_alone_can_end_it() {
        for passing in [Fault::Timeout, Fault::DnsFailed, Fault::Http(429), Fault::Http(503), Fault::Cancelled] {
            assert!(passing.may_pass(), "{passing}");
        }
        for lasting in [Fault::InvalidUrl, Fault::BlockedAddress, Fault::Http(404), Fault::Http(403), Fault::TooLarge] {
            assert!(!lasting.may_pass(), "{lasting}");
        }
    }
}
