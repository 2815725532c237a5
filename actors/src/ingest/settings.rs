//! `[knowledge.batch]`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Limits of batches and of their streams.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BatchSettings {
    /// Addresses and notes of one batch.
    pub items_max: usize,
    /// Bytes of one note.
    pub note_bytes_max: usize,
    /// Spaces that one batch may name.
    pub spaces_max: usize,
    /// Bytes of a whole request.
    pub body_bytes_max: usize,
    /// How long a client may take to send it.
    #[serde(with = "humantime_serde")]
    pub body_deadline: Duration,
    /// Requests of more than 1 MiB that are in memory at once.
    pub large_bodies_max: usize,
    /// Maximum of those requests for one account.
    pub large_bodies_per_account_max: usize,
    /// Requests that wait to be read, because the others are.
    pub large_bodies_waiting_max: usize,
    /// How long a request may wait to be read.
    #[serde(with = "humantime_serde")]
    pub large_bodies_wait: Duration,
    /// How long a request may take to be read while others wait.
    #[serde(with = "humantime_serde")]
    pub large_bodies_turn: Duration,
    /// Batches of one account that may run at once.
    pub running_max: u32,
    /// How long a repeated request with the same `Idempotency-Key` joins the batch of the first one.
    #[serde(with = "humantime_serde")]
    pub idempotency_kept: Duration,
    /// Items of one batch that are prepared at once.
    pub items_at_once: usize,
    /// Maximum number of concurrent SSE streams.
    pub streams_max: usize,
    /// Maximum number of concurrent SSE streams of one account.
    pub streams_per_account_max: usize,
    /// Silence after which a stream shows that it is alive. The credentials of streams and exports are checked again as often, and at
    /// least every 15 seconds.
    #[serde(with = "humantime_serde")]
    pub heartbeat: Duration,
    /// How long a process that works on a batch may be silent before another takes it over.
    #[serde(with = "humantime_serde")]
    pub lease: Duration,
}

impl Default for BatchSettings {
    fn default() -> Self {
        Self {
            items_max: 600,
            note_bytes_max: 1024 * 1024,
            spaces_max: 20,
            body_bytes_max: 32 * 1024 * 1024,
            body_deadline: Duration::from_mins(1),
            large_bodies_max: 8,
            large_bodies_per_account_max: 2,
            large_bodies_waiting_max: 64,
            large_bodies_wait: Duration::from_secs(30),
            large_bodies_turn: Duration::from_secs(10),
            running_max: 4,
            idempotency_kept: Duration::from_hours(24),
            items_at_once: 8,
            streams_max: 4096,
            streams_per_account_max: 64,
            heartbeat: Duration::from_secs(15),
            lease: Duration::from_secs(6),
        }
    }
}

impl BatchSettings {
    /// The invalid values, as pairs of field and rule.
    pub fn problems(&self) -> Vec<(&'static str, &'static str)> {
        let rules = [
            (self.items_max == 0, "items_max", "must be at least 1"),
            (self.items_at_once == 0, "items_at_once", "must be at least 1"),
            (self.large_bodies_max == 0, "large_bodies_max", "must be at least 1"),
            (self.large_bodies_per_account_max == 0, "large_bodies_per_account_max", "must be at least 1"),
            (self.large_bodies_waiting_max == 0, "large_bodies_waiting_max", "must be at least 1"),
            (self.streams_per_account_max == 0, "streams_per_account_max", "must be at least 1"),
            (self.running_max == 0, "running_max", "must be at least 1"),
            (self.lease < Duration::from_secs(1), "lease", "must be at least 1s"),
            (self.heartbeat < Duration::from_millis(100), "heartbeat", "must be at least 100ms"),
            (self.idempotency_kept > Duration::from_hours(24 * 365), "idempotency_kept", "must be at most 365 days"),
            (self.body_deadline.is_zero(), "body_deadline", "must be longer than 0s"),
        ];
        rules.into_iter().filter(|(broken, _, _)| *broken).map(|(_, field, rule)| (field, rule)).collect()
    }
}
