//! Errors of fetching a page, as a message for people and as an item's error code (`docs/decisions/0042-fetching-rules.md`).

use domain::item::Fault;
use domain::web_url::InvalidWebUrl;

/// Why a page could not be had. The words name no address but those that the reader gave, and nothing of what a server answered but
/// its status and its content type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The text is no address of a web page.
    #[error(transparent)]
    InvalidUrl(#[from] InvalidWebUrl),
    /// No request line takes the address.
    #[error("the address has characters that cannot be sent")]
    Unsendable,
    /// A port that is not connected to.
    #[error("pages are not fetched from port {0}")]
    BlockedPort(u16),
    /// The host is, or its name leads to, an address that is not connected to.
    #[error("the host lies in a network that pages are not fetched from")]
    BlockedAddress,
    /// A redirect to what is no address of a web page.
    #[error("the page redirects to something that is not a web address we fetch")]
    BlockedRedirect,
    /// The name has no address.
    #[error("the host's name could not be found")]
    NameNotFound,
    /// No connection, or one that broke off.
    #[error("no connection to the web server could be made, or it broke off")]
    NoConnection,
    /// What answers does not speak HTTP.
    #[error("the web server's answer is not HTTP")]
    NotHttp,
    /// A deadline passed.
    #[error("the web server took too long")]
    TooSlow,
    /// TLS failed: mostly a certificate that is not trusted.
    #[error("no trusted TLS connection could be made: the server's certificate may be invalid")]
    Untrusted,
    /// More redirects than are followed.
    #[error("the page redirects more than {0} times")]
    TooManyRedirects(usize),
    /// A redirect to where we have been.
    #[error("the page redirects in a circle")]
    RedirectLoop,
    /// A redirect from https to http.
    #[error("the page redirects from https to http")]
    Downgrade,
    /// A status that brings no page.
    #[error("the web server answered with status {0}")]
    Status(u16),
    /// 429, or a `Retry-After` that is longer than we wait.
    #[error("the web server asked us to come back later")]
    HostBusy,
    /// A body over the limit, in bytes.
    #[error("the page has more than {0} bytes")]
    BodyTooLarge(usize),
    /// A head over the limit.
    #[error("the head of the web server's answer is too large")]
    HeadTooLarge,
    /// Content that is not read.
    #[error("pages of the type {0} are not read")]
    UnsupportedType(String),
    /// Content whose type nobody says and whose first bytes do not tell.
    #[error("the type of the page could not be told")]
    UnknownType,
    /// A content encoding that was not asked for.
    #[error("the page is compressed in a way that is not read")]
    UnsupportedEncoding,
    /// Broken compression.
    #[error("the page's compression is broken")]
    Undecodable,
    /// `robots.txt` forbids the page to us: a reason to skip it, not a fault.
    #[error("the site's robots.txt does not allow this page to be fetched")]
    RobotsDisallowed,
    /// `robots.txt` could not be read; then all of the site is off limits (RFC 9309, section 2.3.1.4).
    #[error("the site's robots.txt could not be read: {0}")]
    RobotsUnreachable(#[source] Box<FetchError>),
}

impl FetchError {
    /// The item's error code; `None` when `robots.txt` forbids the page, which skips the item with the reason `robots_disallowed`.
    pub fn fault(&self) -> Option<Fault> {
        Some(match self {
            Self::InvalidUrl(_) | Self::Unsendable => Fault::InvalidUrl,
            Self::BlockedPort(_) | Self::BlockedAddress | Self::BlockedRedirect => Fault::BlockedAddress,
            Self::NameNotFound => Fault::DnsFailed,
            Self::NoConnection | Self::NotHttp => Fault::ConnectFailed,
            Self::TooSlow => Fault::Timeout,
            Self::Untrusted => Fault::TlsFailed,
            Self::TooManyRedirects(_) | Self::RedirectLoop | Self::Downgrade => Fault::TooManyRedirects,
            Self::Status(status) => Fault::Http(*status),
            Self::HostBusy => Fault::RateLimitedByHost,
            Self::BodyTooLarge(_) | Self::HeadTooLarge => Fault::TooLarge,
            Self::UnsupportedType(_) | Self::UnknownType | Self::UnsupportedEncoding => Fault::UnsupportedType,
            Self::Undecodable => Fault::ExtractFailed,
            Self::RobotsDisallowed => return None,
            Self::RobotsUnreachable(why) => return why.fault(),
        })
    }
}
