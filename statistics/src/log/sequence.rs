//! Giving events their place in the tree, and signing it.

use super::{Log, LogError};

/// What one pass did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sequenced {
    /// Events that have their place now.
    pub added: u32,
    /// Leaves in the signed tree.
    pub tree_size: u64,
}

impl Log {
    /// Gives at most `events_max` events their place and signs the grown tree. Does nothing while none wait, or on PostgreSQL while
    /// another process holds the lease. A crash leaves the old tree or the new one, whole.
    pub async fn sequence(&self, events_max: u32) -> Result<Sequenced, LogError> {
        match &self.writer {
            Some(writer) => writer.sequence(events_max).await,
            None => self.sequence_on_postgres(events_max).await,
        }
    }
}
