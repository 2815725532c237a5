//! Usage by day, and the number of counted leaves (`docs/decisions/0008-usage-and-quotas.md`).

use std::collections::BTreeMap;

use domain::log_part::LogPart;
use domain::recorder::Recorder;
use domain::usage::{Day, QuotaUsed, UsageWindow};
use uuid::Uuid;

use crate::error::{Corrupt, StoreError};
use crate::operation::{During, Operation};
use crate::pool::{QueryBuilder, Tx, query, scalar};
use crate::row::{chunks, limit, parsed};
use crate::{Store, in_transaction, log_part};

/// The day of the row that sums up old days: before all other days, and outside every window.
pub const EARLIER: Day = Day::BEFORE_ALL;

/// Usage of one computer on one day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageDay {
    /// Computer and identity of the counted events.
    pub recorder: Recorder,
    /// Day on which they were received.
    pub day: Day,
    /// Their usage.
    pub used: QuotaUsed,
}

/// Counted usage with the number of counted leaves, read in one statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedUsage {
    /// Usage in the requested window.
    pub used: QuotaUsed,
    /// Numbers of counted leaves of the first part and of further parts of the embedded log.
    leaves: BTreeMap<LogPart, u64>,
}

impl CountedUsage {
    /// Number of counted leaves of a part.
    pub fn leaves(&self, part: LogPart) -> u64 {
        self.leaves.get(&part).copied().unwrap_or_default()
    }
}

impl Store {
    /// Number of counted leaves of a part of the embedded log; 0 before the part is open.
    #[boxed]
    pub async fn usage_counted(&self, part: LogPart) -> Result<u64, StoreError> {
        const FIRST: &str = "SELECT counted FROM usage_cursor WHERE id = $1";
        const FURTHER: &str = "SELECT counted FROM log_parts WHERE log_part = $1";
        let (sql, row) = if part.is_first() { (FIRST, 1) } else { (FURTHER, log_part::stored(part)) };
        let counted = scalar(sql).bind(row).fetch_optional(&self.pool);
        let counted: Option<i64> = counted.during(Operation::ReadHowFarUsageIsCounted).await?;
        Ok(number("usage_cursor.counted", counted.unwrap_or(0))?)
    }

    /// Adds the usage of the leaves of a part from `counted` up to `until`; `false`, without counting, if another process has counted
    /// further.
    #[boxed]
    pub async fn usage_count(
        &self,
        part: LogPart,
        counted: u64,
        until: u64,
        days: &[UsageDay],
    ) -> Result<bool, StoreError> {
        const FIRST: &str = "UPDATE usage_cursor SET counted = $3 WHERE id = $1 AND counted = $2";
        const FURTHER: &str = "UPDATE log_parts SET counted = $3 WHERE log_part = $1 AND counted = $2";
        let (sql, row) = if part.is_first() { (FIRST, 1) } else { (FURTHER, log_part::stored(part)) };
        let days = ordered(days);
        in_transaction!(
            &self.pool,
            |tx| {
                let moved = query(sql).bind(row).bind(stored(counted)).bind(stored(until));
                let moved = moved.execute(&mut *tx).await?;
                if moved == 0 {
                    return Ok(false);
                }
                add_days(tx, &days).await?;
                Ok(true)
            },
            commit if |moved| *moved
        )
        .during(Operation::CountUsage)
        .await
    }

    /// Adds usage without a position in a log: repeated calls count again.
    #[boxed]
    pub async fn usage_add(&self, days: &[UsageDay]) -> Result<(), StoreError> {
        let days = ordered(days);
        in_transaction!(&self.pool, |tx| add_days(tx, &days).await).during(Operation::AddUsage).await
    }

    /// Counted usage of several computers together in a window.
    #[boxed]
    pub async fn usage_of(&self, computers: &[Recorder], window: UsageWindow) -> Result<CountedUsage, StoreError> {
        // Sums and cursor in one statement, so that they are from one snapshot.
        const SQLITE: &str =
            "SELECT CAST(COALESCE(SUM(memory), 0) AS BIGINT), CAST(COALESCE(SUM(retrospectives), 0) AS BIGINT),
                (SELECT counted FROM usage_cursor WHERE id = 1),
                (SELECT json_group_object(log_part, counted) FROM log_parts)
            FROM json_each($1) r CROSS JOIN usage_days u
                ON u.user_cuid = r.value ->> 'identity' AND u.machine_uuid = unhex(r.value ->> 'machine', '-')
                AND day >= $2 AND day < $3";
        const POSTGRES: &str =
            "SELECT CAST(COALESCE(SUM(memory), 0) AS BIGINT), CAST(COALESCE(SUM(retrospectives), 0) AS BIGINT),
                (SELECT counted FROM usage_cursor WHERE id = 1),
                (SELECT CAST(COALESCE(jsonb_object_agg(log_part, counted), '{}') AS TEXT) FROM log_parts)
            FROM jsonb_to_recordset($1::JSONB) AS r (machine UUID, identity TEXT)
                JOIN usage_days u ON u.user_cuid = r.identity AND u.machine_uuid = r.machine
                AND day >= $2 AND day < $3";
        let computers = serde_json::to_string(computers).unwrap_or_default();
        let sql = if self.pool.is_postgres() { POSTGRES } else { SQLITE };
        let (memory, retrospectives, counted, further): (i64, i64, i64, String) = query(sql)
            .bind(&computers)
            .bind(window.first.number())
            .bind(window.end.number())
            .fetch_one(&self.pool)
            .during(Operation::SumUsage)
            .await?;
        let further: BTreeMap<LogPart, u64> =
            serde_json::from_str(&further).map_err(|error| Corrupt::new("log_parts.counted", error))?;
        let first = (LogPart::FIRST, number("usage_cursor.counted", counted)?);
        Ok(CountedUsage {
            used: QuotaUsed {
                memory: number("usage_days.memory", memory)?,
                retrospectives: number("usage_days.retrospectives", retrospectives)?,
            },
            leaves: further.into_iter().chain([first]).collect(),
        })
    }

