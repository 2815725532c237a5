//! Errors of requests, with messages for people.

use std::fmt;
use std::time::Duration;

use wire::error::ErrorBody;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server responded with an error status.
    #[error(transparent)]
    Refused(#[from] Box<Refusal>),
    /// The connection failed or was closed, or a timeout passed.
    #[error("the server at {url} cannot be reached")]
    Unreachable {
        /// Base URL of the server.
        url: String,
        /// Error of the connection.
        #[source]
        source: reqwest::Error,
    },
    /// The response is not valid for attache; another program may listen at the URL.
    #[error("{url} returned a response that is not valid for attache")]
    Unreadable {
        /// URL of the request.
        url: String,
        /// Error of the parser.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The stream of a batch was interrupted and could not be resumed. The batch itself continues.
    #[error("the stream of batch {batch} was interrupted; it can be joined again")]
    Broken {
        /// Id of the batch.
        batch: String,
        /// Error of the last attempt.
        #[source]
        source: Option<Box<Error>>,
    },
    /// Not the URL of a server.
    #[error("{0} is no address of a server: they look like https://attache.example.com")]
    Address(String),
    /// The HTTP client cannot be created.
    #[error("cannot create an HTTP client")]
    Client(#[source] reqwest::Error),
}

impl Error {
    /// The error response, if there is one.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// The error code of the response.
    pub fn code(&self) -> Option<&str> {
        self.refusal().map(|refusal| refusal.body.error.as_str())
    }

    /// Whether the request certainly did not reach the server.
    pub(crate) fn never_sent(&self) -> bool {
        matches!(self, Self::Unreachable { source, .. } if source.is_connect())
    }

    /// Whether the same request can be retried later.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused(refusal) => refusal.is_temporary(),
            _ => false,
        }
    }
}

/// An error response.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// HTTP status.
    pub status: u16,
    /// Body of the response; `http_<status>` replaces a missing code.
    pub body: ErrorBody,
    /// Delay of the `Retry-After` header.
    pub retry_after: Option<Duration>,
}

impl Refusal {
    /// Whether the same request can be retried, by the body's `retryable` or the status.
    pub fn is_temporary(&self) -> bool {
        self.body.retryable.unwrap_or(matches!(self.status, 424 | 429 | 502..=504))
    }

    /// A number among the further members of the body.
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
        if let Some(until) = self.body.others.get("paused_until").and_then(|until| until.as_str()) {
            write!(f, " until {until}")?;
        }
        for issue in &self.body.issues {
            let place = if issue.path.is_empty() { "the request" } else { &issue.path };
            write!(f, "; {place} {}", issue.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}
