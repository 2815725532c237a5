//! Where the server is, and how patient its client.

use std::time::Duration;

/// Knobs of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where the account and agent API is: `https://attache.example.com`.
    pub base_url: String,
    /// Where the knowledge API is, if not there.
    pub rag_url: Option<String>,
    /// Longest wait for a connection.
    pub connect_timeout: Duration,
    /// Longest silence of an answer; streams are told a comment every 15 s.
    pub read_timeout: Duration,
    /// Longest wait for a whole answer, streams aside.
    pub timeout: Duration,
    /// How long a stream that broke off is tried to be joined again, since its last message: a server that is started anew takes a while.
    pub rejoin_for: Duration,
    /// When and how long a request is sent again.
    pub retry: RetrySettings,
}

/// How a request is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetrySettings {
    /// Times at most; 0 never.
    pub retries_max: usize,
    /// About the first delay; each is about twice the one before.
    pub delay_min: Duration,
    /// The longest delay, `Retry-After` included: a server that wants more is not waited for.
    pub delay_max: Duration,
}

impl Settings {
    /// Of a server, with everything else at its default.
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

    /// Paths are appended to the addresses, so they end without a slash.
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
