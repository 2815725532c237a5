//! Vector search in the database: PostgreSQL with the extension pgvector.
//!
//! The table `vectors_near` contains a copy of the vectors in the extension's own type. Triggers on `vectors` maintain it, so that every
//! writing process, even one that searches in memory, changes both in one transaction. The table is created at start ([`prepare`]) and not
//! by a migration, because the extension may be installed later. Older vectors are copied page by page.
//!
//! A small account index is compared vector by vector. A larger one gets a separate index ([`graph`]), so that a filter does not remove
//! candidates; a search of spaces always compares all their vectors.

mod count;
pub mod graph;
pub mod prepare;

use std::collections::HashMap;

use domain::ids::SpaceId;
use domain::memory::ModelId;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use self::graph::graph_name;
use super::{AccountStatistics, ChunkId, ChunkLimits};
use crate::error::StoreError;
use crate::memory::json;
use crate::operation::{During, Operation};
use crate::pool::PostgresPool;
use crate::row::limit;
use crate::{Pool, Store, in_transaction, joined};

/// Maximum dimensions of a vector that the extension can index.
pub const DIMENSIONS_MAX: u16 = 2_000;

/// Chunks with their cosines, nearest first.
pub type Neighbours = Vec<(ChunkId, f32)>;

/// Around a statement that compares chunks: the nearest chunks, at most `$4`.
const NEAREST: [&str; 2] = ["SELECT chunk_id, far FROM (", ") compared ORDER BY far, chunk_id LIMIT $4"];
/// The same, with a maximum per memory; its parameter follows the second part.
const NEAREST_OF_EACH: [&str; 3] = [
    "SELECT chunk_id, far FROM (SELECT chunk_id, far, ROW_NUMBER() OVER
        (PARTITION BY memory_id ORDER BY far, chunk_id) AS place FROM (",
    ") compared) placed WHERE place <= ",
    " ORDER BY far, chunk_id LIMIT $4",
];

impl Store {
    /// The nearest chunks of an account index to a vector, each with its cosine, nearest first. Above `exact_max` chunks the graph of the
    /// account index is used if it exists; then only its candidates are spread over memories.
    #[boxed]
    pub async fn nearest(
        &self,
        on: &AccountStatistics,
        model: &ModelId,
        query: &[f32],
        wanted: ChunkLimits,
        exact_max: usize,
    ) -> Result<Neighbours, StoreError> {
        const COMPARED: &str = "SELECT chunk_id, memory_id, vector <=> CAST($3 AS vector) AS far FROM vectors_near
                WHERE account_index = $1 AND model = $2";
        const ALL: &str = joined!(NEAREST[0], COMPARED, NEAREST[1]);
        const OF_EACH: &str = joined!(NEAREST_OF_EACH[0], COMPARED, NEAREST_OF_EACH[1], "$5", NEAREST_OF_EACH[2]);
        const DO: Operation = Operation::FindNearVectors;
        let Some((pool, query)) = self.comparing(query)? else { return Ok(Neighbours::new()) };
        let rows_max = limit(wanted.chunks_max);
        if on.chunks > limit(exact_max) {
            let walked_max = if wanted.each_max.is_some() { EXTENSION_MAX / 2 } else { rows_max };
            let walked = by_graph(self.memory()?, on, model, &query, walked_max).during(DO).await?;
            // Deleted vectors stay in a graph for a while and take up places of the result.
            if limit(walked.len()) >= walked_max.min(on.chunks) {
                return Ok(shared_out(walked, wanted));
            }
        }
        let rows = crate::pool::query(if wanted.each_max.is_some() { OF_EACH } else { ALL });
        let rows = rows.bind(on.number).bind(model.to_string()).bind(query).bind(rows_max);
        let rows = if let Some(each_max) = wanted.each_max { rows.bind(limit(each_max)) } else { rows };
        Ok(cosines(rows.fetch_all(pool).during(DO).await?))
    }

    /// The same for memories that are linked to one of `spaces` and belong to one of `account_indexes`. All vectors are compared.
    #[boxed]
    pub async fn nearest_in_spaces(
        &self,
        account_indexes: &[AccountStatistics],
        spaces: &[SpaceId],
        model: &ModelId,
        query: &[f32],
        wanted: ChunkLimits,
    ) -> Result<Neighbours, StoreError> {
        const COMPARED: &str = "SELECT n.chunk_id, n.memory_id, n.vector <=> CAST($3 AS vector) AS far
                FROM (SELECT DISTINCT s.memory_id FROM memory_spaces s WHERE s.space_id IN
                        (SELECT CAST(value AS UUID) FROM json_array_elements_text(CAST($2 AS json)))) linked
                    JOIN memories m ON m.id = linked.memory_id
                    JOIN vectors_near n ON n.account_index = m.account_index AND n.memory_id = m.id
                WHERE m.account_index IN (SELECT CAST(value AS BIGINT) FROM json_array_elements_text(CAST($1 AS json)))
                    AND n.model = $5";
        const ALL: &str = joined!(NEAREST[0], COMPARED, NEAREST[1]);
        const OF_EACH: &str = joined!(NEAREST_OF_EACH[0], COMPARED, NEAREST_OF_EACH[1], "$6", NEAREST_OF_EACH[2]);
        let Some((pool, query)) = self.comparing(query)? else { return Ok(Neighbours::new()) };
        let numbers: Vec<i64> = account_indexes.iter().map(|account_index| account_index.number).collect();
        let rows = crate::pool::query(if wanted.each_max.is_some() { OF_EACH } else { ALL });
        let rows = rows.bind(json(&numbers)).bind(json(spaces)).bind(query).bind(limit(wanted.chunks_max));
        let rows = rows.bind(model.to_string());
        let rows = if let Some(each_max) = wanted.each_max { rows.bind(limit(each_max)) } else { rows };
        Ok(cosines(rows.fetch_all(pool).during(Operation::FindNearVectorsInSpaces).await?))
    }

    /// The connection pool and the vector in the extension's text form; `None` if the vector cannot be compared.
    fn comparing(&self, query: &[f32]) -> Result<Option<(&PostgresPool, String)>, StoreError> {
        let Pool::Postgres(pool) = self.memory()? else { return Ok(None) };
        let numbers: Vec<String> = query.iter().map(ToString::to_string).collect();
        Ok(query.iter().all(|value| value.is_finite()).then(|| (pool, format!("[{}]", numbers.join(",")))))
    }
}

/// A chunk, its distance, and its memory.
type NeighbourRow = (i64, f64, Uuid);

/// Empty if the account index has no complete graph.
async fn by_graph(
    pool: &Pool,
    on: &AccountStatistics,
    model: &ModelId,
    query: &str,
    rows_max: i64,
) -> Result<Vec<NeighbourRow>, sqlx::Error> {
    // The planner uses a partial index only if numbers and names are literals in the statement.
    const SET: &str =
        "SELECT set_config('hnsw.ef_search', $2, true), set_config('plan_cache_mode', 'force_custom_plan', true),
            set_config('enable_sort', 'off', true)
        FROM pg_index WHERE indexrelid = to_regclass($1) AND indisvalid";
    let size = model.dimensions;
    // The expression must equal the expression of the index.
    let sql = format!(
        "SELECT chunk_id, CAST(vector AS vector({size})) <=> CAST($3 AS vector({size})) AS far, memory_id FROM vectors_near
        WHERE account_index = $1 AND model = $2 ORDER BY far LIMIT $4"
    );
    in_transaction!(pool, |tx| {
        let set = crate::pool::query(SET).bind(graph_name(on.number, model)).bind(breadth(rows_max).to_string());
        let set: Option<(String, String, String)> = set.fetch_optional(&mut *tx).await?;
        if set.is_none() {
            return Ok(Vec::new());
        }
        let rows = crate::pool::query(AssertSqlSafe(sql)).bind(on.number).bind(model.to_string());
        rows.bind(query).bind(rows_max).fetch_all(&mut *tx).await
    })
    .await
}

/// The first candidates, nearest first, with at most `each_max` of each memory.
fn shared_out(walked: Vec<NeighbourRow>, wanted: ChunkLimits) -> Neighbours {
    let mut taken: HashMap<Uuid, usize> = HashMap::new();
    let limited = walked.into_iter().filter(|(_, _, memory)| {
        let taken = taken.entry(*memory).or_default();
        *taken += 1;
        wanted.each_max.is_none_or(|each_max| *taken <= each_max)
    });
    cosines(limited.map(|(chunk, far, _)| (chunk, far)).take(wanted.chunks_max).collect())
}

/// The extension's maximum of `hnsw.ef_search`.
const EXTENSION_MAX: i64 = 1_000;

/// The number of neighbours that a search of a graph considers; some may be deleted.
fn breadth(rows_max: i64) -> i64 {
    (2 * rows_max).clamp(100, EXTENSION_MAX)
}

/// The cosine of a zero vector is NaN; it is treated as distant.
#[expect(clippy::cast_possible_truncation, reason = "a cosine")]
fn cosines(rows: Vec<(i64, f64)>) -> Neighbours {
    let cosine = |far: f64| if far.is_finite() { (1.0 - far) as f32 } else { 0.0 };
    rows.into_iter().map(|(chunk, far)| (chunk, cosine(far))).collect()
}
