//! Addresses, timeouts and retries of a client.

use std::time::Duration;

/// Settings of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Base URL of the account and agent API, such as `https://attache.example.com`.
    pub base_url: String,
    /// Base URL of the knowledge API; `base_url` when absent.
    pub rag_url: Option<String>,
    /// Timeout of a connection attempt. Default: 5 s.
    pub connect_timeout: Duration,
    /// Maximum time without data in a response; streams receive a comment every 15 s. Default: 45 s.
    pub read_timeout: Duration,
    /// Timeout of a whole response, except for streams. Default: 30 s.
    pub timeout: Duration,
    /// Maximum time since a stream broke in which the client reconnects, long enough for a restart of the server. Default: 5 min.
    pub rejoin_for: Duration,
    /// When and how often a request is retried.
    pub retry: RetrySettings,
}

/// Retries of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetrySettings {
    /// Maximum number of retries; 0 disables them. Default: 3.
    pub retries_max: usize,
    /// Delay before the first retry, to which jitter is added; doubles with each retry. Default: 250 ms.
    pub delay_min: Duration,
    /// Maximum delay. A request whose `Retry-After` is longer fails without a retry. Default: 20 s.
    pub delay_max: Duration,
}

impl Settings {
    /// Default settings for the server at `base_url`.
    pub fn of(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            rag_url: None,
            connect_timeout: Duration::from_secs(5),
            read_timeout: Duration::from_secs(45),
            timeout: Duration::from_secs(30),
            rejoin_for: Duration::from_mins(5),
            retry: RetrySettings::default(),
        }
    }

    /// The settings with base URLs that end without a slash, since paths are appended to them.
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
