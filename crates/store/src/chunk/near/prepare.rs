//! Creates the table of the extension, and copies the existing vectors.
//!
//! A transaction that changes vectors, and the copy too, locks the row of the account index first: vectors do not change during a copy.

use crate::error::StoreError;
use crate::operation::{During, Operation};
use crate::pool::{Tx, query, scalar, script};
use crate::row::limit;
use crate::{Pool, Store, in_transaction};

/// Whether the database can compare vectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NearVectorsState {
    /// It cannot, for this reason.
    Absent(String),
    /// It can after [`Store::near_fill`] has copied all vectors.
    Filling,
    /// All vectors are copied; the database compares them.
    Whole,
}

/// Advisory lock: processes that start at the same time create the table one after the other.
const LOCK: i64 = 0x6e65_6172_7631;

/// Disables the lock timeout of transactions: another process may work on the table for longer.
const WAITS_FOR_LOCKS: &str = "SET LOCAL lock_timeout TO 0";

impl Store {
    /// Prepares the database for vector search, if possible: creates its table, and the extension if it is available and may be created.
    #[boxed]
    pub async fn near_prepare(&self) -> Result<NearVectorsState, StoreError> {
        match self.memory()? {
            Pool::Sqlite { .. } => Ok(NearVectorsState::Absent("the database is not PostgreSQL".into())),
            pool @ Pool::Postgres(_) => prepare(pool).during(Operation::MakeTableOfNearVectors).await,
        }
    }

    /// Copies up to `chunks_max` existing vectors; `true` if all were copied. Processes may call it concurrently.
    #[boxed]
    pub async fn near_fill(&self, chunks_max: usize) -> Result<bool, StoreError> {
        // Concurrent processes wait here for each other.
        const PLACE: &str = "SELECT chunk_id, whole FROM vectors_near_filled WHERE id = 1 FOR UPDATE";
        const PAGE: &str = "SELECT MAX(chunk_id) FROM
            (SELECT chunk_id FROM vectors WHERE chunk_id > $1 ORDER BY chunk_id LIMIT $2) page";
        const HOLD: &str = "SELECT number FROM account_indexes WHERE number IN (SELECT m.account_index FROM chunks c
            JOIN memories m ON m.id = c.memory_id WHERE c.id > $1 AND c.id <= $2) ORDER BY number FOR UPDATE";
        const COPY: &str = "INSERT INTO vectors_near (chunk_id, memory_id, account_index, model, vector)
            SELECT v.chunk_id, c.memory_id, m.account_index, v.model, vectors_near_unpacked(v.vector)
            FROM vectors v JOIN chunks c ON c.id = v.chunk_id JOIN memories m ON m.id = c.memory_id
            WHERE v.chunk_id > $1 AND v.chunk_id <= $2 AND vectors_near_fits(v.model, v.dimensions, v.vector)
            ON CONFLICT (chunk_id) DO NOTHING";
        const MOVE: &str = "UPDATE vectors_near_filled SET chunk_id = $1, whole = $2 WHERE id = 1";
        if !self.memory()?.is_postgres() {
            return Ok(true);
        }
        let page = in_transaction!(self.memory_pool()?, |tx| {
            script(WAITS_FOR_LOCKS).execute(&mut *tx).await?;
            let (after, whole): (i64, bool) = query(PLACE).fetch_one(&mut *tx).await?;
            if whole {
                return Ok(true);
            }
            let page = scalar(PAGE).bind(after).bind(limit(chunks_max));
            let last: Option<i64> = page.fetch_one(&mut *tx).await?;
            if let Some(last) = last {
                query(HOLD).bind(after).bind(last).execute(&mut *tx).await?;
                query(COPY).bind(after).bind(last).execute(&mut *tx).await?;
            }
            query(MOVE).bind(last.unwrap_or(after)).bind(last.is_none()).execute(&mut *tx).await?;
            Ok(last.is_none())
        });
        page.during(Operation::CopyVectorsForDatabaseToCompare).await
    }
}

