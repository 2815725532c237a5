//! What can go wrong, in words for a person.

use std::fmt;
use std::time::Duration;

use wire::error::ErrorBody;

/// Why a request did not give what was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server said no.
    #[error(transparent)]
    Refused(#[from] Box<Refusal>),
    /// No connection came about, or it broke, or no answer came in time.
    #[error("the server at {url} cannot be reached")]
    Unreachable {
        /// Where it should be.
        url: String,
        /// What the connection said.
        #[source]
        source: reqwest::Error,
    },
    /// The answer is none that attache gives: something else may listen there.
    #[error("{url} answered something that attache does not say")]
    Unreadable {
        /// What was asked.
        url: String,
        /// What cannot be read in it.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The stream of a batch broke off, and could not be joined again. The batch itself goes on.
    #[error("the stream of batch {batch} broke off; it can be joined again")]
    Broken {
        /// The batch.
        batch: String,
        /// Why the last attempt failed.
        #[source]
        source: Option<Box<Error>>,
    },
    /// No address of a server.
    #[error("{0} is no address of a server: they look like https://attache.example.com")]
    Address(String),
    /// The HTTP library.
    #[error("an HTTP client cannot be made")]
    Client(#[source] reqwest::Error),
}

impl Error {
    /// The refusal, if the server answered with one.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// The code of the refusal.
    pub fn code(&self) -> Option<&str> {
        self.refusal().map(|refusal| refusal.body.error.as_str())
    }

    /// Whether the request cannot have reached the server.
    pub(crate) fn never_sent(&self) -> bool {
        matches!(self, Self::Unreachable { source, .. } if source.is_connect())
    }

    /// Whether the same request may do better later.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused(refusal) => refusal.is_temporary(),
            _ => false,
        }
    }
}

/// An answer that is none of the good ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// The status.
    pub status: u16,
    /// Its body; of an answer that has no code, `http_<status>` stands for it.
    pub body: ErrorBody,
    /// When to come back.
    pub retry_after: Option<Duration>,
}

impl Refusal {
    /// Whether the server says that the same request may be sent later.
    pub fn is_temporary(&self) -> bool {
        self.body.retryable.unwrap_or(matches!(self.status, 424 | 429 | 502..=504))
    }

    /// A member that the code carries besides.
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
