//! What lives, as the operator sees it.

use serde::Serialize;

use super::child::Role;
use crate::periodic::FailingPasses;

/// One supervised child, or the root itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Node {
    /// The child's name.
    pub name: String,
    /// Its kind, as in configuration and metrics.
    pub kind: &'static str,
    /// What it is to its supervisor.
    pub role: Role,
    /// Where it is in its life.
    pub status: Status,
    /// How often it was started again.
    pub restarts: u64,
    /// Why it last failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<LastFailure>,
    /// Its passes, if it is a periodic actor and they fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing: Option<FailingPasses>,
    /// How many actors live here: 0 or 1, and for a family the number of its members.
    pub live: u64,
    /// Messages waiting or in their hands.
    pub queued: u64,
    /// For one actor or factory with waiting messages: milliseconds since it last finished one, or since the first of them came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unmoved_ms: Option<u64>,
    /// Keys in quarantine.
    pub quarantined: u64,
    /// What it supervises.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Node>,
}

/// Where a child is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// To be started, for the first time or after a delay.
    Waiting,
    /// Being started.
    Starting,
    /// Up.
    Running,
    /// Finishing what it has.
    Stopping,
    /// Ended for good.
    Stopped,
}

/// A failure that was survived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LastFailure {
    /// The panic or error, cut short.
    pub error: String,
    /// How long ago.
    pub seconds_ago: u64,
}