async fn prepare(pool: &Pool) -> Result<NearVectorsState, sqlx::Error> {
    const INSTALLED: &str = "SELECT EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'vector')";
    const AVAILABLE: &str = "SELECT EXISTS (SELECT 1 FROM pg_available_extensions WHERE name = 'vector')";
    const FIT: &str = "SELECT to_regtype('vector') IS NOT NULL AND EXISTS (SELECT 1 FROM pg_am WHERE amname = 'hnsw')";
    let absent = |reason: String| Ok(NearVectorsState::Absent(reason));
    in_transaction!(pool, |tx| {
        script(WAITS_FOR_LOCKS).execute(&mut *tx).await?;
        query("SELECT pg_advisory_xact_lock($1)").bind(LOCK).execute(&mut *tx).await?;
        if !holds(tx, INSTALLED).await? {
            if !holds(tx, AVAILABLE).await? {
                return absent("the extension pgvector is not installed on the server".into());
            }
            match query("CREATE EXTENSION vector").execute(&mut *tx).await {
                Ok(_) => {}
                Err(sqlx::Error::Database(error)) => {
                    return absent(format!("the extension pgvector may not be created: {error}"));
                }
                Err(error) => return Err(error),
            }
        }
        if !holds(tx, FIT).await? {
            return absent("the extension pgvector is older than 0.5, or not in the search path".into());
        }
        if !holds(tx, "SELECT to_regclass('vectors_near') IS NOT NULL").await? {
            script(TABLE).execute(&mut *tx).await?;
        }
        let whole = holds(tx, "SELECT whole FROM vectors_near_filled").await?;
        Ok(if whole { NearVectorsState::Whole } else { NearVectorsState::Filling })
    })
    .await
}

/// Whether a condition holds.
async fn holds(tx: &mut Tx<'_>, sql: &'static str) -> Result<bool, sqlx::Error> {
    scalar(sql).fetch_one(tx).await
}

/// Vectors at rest are 16-bit floats ([`crate::chunk::vector`]), a type that older versions of the extension lack.
const TABLE: &str = "
    CREATE TABLE vectors_near (
        chunk_id BIGINT NOT NULL PRIMARY KEY REFERENCES vectors (chunk_id) ON DELETE CASCADE,
        memory_id UUID NOT NULL,
        account_index BIGINT NOT NULL,
        model TEXT NOT NULL,
        vector vector NOT NULL
    );
    CREATE INDEX vectors_near_by_account_index ON vectors_near (account_index, memory_id);

    -- How far the vectors that were there before are copied.
    CREATE TABLE vectors_near_filled (
        id BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
        chunk_id BIGINT NOT NULL,
        whole BOOLEAN NOT NULL
    );
    INSERT INTO vectors_near_filled VALUES (1, 0, FALSE);

    -- Whether there is a vector, of the length that its model says, and of which the extension can keep an index.
    CREATE OR REPLACE FUNCTION vectors_near_fits(model TEXT, dimensions BIGINT, bytes BYTEA) RETURNS BOOLEAN
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
        SELECT dimensions BETWEEN 1 AND 2000 AND length(bytes) = 2 * dimensions AND model LIKE '%/' || dimensions
    $$;

    CREATE OR REPLACE FUNCTION vectors_near_unpacked(bytes BYTEA) RETURNS vector
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
    DECLARE
        numbers FLOAT8[];
        half INTEGER;
        size FLOAT8;
    BEGIN
        FOR i IN 0 .. length(bytes) / 2 - 1 LOOP
            half := get_byte(bytes, 2 * i) | (get_byte(bytes, 2 * i + 1) << 8);
            size := CASE WHEN half & 31744 = 0 THEN (half & 1023) * 2.0::FLOAT8 ^ (-24)
                ELSE ((half & 1023) + 1024) * 2.0::FLOAT8 ^ (((half >> 10) & 31) - 25) END;
            numbers[i + 1] := CASE WHEN half > 32767 THEN -size ELSE size END;
        END LOOP;
        RETURN CAST(numbers AS vector);
    END $$;

    CREATE OR REPLACE FUNCTION vectors_near_follow() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO vectors_near (chunk_id, memory_id, account_index, model, vector)
            SELECT given.chunk_id, c.memory_id, m.account_index, given.model, vectors_near_unpacked(given.vector)
            FROM given JOIN chunks c ON c.id = given.chunk_id JOIN memories m ON m.id = c.memory_id
            WHERE vectors_near_fits(given.model, given.dimensions, given.vector)
            ON CONFLICT (chunk_id) DO UPDATE SET model = excluded.model, vector = excluded.vector;
        RETURN NULL;
    END $$;
    -- Making a trigger waits for everybody who is writing; who comes later writes for it too.
    CREATE TRIGGER vectors_near_added AFTER INSERT ON vectors
        REFERENCING NEW TABLE AS given FOR EACH STATEMENT EXECUTE FUNCTION vectors_near_follow();
    CREATE TRIGGER vectors_near_changed AFTER UPDATE ON vectors
        REFERENCING NEW TABLE AS given FOR EACH STATEMENT EXECUTE FUNCTION vectors_near_follow();
";
