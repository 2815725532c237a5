//! Usage of days before the window of every plan: the days of a computer are summed into one row, so that a table with one row per
//! computer and day does not grow with time.

use domain::recorder::Recorder;
use domain::usage::{Day, QuotaUsed};
use uuid::Uuid;

use super::PurgeSettings;
use crate::error::{Corrupt, StoreError};
use crate::operation::{During, Operation};
use crate::pool::query;
use crate::row::parsed;
use crate::usage::{EARLIER, UsageDay, add_days, number, ordered};
use crate::{Store, in_transaction};

crate::row! {
    /// The usage of a computer on a deleted day.
    struct FoldedRow {
        user_cuid: String,
        machine_uuid: Uuid,
        memory: i64,
        retrospectives: i64,
    }
}

impl Store {
    /// Sums the days before `before` into the row [`EARLIER`] of their computer; returns the number of days.
    pub(super) async fn fold_usage(&self, before: Day, settings: &PurgeSettings) -> Result<u64, StoreError> {
        let batch_rows = settings.batch_rows.max(1);
        let mut folded = 0;
        for _ in 0..settings.batches_max {
            let rows = self.fold_some(before, i64::from(batch_rows)).await?;
            folded += rows;
            if rows < u64::from(batch_rows) {
                break;
            }
        }
        Ok(folded)
    }

    async fn fold_some(&self, before: Day, rows_max: i64) -> Result<u64, StoreError> {
        // The janitor that deletes a row adds its usage; a concurrent janitor does not find the row.
        const TAKE: &str = "DELETE FROM usage_days WHERE (user_cuid, machine_uuid, day) IN
                (SELECT user_cuid, machine_uuid, day FROM usage_days WHERE day >= 0 AND day < $1 ORDER BY day LIMIT $2)
            RETURNING user_cuid, machine_uuid, memory, retrospectives";
        in_transaction!(&self.pool, |tx| {
            let taken: Vec<FoldedRow> = query(TAKE).bind(before.number()).bind(rows_max).fetch_all(&mut *tx).await?;
            let days: Result<Vec<UsageDay>, Corrupt> = taken.into_iter().map(UsageDay::try_from).collect();
            let days = days.map_err(|corrupt| sqlx::Error::Decode(corrupt.into()))?;
            add_days(tx, &ordered(&days)).await?;
            Ok(days.len() as u64)
        })
        .during(Operation::FoldUsage)
        .await
    }
}

impl TryFrom<FoldedRow> for UsageDay {
    type Error = Corrupt;

    fn try_from(row: FoldedRow) -> Result<Self, Corrupt> {
        Ok(Self {
            recorder: Recorder {
                machine: row.machine_uuid.into(),
                identity: parsed("usage_days.user_cuid", &row.user_cuid)?,
            },
            day: EARLIER,
            used: QuotaUsed {
                memory: number("usage_days.memory", row.memory)?,
                retrospectives: number("usage_days.retrospectives", row.retrospectives)?,
            },
        })
    }
}
