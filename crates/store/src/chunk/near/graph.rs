//! HNSW graphs of neighbours, one for each large account index.
//!
//! Each graph has the vectors of one account index and one model. A common graph of all account indexes would find the neighbours of other
//! accounts, and a filter would leave no candidates.

use domain::Digest;
use domain::memory::ModelId;
use sqlx::{AssertSqlSafe, Error};

use super::DIMENSIONS_MAX;
use crate::error::StoreError;
use crate::operation::{During, Operation};
use crate::pool::{PostgresConnection, query, scalar, script};
use crate::row::limit;
use crate::{Pool, Store};

/// Advisory lock: one graph is built at a time. The lock ends with the connection.
const LOCK: i64 = 0x6e65_6172_7632;

impl Store {
    /// An account index with more than `exact_max` chunks that has no graph of `model` yet.
    #[boxed]
    pub async fn graph_missing(&self, model: &ModelId, exact_max: usize) -> Result<Option<i64>, StoreError> {
        const SQL: &str = "SELECT s.number FROM account_indexes s WHERE s.chunks > $1 AND NOT EXISTS (SELECT 1 FROM pg_index i
            WHERE i.indexrelid = to_regclass('vectors_near_' || s.number || $2) AND i.indisvalid) ORDER BY s.number LIMIT 1";
        let Pool::Postgres(pool) = self.memory()? else { return Ok(None) };
        let query = scalar(SQL).bind(limit(exact_max)).bind(suffix(model));
        query.fetch_optional(pool).during(Operation::FindAccountIndexesWithoutGraph).await
    }

    /// Builds the graph of an account index, which may take minutes and blocks no other query. `false` if another process is building one,
    /// or the model has too many dimensions.
    #[boxed]
    pub async fn graph_make(&self, account_index_number: i64, model: &ModelId) -> Result<bool, StoreError> {
        let Pool::Postgres(pool) = self.memory()? else { return Ok(false) };
        if model.dimensions > DIMENSIONS_MAX {
            return Ok(false);
        }
        let made = async {
            // Always closed at the end, which releases the lock and the settings.
            let mut connection = pool.acquire_apart().await?;
            let made = make(&mut connection, account_index_number, model).await?;
            // The server notices a closed connection with a delay.
            query("SELECT pg_advisory_unlock_all()").execute(&mut connection).await?;
            connection.close().await;
            Ok(made)
        };
        made.during(Operation::MakeGraphOfAccountIndex).await
    }
}

async fn make(connection: &mut PostgresConnection, account_index_number: i64, model: &ModelId) -> Result<bool, Error> {
    const TURN: &str = "SELECT pg_try_advisory_lock($1)";
    const OTHERS: &str = "SELECT CAST(c.relname AS TEXT) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
        WHERE i.indrelid = to_regclass('vectors_near') AND starts_with(CAST(c.relname AS TEXT), $1)
            AND (c.relname <> $2 OR NOT i.indisvalid)";
    if !scalar(TURN).bind(LOCK).fetch_one::<bool>(&mut *connection).await? {
        return Ok(false);
    }
    let (name, size) = (graph_name(account_index_number, model), model.dimensions);
    // Graphs of models that are no longer in use, and an interrupted build.
    let others: Vec<String> = scalar(OTHERS)
        .bind(format!("vectors_near_{account_index_number}_"))
        .bind(&name)
        .fetch_all(&mut *connection)
        .await?;
    for other in others {
        let drop = format!("DROP INDEX CONCURRENTLY IF EXISTS {other}");
        script(AssertSqlSafe(drop)).execute(&mut *connection).await?;
    }
    let model = model.to_string().replace('\'', "''");
    let create = format!(
        "CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON vectors_near
        USING hnsw ((CAST(vector AS vector({size}))) vector_cosine_ops)
        WHERE account_index = {account_index_number} AND model = '{model}'"
    );
    script(AssertSqlSafe(create)).execute(&mut *connection).await?;
    Ok(true)
}

/// Name of the index of an account index and a model.
pub(super) fn graph_name(account_index_number: i64, model: &ModelId) -> String {
    format!("vectors_near_{account_index_number}{}", suffix(model))
}

pub(super) fn suffix(model: &ModelId) -> String {
    format!("_{:.16}", Digest::of(model.to_string().as_bytes()).to_string())
}