    /// Counted usage of several computers on each day of a window, newest first, at most `rows_max` rows; days without usage are absent.
    #[boxed]
    pub async fn usage_history(
        &self,
        computers: &[Recorder],
        window: UsageWindow,
        rows_max: usize,
    ) -> Result<Vec<UsageDay>, StoreError> {
        const SQLITE: &str = "SELECT u.user_cuid, u.machine_uuid, u.day, u.memory, u.retrospectives
            FROM json_each($1) r CROSS JOIN usage_days u
                ON u.user_cuid = r.value ->> 'identity' AND u.machine_uuid = unhex(r.value ->> 'machine', '-')
                AND u.day >= $2 AND u.day < $3
            ORDER BY u.day DESC, u.user_cuid, u.machine_uuid LIMIT $4";
        const POSTGRES: &str = "SELECT u.user_cuid, u.machine_uuid, u.day, u.memory, u.retrospectives
            FROM jsonb_to_recordset($1::JSONB) AS r (machine UUID, identity TEXT)
                JOIN usage_days u ON u.user_cuid = r.identity AND u.machine_uuid = r.machine
                AND u.day >= $2 AND u.day < $3
            ORDER BY u.day DESC, u.user_cuid, u.machine_uuid LIMIT $4";
        let computers = serde_json::to_string(computers).unwrap_or_default();
        let rows: Vec<DayRow> = query(if self.pool.is_postgres() { POSTGRES } else { SQLITE })
            .bind(&computers)
            .bind(window.first.number())
            .bind(window.end.number())
            .bind(limit(rows_max))
            .fetch_all(&self.pool)
            .during(Operation::ReadUsageByDay)
            .await?;
        Ok(rows.into_iter().map(UsageDay::try_from).collect::<Result<_, _>>()?)
    }
}

crate::row! {
    /// Usage of a computer on a day, as a row of a history.
    struct DayRow {
        user_cuid: String,
        machine_uuid: Uuid,
        day: i64,
        memory: i64,
        retrospectives: i64,
    }
}

impl TryFrom<DayRow> for UsageDay {
    type Error = Corrupt;

    fn try_from(row: DayRow) -> Result<Self, Corrupt> {
        Ok(Self {
            recorder: Recorder {
                machine: row.machine_uuid.into(),
                identity: parsed("usage_days.user_cuid", &row.user_cuid)?,
            },
            day: Day::from(row.day),
            used: QuotaUsed {
                memory: number("usage_days.memory", row.memory)?,
                retrospectives: number("usage_days.retrospectives", row.retrospectives)?,
            },
        })
    }
}

/// Adds days in the caller's transaction.
pub(crate) async fn add_days(tx: &mut Tx<'_>, days: &[UsageDay]) -> Result<(), sqlx::Error> {
    for chunk in chunks(days) {
        let mut sql =
            QueryBuilder::new("INSERT INTO usage_days (user_cuid, machine_uuid, day, memory, retrospectives) ");
        sql.push_values(chunk, |mut row, day| {
            row.push_bind(day.recorder.identity.as_str())
                .push_bind(day.recorder.machine.as_uuid())
                .push_bind(day.day.number())
                .push_bind(stored(day.used.memory))
                .push_bind(stored(day.used.retrospectives));
        });
        sql.push(
            " ON CONFLICT (user_cuid, machine_uuid, day) DO UPDATE SET memory = usage_days.memory + excluded.memory,
            retrospectives = usage_days.retrospectives + excluded.retrospectives",
        );
        sql.build().execute(&mut *tx).await?;
    }
    Ok(())
}

/// Sorted, because PostgreSQL locks rows in input order and other nodes would deadlock. Without duplicates, for `ON CONFLICT`.
pub(crate) fn ordered(days: &[UsageDay]) -> Vec<UsageDay> {
    let mut ordered = days.to_vec();
    ordered.sort_by(|one, two| (&one.recorder, one.day).cmp(&(&two.recorder, two.day)));
    ordered.dedup_by(|next, kept| {
        let same = next.recorder == kept.recorder && next.day == kept.day;
        if same {
            kept.used += next.used;
        }
        same
    });
    ordered
}

fn stored(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(crate) fn number(column: &'static str, value: i64) -> Result<u64, Corrupt> {
    u64::try_from(value).map_err(|error| Corrupt::new(column, error))
}
