//! `[knowledge.batch]`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Limits of batches and of their streams.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct BatchSettings {
    pub items_max: usize,
    pub note_bytes_max: usize,
    pub spaces_max: usize,
    pub body_bytes_max: usize,
    #[serde(with = "humantime_serde")]
    pub body_deadline: Duration,
    pub large_bodies_max: usize,
    pub large_bodies_per_account_max: usize,
    pub large_bodies_waiting_max: usize,
    #[serde(with = "humantime_serde")]
    pub large_bodies_wait: Duration,
    #[serde(with = "humantime_serde")]
    pub large_bodies_turn: Duration,
    pub running_max: u32,
    #[serde(with = "humantime_serde")]
    pub idempotency_kept: Duration,
    pub items_at_once: usize,
    pub streams_max: usize,
    pub streams_per_account_max: usize,
    #[serde(with = "humantime_serde")]
    pub heartbeat: Duration,
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
