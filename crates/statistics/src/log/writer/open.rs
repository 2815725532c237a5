//! The writer's connection, and the state of the log in its memory.

use domain::Rng;
use rusqlite::Connection;

use super::chains::Chains;
use super::ids::Ids;
use super::index::Indexing;
use super::progress::reached;
use super::transaction::begin;
use super::unplaced::{UnplacedEvents, size};
use crate::log::error::{DuringSqlite as _, LogError};
use crate::log::recent::UnindexedEvents;
use crate::log::settings::WriterSettings;

/// A connection, and the state that was read through it.
pub struct Open {
    pub db: Connection,
    /// `PRAGMA data_version` at the last check.
    pub version: i64,
    /// The number of the newest event that the other fields include.
    pub applied: i64,
    /// The number of the last indexed event.
    pub indexed: i64,
    pub chains: Chains,
    /// Events without a place in the tree.
    pub tail: UnplacedEvents,
    /// Events that are not indexed yet.
    pub recent: UnindexedEvents,
    pub ids: Ids,
    pub indexing: Option<Indexing>,
}

/// Readers must not see the unindexed events of a closed connection.
impl Drop for Open {
    fn drop(&mut self) {
        self.recent.clear(self.indexed);
    }
}

impl Open {
    /// Reads the progress of the log through `db`. The events after the last indexed one are not in memory yet.
    pub fn new(
        mut db: Connection,
        settings: &WriterSettings,
        recent: &UnindexedEvents,
        rng: &Rng,
    ) -> Result<Self, LogError> {
        let ids = Ids::load(&mut db, settings.id_filters_bytes, rng)?;
        let indexed = reached(&db)?;
        recent.clear(indexed);
        Ok(Self {
            // The minimum differs from every version, so the first check reads the events after `indexed`.
            version: i64::MIN,
            applied: indexed,
            indexed,
            chains: Chains::new(settings.chains_max),
            tail: UnplacedEvents::from(size(&db)?),
            recent: recent.clone(),
            ids,
            indexing: None,
            db,
        })
    }

    /// Writes `PRAGMA user_version`, which writes its page even if the number is unchanged.
    pub fn probe(&mut self) -> Result<(), LogError> {
        const ASK: &str = "write to the log";
        let transaction = begin(&mut self.db)?;
        let version: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0)).during(ASK)?;
        transaction.pragma_update(None, "user_version", version).during(ASK)?;
        transaction.commit().during(ASK)
    }

    /// Starts a pass over the unindexed events, unless one is in progress.
    pub fn begin_indexing(&mut self) {
        if self.indexing.is_none() && self.recent.len() > 0 {
            self.indexing = Some(Indexing::new(self.indexed, &self.recent.all(), &self.chains));
        }
    }

    /// Whether there is a slice to write.
    pub fn has_index_work(&self) -> bool {
        self.indexing.is_some() || self.ids.has_work()
    }

    /// One transaction of a pass, of a merge of ids, or of the deletion of merged runs.
    pub fn index_some(&mut self) -> Result<(), LogError> {
        const COMMIT: &str = "commit a slice of the indexes";
        let transaction = begin(&mut self.db)?;
        let Some(pass) = &mut self.indexing else {
            self.ids.work(&transaction)?;
            return transaction.commit().during(COMMIT);
        };
        if !pass.advance(&transaction, &mut self.chains, &mut self.ids)? {
            return transaction.commit().during(COMMIT);
        }
        let Some(pass) = self.indexing.take() else { return Ok(()) };
        let until = pass.until;
        if pass.end(&transaction, &mut self.ids)? {
            transaction.commit().during(COMMIT)?;
            self.indexed = until;
            self.recent.advance(until);
            return Ok(());
        }
        // Another process has indexed these events, or has dropped the run. The next read of its commits shows its progress.
        transaction.rollback().during("leave the indexes to another process")?;
        self.ids.drop_unfinished(&self.db)
    }
}
