//! Settings of a client: URLs, timeouts and retries.

use std::time::Duration;

/// Settings of a [`crate::Client`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Base URL of the account and agent API, such as `https://attache.example.com`.
    pub base_url: String,
    /// Base URL of the knowledge API, if it differs.
    pub rag_url: Option<String>,
    /// Timeout of connecting.
    pub connect_timeout: Duration,
    /// Timeout of each read; servers send a comment on idle streams every 15 s.
    pub read_timeout: Duration,
    /// Timeout of a request, except for streams.
    pub timeout: Duration,
    /// Maximum size of a response body, and of one message of a stream, in bytes. Reading stops with an error at the limit.
    pub response_bytes_max: usize,
    /// How long an interrupted stream is resumed after its last message, long enough for a restart of the server.
    pub rejoin_for: Duration,
    /// Retries of requests.
    pub retry: RetrySettings,
}

/// Retries of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetrySettings {
    /// Maximum number of retries; 0 for none.
    pub retries_max: usize,
    /// Mean delay before the first retry, doubled for each further one.
    pub delay_min: Duration,
    /// Maximum delay. A request is not retried if `Retry-After` exceeds it.
    pub delay_max: Duration,
}

impl Settings {
    /// The default settings for a server.
    pub fn of(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            rag_url: None,
            connect_timeout: Duration::from_secs(5),
            read_timeout: Duration::from_secs(45),
            timeout: Duration::from_secs(30),
            response_bytes_max: 64 * 1024 * 1024,
            rejoin_for: Duration::from_mins(5),
            retry: RetrySettings::default(),
        }
    }

    /// Removes trailing slashes, because paths are appended.
    pub(crate) fn trimmed(&self) -> Self {
        let trimmed = |url: &str| url.trim_end_matches('/').to_owned();
        Self { base_url: trimmed(&self.base_url), rag_url: self.rag_url.as_deref().map(trimmed), ..self.clone() }
    }
}

impl Default for RetrySettings {
    fn default() -> Self {
        Self { retries_max: 3, delay_min: Duration::from_millis(250), delay_max: Duration::from_secs(20) }
    }
}
