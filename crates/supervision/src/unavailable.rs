//! The refusals of actors.

use std::time::Duration;

/// Why an actor did not reply. The request may be repeated after [`retry_after`](Self::retry_after).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The actor is not running; its supervisor starts it after this delay.
    #[error("the actor is not running")]
    NotRunning {
        /// Time until the next attempt to start it.
        retry_after: Duration,
    },
    /// The actor crashed or was killed while it held the message. The message may have taken effect.
    #[error("the actor crashed before it answered")]
    Crashed,
    /// The deadline passed. The message may still take effect.
    #[error("the actor did not answer in time")]
    TimedOut,
    /// The mailbox is full, or the maximum number of actors of the kind is running.
    #[error("the actor has too much to do")]
    Overloaded,
    /// Actors of this key crashed `quarantine_after` times within `quarantine_window`, or the key is refused
    /// ([`KeyControl::refuse`](crate::directory::KeyControl::refuse)).
    #[error("the actor is quarantined")]
    Quarantined {
        /// Time until the key is accepted again.
        retry_after: Duration,
    },
    /// The process is shutting down.
    #[error("the process is shutting down")]
    Draining,
}

impl Unavailable {
    /// Delay after which the sender should try again.
    pub fn retry_after(&self) -> Duration {
        match self {
            Self::NotRunning { retry_after } | Self::Quarantined { retry_after } => *retry_after,
            Self::Crashed | Self::TimedOut | Self::Overloaded => Duration::from_secs(1),
            Self::Draining => Duration::from_secs(5),
        }
    }

    /// The reason in one word, for logs, metrics and the `reason` of an error body.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotRunning { .. } => "not_running",
            Self::Crashed => "crashed",
            Self::TimedOut => "timed_out",
            Self::Overloaded => "overloaded",
            Self::Quarantined { .. } => "quarantined",
            Self::Draining => "draining",
        }
    }
}
