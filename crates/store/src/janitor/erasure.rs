//! Erasure: removes deleted texts from the files of the database (`docs/decisions/0017-retention-and-erasure.md`).
//!
//! SQLite overwrites the pages of deleted rows (`secure_delete`). Deleted text remains in two places: the index of words, which only marks
//! deleted rows, and the write-ahead log. On PostgreSQL, autovacuum frees the rows, and later rows overwrite them.

use super::PurgeSettings;
use crate::Store;
use crate::error::StoreError;
use crate::operation::{During, Operation};
use crate::pool::{query, scalar};

/// Number of pages of the index of words that one transaction merges: a few milliseconds.
const MERGED_PAGES: i64 = 128;

impl Store {
    /// Removes deleted text from the files of SQLite; `false` if the next call has to continue.
    #[boxed]
    pub async fn purge_deleted(&self, settings: &PurgeSettings) -> Result<bool, StoreError> {
        if self.pool.is_postgres() {
            return Ok(true);
        }
        let are_words_merged = self.merge_words(settings).await?;
        let is_truncated = self.pool.truncate_log().await?;
        Ok(are_words_merged && is_truncated)
    }

    /// Merges the segments of the index of words until there are no marks of deleted rows; merging drops the words of deleted rows.
    async fn merge_words(&self, settings: &PurgeSettings) -> Result<bool, StoreError> {
        // Tombstone pages have the highest ids (FTS5, `FTS5_TOMBSTONE_ROWID`): the number of the segment plus 65536, shifted by 37 bits.
        const MARKED: &str = "SELECT EXISTS (SELECT 1 FROM words_data WHERE id >= 9007199254740992)";
        // A negative number merges all segments, over several calls.
        const MERGE: &str = "INSERT INTO words (words, rank) VALUES ('merge', $1)";
        for _ in 0..settings.batches_max {
            let is_marked: bool = scalar(MARKED).fetch_one(&self.pool).during(Operation::MergeWords).await?;
            if !is_marked {
                return Ok(true);
            }
            query(MERGE).bind(-MERGED_PAGES).execute(self.pool.writer()).during(Operation::MergeWords).await?;
        }
        Ok(false)
    }
}
