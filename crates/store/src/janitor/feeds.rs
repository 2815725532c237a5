//! Retention of the entries of feeds.

use std::time::Duration;

use domain::Timestamp;

use super::{PurgeSettings, before};
use crate::Store;
use crate::error::StoreError;
use crate::operation::{During, Operation};
use crate::pool::query;

const OLD: &str = "DELETE FROM feed_entries WHERE (account_id, notification_id) IN
    (SELECT account_id, notification_id FROM feed_entries WHERE created_at < $1 LIMIT $2)";

impl Store {
    /// Deletes entries of feeds that are older than `kept`, and the oldest entries of an account with more than `entries_max` of
    /// a kind; returns their number.
    #[boxed]
    pub async fn purge_feeds(
        &self,
        now: Timestamp,
        kept: Duration,
        entries_max: u32,
        settings: &PurgeSettings,
    ) -> Result<u64, StoreError> {
        const FULL: &str = "SELECT account_id, kind FROM feed_entries GROUP BY account_id, kind
            HAVING COUNT(*) > $1 LIMIT $2";
        const SURPLUS: &str = "DELETE FROM feed_entries WHERE account_id = $1 AND notification_id IN
            (SELECT notification_id FROM feed_entries WHERE account_id = $1 AND kind = $4
                ORDER BY created_at DESC, notification_id DESC LIMIT $2 OFFSET $3)";
        let mut purged = self.purge_kind(OLD, before(now, kept), settings).await?;
        let batch_rows = i64::from(settings.batch_rows.max(1));
        let statement = query(FULL).bind(i64::from(entries_max)).bind(batch_rows).fetch_all(&self.pool);
        let full: Vec<(String, String)> = statement.during(Operation::DeleteExpiredRows).await?;
        for (account, kind) in full {
            for _ in 0..settings.batches_max {
                let statement = query(SURPLUS).bind(&account).bind(batch_rows).bind(i64::from(entries_max)).bind(&kind);
                let rows_affected = statement.execute(self.pool.writer()).during(Operation::DeleteExpiredRows).await?;
                purged += rows_affected;
                if rows_affected < batch_rows.unsigned_abs() {
                    break;
                }
            }
        }
        Ok(purged)
    }
}
