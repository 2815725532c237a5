//! Sequencing: assigns places in the tree to events, and signs the tree.

use super::error::LogError;
use super::handle::Log;
use super::job::Sequenced;

impl Log {
    /// Assigns places to at most `events_max` events and signs the grown tree. Does nothing if no event waits, or on PostgreSQL while
    /// another process has the lease. Fails while the log is halted. After a crash the stored tree is either the old or the new one,
    /// complete.
    #[boxed]
    pub async fn sequence(&self, events_max: u32) -> Result<Sequenced, LogError> {
        if !self.is_witnessed().await? {
            return Ok(Sequenced { added: 0, tree_size: self.signed_row().await?.size });
        }
        match &self.writer {
            Some(writer) => {
                if self.halted().is_some() {
                    // Another process may have started a new epoch.
                    self.follow_stored_halt().await?;
                }
                writer.sequence(events_max).await
            }
            None => self.sequence_on_postgres(events_max).await,
        }
    }
}
