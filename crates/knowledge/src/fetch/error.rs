//! Errors of fetching a page, as a message for people and as an item's error code (`docs/decisions/0025-from-url-to-text.md`).

use domain::fair::FairRefusal;
use domain::item::Fault;
use domain::web_url::InvalidWebUrl;

/// Why a page could not be fetched. Messages contain only the URL's own parts, the status and the content type, and
/// nothing else from the server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The text is not the URL of a web page.
    #[error(transparent)]
    InvalidUrl(#[from] InvalidWebUrl),
    /// The URL cannot be sent in a request.
    #[error("the address has characters that cannot be sent")]
    Unsendable,
    /// The port is not allowed.
    #[error("pages are not fetched from port {0}: knowledge.fetch.ports of the server lists the permitted ones")]
    BlockedPort(u16),
    /// The host, or an address that its name resolves to, is not allowed.
    #[error("the host is in a private network: knowledge.fetch.allow_private of the server lists the permitted ones")]
    BlockedAddress,
    /// A redirect to a text that is not the URL of a web page.
    #[error("the page redirects to something that is not a web address we fetch")]
    BlockedRedirect,
    /// The name does not resolve.
    #[error("the host's name could not be found")]
    NameNotFound,
    /// The connection failed or was closed.
    #[error("the connection to the web server failed")]
    NoConnection,
    /// The response is not HTTP.
    #[error("the response of the web server is not HTTP")]
    NotHttp,
    /// A deadline passed.
    #[error("the web server took too long")]
    TooSlow,
    /// The TLS handshake failed, usually because of an untrusted certificate.
    #[error("no trusted TLS connection: the certificate of the web server may be invalid")]
    Untrusted,
    /// The number of redirects exceeds the limit.
    #[error("the page redirects more than {0} times")]
    TooManyRedirects(usize),
    /// A redirect to a URL that was already visited.
    #[error("the page redirects in a loop")]
    RedirectLoop,
    /// A redirect from https to http.
    #[error("the page redirects from https to http")]
    Downgrade,
    /// The response has an error status.
    #[error("the web server answered with status {0}")]
    Status(u16),
    /// Status 429, or a `Retry-After` above the limit.
    #[error("the web server asked us to come back later")]
    HostBusy,
    /// The body exceeds the limit, in bytes.
    #[error("the page has more than {0} bytes")]
    BodyTooLarge(usize),
    /// The response headers exceed the limit.
    #[error("the response headers of the web server are too large")]
    HeadTooLarge,
    /// The media type is not supported.
    #[error("pages of the type {0} are not read")]
    UnsupportedType(String),
    /// There is no media type, and the content does not reveal it.
    #[error("the type of the page could not be determined")]
    UnknownType,
    /// The content encoding was not requested.
    #[error("the compression of the page is not supported")]
    UnsupportedEncoding,
    /// The compressed content is invalid.
    #[error("the compressed content of the page is invalid")]
    Undecodable,
    /// `robots.txt` forbids the page, so that the item is skipped without an error.
    #[error("the site's robots.txt does not allow this page to be fetched")]
    RobotsDisallowed,
    /// `robots.txt` could not be fetched, which forbids the whole site (RFC 9309, section 2.3.1.4).
    #[error("the site's robots.txt could not be read")]
    RobotsUnreachable(#[source] Box<FetchError>),
}

impl From<FairRefusal> for FetchError {
    /// The waiters of a fetcher are bounded by the batches; a refusal is a wait that was too long.
    fn from(_: FairRefusal) -> Self {
        Self::TooSlow
    }
}

impl FetchError {
    /// The item's error code; `None` if `robots.txt` forbids the page, which skips the item with the reason
    /// `robots_disallowed`.
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
