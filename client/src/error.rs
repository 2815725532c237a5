//! Errors of requests, with messages for a person.

use std::fmt;
use std::time::Duration;

use wire::error::ErrorBody;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server answered with an error status.
    #[error(transparent)]
    Refused(#[from] Box<Refusal>),
    /// The connection could not be made or broke, or the response did not arrive in time.
    #[error("the server at {url} cannot be reached")]
    Unreachable {
        /// Base URL of the surface.
        url: String,
        /// Error of the HTTP library.
        #[source]
        source: reqwest::Error,
    },
    /// The response is not one of attache: another program may listen at the address.
    #[error("{url} answered something that attache does not say")]
    Unreadable {
        /// URL of the request.
        url: String,
        /// Error of the parser.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The stream of a batch broke off, and reconnecting failed. The batch itself continues.
    #[error("the stream of batch {batch} broke off; it can be joined again")]
    Broken {
        /// Id of the batch.
        batch: String,
        /// Error of the last attempt; `None` when the attempts are used up.
        #[source]
        source: Option<Box<Error>>,
    },
    /// The text is not the URL of a server.
    #[error("{0} is no address of a server: they look like https://attache.example.com")]
    Address(String),
    /// The HTTP library could not be initialised.
    #[error("an HTTP client cannot be made")]
    Client(#[source] reqwest::Error),
}

impl Error {
    /// The error response, if the server sent one.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// The code of the error response, such as `rate_limited`.
    pub fn code(&self) -> Option<&str> {
        self.refusal().map(|refusal| refusal.body.error.as_str())
    }

    /// Whether the request certainly did not reach the server.
    pub(crate) fn never_sent(&self) -> bool {
        matches!(self, Self::Unreachable { source, .. } if source.is_connect())
    }

    /// Whether the same request may succeed later.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused(refusal) => refusal.is_temporary(),
            _ => false,
        }
    }
}

/// A response with an error status.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// HTTP status code.
    pub status: u16,
    /// The body; for a body without a code, the code is `http_<status>`.
    pub body: ErrorBody,
    /// Delay that the server asks for in `Retry-After`.
    pub retry_after: Option<Duration>,
}

impl Refusal {
    /// Whether the same request may be sent again: `retryable`, or else the status.
    pub fn is_temporary(&self) -> bool {
        self.body.retryable.unwrap_or(matches!(self.status, 424 | 429 | 502..=504))
    }

    /// A numeric member of the body besides the common ones, such as `interval`.
    pub fn number(&self, member: &str) -> Option<u64> {
        self.body.others.get(member)?.as_u64()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server said {} ({})", self.body.error, self.status)?;
        let reason = self.body.others.get("reason").and_then(|reason| reason.as_str());
        for word in [self.body.details.as_deref(), reason].into_iter().flatten() {
            write!(f, ": {word}")?;
        }
        for issue in &self.body.issues {
            let place = if issue.path.is_empty() { "the request" } else { &issue.path };
            write!(f, "; {place} {}", issue.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}
