//! Moves the memory of the main database into a separate database, while no server runs.

use std::path::Path;

use domain::Timestamp;
use sqlx::AssertSqlSafe;

use super::database::{MARK_MAIN, MemoryOpenError, MemoryRefusal};
use crate::Store;
use crate::operation::{During, Operation};
use crate::pool::{DatabaseSettings, Pool, PostgresConnection, PostgresPool, Tx, copy_rows, query, scalar, script};

/// The tables of the memory, in the order of their references.
const TABLES: [&str; 10] = [
    "account_indexes",
    "memories",
    "memories_deleted",
    "memory_tags",
    "memory_spaces",
    "space_indexes",
    "chunks",
    "space_chunks",
    "vectors",
    "words",
];

/// The tables with numbers that must not be used twice.
const NUMBERED: [(&str, &str); 2] = [("account_indexes", "number"), ("chunks", "id")];

/// Begins a transaction without time limits.
const BEGIN: &str = "SET idle_in_transaction_session_timeout TO 0; BEGIN";

impl Store {
    /// Moves all memories into the empty database of `settings`, and returns the number of moved rows of each table. Both databases are
    /// changed in one transaction each. After a crash between the two commits the main database still has the memories, and the other one
    /// has a copy: it is refused, and has to be created again.
    #[boxed]
    pub async fn memory_relocate(
        &self,
        settings: &DatabaseSettings,
        now: Timestamp,
    ) -> Result<Vec<(&'static str, u64)>, MemoryOpenError> {
        if self.is_memory_elsewhere().await? {
            return Err(MemoryRefusal::Moved.into());
        }
        let pool = Pool::open(settings, Path::new(""), None).await?;
        let moved = self.relocate(&pool, now).await;
        pool.close().await;
        moved
    }

    async fn relocate(&self, pool: &Pool, now: Timestamp) -> Result<Vec<(&'static str, u64)>, MemoryOpenError> {
        const DO: Operation = Operation::MoveMemories;
        self.is_new_memory(pool).await?;
        self.memory_prepare(pool).await?;
        // Only PostgreSQL has a database of the memory: the configuration demands it.
        let (Pool::Postgres(from), Pool::Postgres(to)) = (&self.pool, pool) else {
            return Err(MemoryRefusal::MainDatabase.into());
        };
        let (mut from, mut to) = transactions(from, to).during(DO).await?;
        let is_used = scalar("SELECT EXISTS (SELECT 1 FROM account_indexes)").fetch_one(&mut to);
        if is_used.during(DO).await? {
            return Err(MemoryRefusal::NotEmpty.into());
        }
        let references = loosen_references(&mut to).during(DO).await?;
        let mut moved = Vec::new();
        for table in TABLES {
            let rows = copy_rows(&mut from, &mut to, table).during(DO).await?;
            moved.push((table, rows));
        }
        for reference in references {
            script(AssertSqlSafe(reference)).execute(&mut to).during(DO).await?;
        }
        for (table, column) in NUMBERED {
            continue_numbers(&mut from, &mut to, table, column).during(DO).await?;
        }
        script("COMMIT").execute(&mut to).during(DO).await?;
        let clear = format!("TRUNCATE {} CASCADE; {MARK_MAIN}", TABLES.join(", "));
        script(AssertSqlSafe(clear)).execute(&mut from).during(DO).await?;
        self.record_act(&mut Tx::Postgres(&mut from), now).during(DO).await?;
        script("COMMIT").execute(&mut from).during(DO).await?;
        from.close().await;
        // Autovacuum does the same, later.
        if let Err(error) = script("ANALYZE").execute(&mut to).during(DO).await {
            tracing::warn!(error = domain::reasons(&error), "the moved tables are not analyzed yet");
        }
        to.close().await;
        Ok(moved)
    }
}

/// A transaction on each database. Changes of memories wait for the end of the first.
async fn transactions(
    from: &PostgresPool,
    to: &PostgresPool,
) -> Result<(PostgresConnection, PostgresConnection), sqlx::Error> {
    let (mut from, mut to) = (from.acquire_apart().await?, to.acquire_apart().await?);
    script(BEGIN).execute(&mut from).await?;
    script("LOCK TABLE account_indexes IN ACCESS EXCLUSIVE MODE").execute(&mut from).await?;
    script(BEGIN).execute(&mut to).await?;
    Ok((from, to))
}

/// Drops the references between the tables of the memory, and returns the statements that add them again. PostgreSQL would keep a check in
/// memory for each copied row.
async fn loosen_references(to: &mut PostgresConnection) -> Result<Vec<String>, sqlx::Error> {
    const SQL: &str = "SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname),
            format('ALTER TABLE %s ADD CONSTRAINT %I %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
        FROM pg_constraint WHERE contype = 'f' AND conrelid = ANY(CAST($1 AS REGCLASS[]))";
    let tables = format!("{{{}}}", TABLES.join(","));
    let found: Vec<(String, String)> = query(SQL).bind(tables).fetch_all(&mut *to).await?;
    let mut again = Vec::new();
    for (drop, add) in found {
        script(AssertSqlSafe(drop)).execute(&mut *to).await?;
        again.push(add);
    }
    Ok(again)
}

/// Lets the numbers of a table continue after the greatest one that was used.
async fn continue_numbers(
    from: &mut PostgresConnection,
    to: &mut PostgresConnection,
    table: &str,
    column: &str,
) -> Result<(), sqlx::Error> {
    let sequence = format!("pg_get_serial_sequence('{table}', '{column}')");
    let next: i64 = scalar(AssertSqlSafe(format!("SELECT nextval({sequence})"))).fetch_one(from).await?;
    let set = scalar(AssertSqlSafe(format!("SELECT setval({sequence}, $1)"))).bind(next);
    set.fetch_one::<i64>(to).await.map(drop)
}
