//! The parts of the log, as the main database remembers them (`docs/decisions/0047-log-parts.md`).
//!
//! The first part is in the tables `installation` and `usage_cursor`, which servers without parts read too; further parts are rows of
//! `log_parts`.

use domain::Timestamp;
use domain::log_part::LogPart;

use crate::error::{Corrupt, StoreError};
use crate::installation::RememberedLog;
use crate::operation::{During, Operation};
use crate::pool::query;
use crate::{Store, in_transaction};

/// A further part of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartRecord {
    /// Its number.
    pub part: LogPart,
    /// The origin that its first checkpoint had.
    pub origin: String,
    /// Its newest checkpoint that the main database has seen.
    pub log: Option<RememberedLog>,
    /// Number of counted leaves.
    pub counted: u64,
    /// When it was opened.
    pub opened_at: Timestamp,
}

crate::row! {
    struct PartRow {
        log_part: i64,
        origin: String,
        log_vkey: Option<String>,
        log_checkpoint: Option<String>,
        log_size: Option<i64>,
        counted: i64,
        opened_at: Timestamp,
    }
}

impl TryFrom<PartRow> for PartRecord {
    type Error = Corrupt;

    fn try_from(row: PartRow) -> Result<Self, Corrupt> {
        Ok(Self {
            part: part("log_parts.log_part", row.log_part)?,
            origin: row.origin,
            log: RememberedLog::of_columns(row.log_vkey, row.log_checkpoint, row.log_size)?,
            counted: crate::usage::number("log_parts.counted", row.counted)?,
            opened_at: row.opened_at,
        })
    }
}

/// A part by the value of a column.
pub(crate) fn part(column: &'static str, value: i64) -> Result<LogPart, Corrupt> {
    u16::try_from(value).map(LogPart::new).map_err(|error| Corrupt::new(column, error))
}

/// The value of a column.
pub(crate) fn stored(part: LogPart) -> i64 {
    part.number().into()
}

impl Store {
    /// The further parts that were opened, by number.
    #[boxed]
    pub async fn log_parts(&self) -> Result<Vec<PartRecord>, StoreError> {
        const SQL: &str = "SELECT log_part, origin, log_vkey, log_checkpoint, log_size, counted, opened_at
            FROM log_parts ORDER BY log_part";
        let rows: Vec<PartRow> = query(SQL).fetch_all(&self.pool).during(Operation::ListLogParts).await?;
        Ok(rows.into_iter().map(PartRecord::try_from).collect::<Result<_, _>>()?)
    }

    /// Opens a further part, unless it is open. From the first one on, servers without parts may not use the tables any more: they would
    /// write events of its computers into the first part.
    #[boxed]
    pub async fn log_part_open(&self, part: LogPart, origin: &str, now: Timestamp) -> Result<(), StoreError> {
        const SQL: &str = "INSERT INTO log_parts (log_part, origin, opened_at) VALUES ($1, $2, $3)
            ON CONFLICT (log_part) DO NOTHING";
        const WITHOUT_OLDER: &str = "UPDATE _sqlx_migrations SET description = 'log parts'
            WHERE description LIKE 'log parts for servers from %'";
        in_transaction!(&self.pool, |tx| {
            query(WITHOUT_OLDER).execute(&mut *tx).await?;
            query(SQL).bind(stored(part)).bind(origin).bind(now).execute(&mut *tx).await.map(drop)
        })
        .during(Operation::OpenLogPart)
        .await
    }

    /// The newest checkpoint of a part that the main database has seen.
    #[boxed]
    pub async fn log_remembered(&self, part: LogPart) -> Result<Option<RememberedLog>, StoreError> {
        if part.is_first() {
            return Ok(self.installation().await?.and_then(|installation| installation.log));
        }
        Ok(self.log_parts().await?.into_iter().find(|record| record.part == part).and_then(|record| record.log))
    }

    /// Stores a checkpoint if it is the first of its part, or larger than the stored one and signed with the same key. Returns whether it
    /// was stored.
    #[boxed]
    pub async fn log_remember(&self, part: LogPart, log: &RememberedLog, now: Timestamp) -> Result<bool, StoreError> {
        const FIRST: &str =
            "UPDATE installation SET log_vkey = $2, log_checkpoint = $3, log_size = $4, remembered_at = $5
            WHERE id = $1 AND (log_vkey IS NULL OR (log_vkey = $2 AND log_size < $4))";
        const FURTHER: &str =
            "UPDATE log_parts SET log_vkey = $2, log_checkpoint = $3, log_size = $4, remembered_at = $5
            WHERE log_part = $1 AND (log_vkey IS NULL OR (log_vkey = $2 AND log_size < $4))";
        let (sql, row) = if part.is_first() { (FIRST, 1) } else { (FURTHER, stored(part)) };
        let rows_affected = query(sql)
            .bind(row)
            .bind(&log.vkey)
            .bind(&log.checkpoint)
            .bind(crate::outbox::number(log.size))
            .bind(now)
            .execute(self.pool.writer())
            .during(Operation::RememberCheckpointOfLog)
            .await?;
        Ok(rows_affected == 1)
    }

    /// Stores the first checkpoint of another epoch. Usage is counted, and rules read, from its end on if it has fewer leaves than before.
    #[boxed]
    pub async fn log_begin_epoch(&self, part: LogPart, log: &RememberedLog, now: Timestamp) -> Result<(), StoreError> {
        const SET: [&str; 2] = [
            "UPDATE installation SET log_vkey = $2, log_checkpoint = $3, log_size = $4, remembered_at = $5 WHERE id = $1",
            "UPDATE log_parts SET log_vkey = $2, log_checkpoint = $3, log_size = $4, remembered_at = $5 WHERE log_part = $1",
        ];
        const COUNT: [&str; 2] = [
            "UPDATE usage_cursor SET counted = $2 WHERE id = $1 AND counted > $2",
            "UPDATE log_parts SET counted = $2 WHERE log_part = $1 AND counted > $2",
        ];
        // First, because the reader of rules locks its cursor before the row of a part.
        const READ: &str = "UPDATE rule_cursor SET turn = turn + 1, place = CASE WHEN $1 = 0 AND place > $2 THEN $2 ELSE place END WHERE id = 1";
        const READ_FURTHER: &str = "UPDATE log_parts SET rule_place = $2 WHERE log_part = $1 AND rule_place > $2";
        let (which, row) = if part.is_first() { (0, 1) } else { (1, stored(part)) };
        let size = crate::outbox::number(log.size);
        in_transaction!(&self.pool, |tx| {
            query(READ).bind(stored(part)).bind(size).execute(&mut *tx).await?;
            query(READ_FURTHER).bind(stored(part)).bind(size).execute(&mut *tx).await?;
            let set = query(SET[which]).bind(row).bind(&log.vkey).bind(&log.checkpoint).bind(size).bind(now);
            set.execute(&mut *tx).await?;
            query(COUNT[which]).bind(row).bind(size).execute(&mut *tx).await?;
            self.record_act(tx, now).await
        })
        .during(Operation::RememberNewLog)
        .await
    }
}
