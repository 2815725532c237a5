//! Usage by day, and how far it has been counted (`docs/decisions/0027-usage-metering.md`).

use domain::ids::UserCuid;
use domain::recorder::Recorder;
use domain::usage::{Day, Used, Window};
use sqlx::QueryBuilder;

use crate::error::{Corrupt, During, StoreError};
use crate::row::chunks;
use crate::{Store, in_transaction, on_reader};

/// What one computer used on one day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageDay {
    /// Whose events.
    pub recorder: Recorder,
    /// When they were received.
    pub day: Day,
    /// What they come to.
    pub used: Used,
}

/// The key of usage that was counted for an identity before its computers were distinguished.
pub fn untold(identity: UserCuid) -> Recorder {
    Recorder { machine: uuid::Uuid::nil().into(), identity }
}

/// What is counted, and how far: read at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// In the window that was asked for.
    pub used: Used,
    /// How many leaves of the embedded log are in it.
    pub leaves: u64,
}

impl Store {
    /// How many leaves of the embedded log are counted.
    pub async fn usage_counted(&self) -> Result<u64, StoreError> {
        const SQL: &str = "SELECT counted FROM usage_cursor WHERE id = 1";
        let counted: i64 = on_reader!(&self.pool, |db| sqlx::query_scalar(SQL).fetch_one(db))
            .during("read how far usage is counted")?;
        Ok(number("usage_cursor.counted", counted)?)
    }

    /// Counts what the leaves from `counted` up to `until` come to; `false`, and nothing is counted, when another process has counted
    /// on from `counted` meanwhile.
    pub async fn usage_count(&self, counted: u64, until: u64, days: &[UsageDay]) -> Result<bool, StoreError> {
        const MOVE: &str = "UPDATE usage_cursor SET counted = $2 WHERE id = 1 AND counted = $1";
        let days = ordered(days);
        in_transaction!(
            &self.pool,
            |tx: Db| {
                let moved = sqlx::query(MOVE).bind(stored(counted)).bind(stored(until)).execute(&mut *tx).await?;
                if moved.rows_affected() == 0 {
                    return Ok(false);
                }
                usage_add!(tx, Db, &days);
                Ok(true)
            },
            commit if |moved| *moved
        )
        .during("count usage")
    }

    /// Adds to what was used, without a log that tells how far: every call counts.
    pub async fn usage_add(&self, days: &[UsageDay]) -> Result<(), StoreError> {
        let days = ordered(days);
        in_transaction!(&self.pool, |tx: Db| {
            usage_add!(tx, Db, &days);
            Ok(())
        })
        .during("add usage")
    }

    /// What computers used together in a window, as far as it is counted.
    pub async fn usage_of(&self, computers: &[Recorder], window: Window) -> Result<Counted, StoreError> {
        const SQLITE: &str = usage_sql!(
            "json_each($1) r CROSS JOIN usage_days u
                ON u.user_cuid = r.value ->> 'identity' AND u.machine_uuid = unhex(r.value ->> 'machine', '-')"
        );
        const POSTGRES: &str = usage_sql!(
            "jsonb_to_recordset($1::JSONB) AS r (machine UUID, identity TEXT)
                JOIN usage_days u ON u.user_cuid = r.identity AND u.machine_uuid = r.machine"
        );
        let computers = serde_json::to_string(computers).unwrap_or_default();
        let sql = if self.pool.is_postgres() { POSTGRES } else { SQLITE };
        let (memory, retrospectives, counted): (i64, i64, i64) = on_reader!(&self.pool, |db| {
            let sum = sqlx::query_as(sql).bind(&computers).bind(window.first.number()).bind(window.end.number());
            sum.fetch_one(db)
        })
        .during("sum usage")?;
        Ok(Counted {
            used: Used {
                memory: number("usage_days.memory", memory)?,
                retrospectives: number("usage_days.retrospectives", retrospectives)?,
            },
            leaves: number("usage_cursor.counted", counted)?,
        })
    }
}

/// Sums and cursor in one statement, so that they are of one moment.
macro_rules! usage_sql {
    ($days:literal) => {
        concat!(
            "SELECT CAST(COALESCE(SUM(memory), 0) AS BIGINT), CAST(COALESCE(SUM(retrospectives), 0) AS BIGINT),
                (SELECT counted FROM usage_cursor WHERE id = 1)
            FROM ",
            $days,
            " AND day >= $2 AND day < $3"
        )
    };
}
use usage_sql;

/// Adds days within a transaction.
macro_rules! usage_add {
    ($tx:ident, $Db:ident, $days:expr) => {
        for chunk in chunks($days) {
            let mut sql = QueryBuilder::<$Db>::new("INSERT INTO usage_days (user_cuid, machine_uuid, day, memory, retrospectives) ");
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
            sql.build().execute(&mut *$tx).await?;
        }
    };
}
use usage_add;

/// In one order everywhere: PostgreSQL locks rows in the order in which they come, and two nodes must not wait for each other. Each key
/// once, as `ON CONFLICT` wants it.
fn ordered(days: &[UsageDay]) -> Vec<UsageDay> {
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

fn number(column: &'static str, value: i64) -> Result<u64, Corrupt> {
    u64::try_from(value).map_err(|error| Corrupt::new(column, error))
}
