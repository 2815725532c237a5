//! The snapshot of the tree that the operator sees.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::child::Role;
use crate::address::BusyKey;
use crate::periodic::passes::{FailingPasses, LastPass};
use crate::times::MessageTimes;

/// One supervised child, or the root itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// The name of the child.
    pub name: String,
    /// The name of its kind, as in configuration and metrics.
    pub kind: Cow<'static, str>,
    /// The form of the child.
    pub role: Role,
    /// The phase of its life.
    pub status: Status,
    /// Number of restarts since the process started.
    pub restarts: u64,
    /// What is left of the restart budget; `None` for the root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// While the child waits for a restart: milliseconds until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restarts_in_ms: Option<u64>,
    /// The newest failures, newest first, at most [`FAILURES_MAX`]. They are kept over restarts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<ChildFailure>,
    /// Failing passes, if the child is a periodic actor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing: Option<FailingPasses>,
    /// The last pass, if the child is a periodic actor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pass: Option<LastPass>,
    /// Number of actors: 0 or 1, and for a family the number of its members.
    pub live: u64,
    /// Messages that wait or are being handled.
    pub queued: u64,
    /// For a single actor with waiting messages: milliseconds since it last finished one, or since the first one arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unmoved_ms: Option<u64>,
    /// Under the same conditions: age of the oldest message in milliseconds, at most too large by the time between two arrivals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_ms: Option<u64>,
    /// Number of keys in quarantine.
    pub quarantined: u64,
    /// Waits and handling of its recent messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<MessageTimes>,
    /// The actors of a family with the most messages, at most [`BUSIEST_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub busiest: Vec<BusyKey>,
    /// The children of the root.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Node>,
}

/// Number of busy actors that are shown for each family.
pub const BUSIEST_MAX: usize = 10;

/// The phase of a child's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It waits for its first start, or for the end of a restart delay.
    Waiting,
    /// It is being started.
    Starting,
    /// It runs.
    Running,
    /// It finishes its messages.
    Stopping,
    /// It has ended and is not started again.
    Stopped,
}

/// Why the actor of a child is not ended and started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotReplaced {
    /// There is no such child.
    #[error("no actor has this name")]
    Unknown,
    /// It is being started.
    #[error("the actor is being started")]
    Starting,
    /// The root ends.
    #[error("the server stops")]
    Ending,
}

/// Number of failures that are kept for each child.
pub const FAILURES_MAX: usize = 20;

/// The restart budget of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Restarts that are left. The failure after them ends the process.
    pub restarts_left: u32,
    /// Milliseconds until one more restart is left; `None` while the budget is whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more_in_ms: Option<u64>,
}

/// A failure after which the child was restarted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildFailure {
    /// The panic message or the error with its causes, at most 400 characters.
    pub error: String,
    /// The request of the message during which it panicked ([`name_requests`](crate::name_requests)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// Seconds since the failure.
    pub seconds_ago: u64,
}
