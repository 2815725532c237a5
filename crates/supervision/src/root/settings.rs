//! The limits of the root.

use std::time::Duration;

/// Deadlines of the root supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RootSettings {
    /// Timeout of a child's start. Default 30 s.
    pub start_deadline: Duration,
    /// Time in which children may finish when the root gives up. Default 10 s.
    pub give_up_deadline: Duration,
    /// Time that the root waits for killed children before it ends without them. Default 1 s.
    pub kill_grace: Duration,
}

impl Default for RootSettings {
    fn default() -> Self {
        Self {
            start_deadline: Duration::from_secs(30),
            give_up_deadline: Duration::from_secs(10),
            kill_grace: Duration::from_secs(1),
        }
    }
}
