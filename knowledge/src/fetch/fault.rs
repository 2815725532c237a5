//! Why a page could not be fetched.

use std::error::Error;

use domain::item::Fault;

use super::resolver::NameError;

/// Why a page could not be fetched, in a sentence for people that says nothing about the server's own network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The host, or where a redirect leads, is no address that is fetched from.
    #[error("this address is not on the public internet")]
    BlockedAddress,
    /// The port is none that is fetched from.
    #[error("port {0} is not fetched from")]
    BlockedPort(u16),
    /// `robots.txt` says no: no fault of the item, it is left out.
    #[error("the web server's robots.txt does not allow it")]
    RobotsDisallowed,
    /// The host has no address.
    #[error("the host name does not exist")]
    Name,
    /// No connection.
    #[error("the web server could not be reached")]
    Connect,
    /// No TLS that can be trusted.
    #[error("no trusted TLS connection to the web server could be made")]
    Tls,
    /// It took too long as a whole.
    #[error("the web server took too long")]
    Timeout,
    /// Nothing came for too long.
    #[error("the web server stopped sending")]
    Stalled,
    /// The answer is broken.
    #[error("the web server sent an answer that cannot be read")]
    Broken,
    /// Too many redirects, or a circle.
    #[error("the page redirects too often, or in a circle")]
    TooManyRedirects,
    /// A redirect to something that is no address of the web.
    #[error("the page redirects to what is no address of the web")]
    BadRedirect,
    /// A redirect from https to http.
    #[error("the page redirects from https to http")]
    Downgraded,
    /// The web server refused.
    #[error("the web server answered with status {0}")]
    Status(u16),
    /// The web server asked us to come back later than we can wait.
    #[error("the web server asks for fewer requests")]
    RateLimited,
    /// Too many bytes.
    #[error("the page has more than {0} bytes")]
    TooLarge(usize),
    /// No type of content that is read.
    #[error("only HTML, plain text, Markdown, JSON, XML and PDF are read")]
    Unsupported,
}

impl FetchError {
    /// What went wrong below, as far as the client's error tells.
    pub(super) fn of(error: &reqwest::Error) -> Self {
        let mut cause = error.source();
        while let Some(inner) = cause {
            match inner.downcast_ref::<NameError>() {
                Some(NameError::Unknown) => return Self::Name,
                Some(NameError::Blocked) => return Self::BlockedAddress,
                None => {}
            }
            if inner.is::<rustls::Error>() {
                return Self::Tls;
            }
            // An IO error that carries another gives its source as its own, and leaves the other out.
            let carried = inner.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
            cause = carried.map_or_else(|| inner.source(), |carried| Some(carried as &(dyn Error + 'static)));
        }
        match error {
            error if error.is_connect() => {
                if error.is_timeout() {
                    Self::Timeout
                } else {
                    Self::Connect
                }
            }
            error if error.is_timeout() => Self::Stalled,
            error if error.is_request() => Self::Connect,
            _ => Self::Broken,
        }
    }

    /// Whether trying again a little later makes sense.
    pub(super) fn is_passing(self) -> bool {
        matches!(self, Self::Connect)
    }

    /// The item's error code; `None` for what is left out on purpose.
    pub fn fault(self) -> Option<Fault> {
        Some(match self {
            Self::BlockedAddress | Self::BlockedPort(_) => Fault::BlockedAddress,
            Self::RobotsDisallowed => return None,
            Self::Name => Fault::DnsFailed,
            Self::Connect | Self::Broken => Fault::ConnectFailed,
            Self::Tls => Fault::TlsFailed,
            Self::Timeout | Self::Stalled => Fault::Timeout,
            Self::TooManyRedirects | Self::Downgraded => Fault::TooManyRedirects,
            Self::BadRedirect => Fault::InvalidUrl,
            Self::Status(status) => Fault::Http(status),
            Self::RateLimited => Fault::RateLimitedByHost,
            Self::TooLarge(_) => Fault::TooLarge,
            Self::Unsupported => Fault::UnsupportedType,
        })
    }
}
