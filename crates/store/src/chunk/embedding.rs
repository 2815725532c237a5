//! Chunks without a vector of the current model: it was unavailable when they were added, or another model embedded
//! them.

use std::collections::HashMap;

use domain::memory::ModelId;
use uuid::Uuid;

use super::ChunkId;
use super::vector::packed;
use crate::error::StoreError;
use crate::memory::json;
use crate::operation::{During, Operation};
use crate::pool::{QueryBuilder, query, scalar};
use crate::row::{chunks, limit};
use crate::{Store, in_transaction};

crate::row! {
    /// A chunk without a vector.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Unembedded {
        /// Number of the chunk.
        pub chunk as "id": ChunkId,
        /// Title of the memory.
        pub title: String,
        /// Text of the chunk.
        pub content: String,
    }
}

impl Store {
    /// Chunks without a vector of `model`; chunks without any vector come first.
    #[boxed]
    pub async fn chunks_to_embed(&self, model: &ModelId, rows_max: usize) -> Result<Vec<Unembedded>, StoreError> {
        const SQL: &str = "SELECT c.id, m.title, c.content
            FROM (SELECT chunk_id FROM vectors WHERE model < $1
                UNION ALL SELECT chunk_id FROM vectors WHERE model > $1 LIMIT $2) v
                JOIN chunks c ON c.id = v.chunk_id JOIN memories m ON m.id = c.memory_id";
        let model = model.to_string();
        query(SQL)
            .bind(&model)
            .bind(limit(rows_max))
            .fetch_all(self.memory()?)
            .during(Operation::FindChunksWithoutVector)
            .await
    }

    /// Whether every chunk has a vector of `model`.
    #[boxed]
    pub async fn all_embedded(&self, model: &ModelId) -> Result<bool, StoreError> {
        Ok(self.chunks_to_embed(model, 1).await?.is_empty())
    }

    /// Stores vectors of chunks. Deleted chunks are skipped; returns the number of stored vectors.
    #[boxed]
    pub async fn vectors_put(&self, model: &ModelId, vectors: &[(ChunkId, Vec<f32>)]) -> Result<usize, StoreError> {
        const OF_SQLITE: &str = "SELECT m.account_index, m.id, c.id FROM chunks c JOIN memories m ON m.id = c.memory_id
            WHERE c.id IN (SELECT value FROM json_each($1)) ORDER BY m.account_index, m.id";
        const OF_POSTGRES: &str =
            "SELECT m.account_index, m.id, c.id FROM chunks c JOIN memories m ON m.id = c.memory_id
            WHERE c.id IN (SELECT CAST(value AS BIGINT) FROM json_array_elements_text(CAST($1 AS json)))
            ORDER BY m.account_index, m.id";
        const NEXT: &str = "UPDATE account_indexes SET changes = changes + $2 WHERE number = $1 RETURNING changes";
        const DO: Operation = Operation::KeepVectors;
        let sql = if self.memory()?.is_postgres() { OF_POSTGRES } else { OF_SQLITE };
        let ids = json(&vectors.iter().map(|(chunk, _)| *chunk).collect::<Vec<_>>());
        let places: Vec<(i64, Uuid, i64)> = query(sql).bind(&ids).fetch_all(self.memory()?).during(DO).await?;
        let name = model.to_string();
        let vectors: HashMap<ChunkId, &[f32]> =
            vectors.iter().map(|(chunk, vector)| (*chunk, vector.as_slice())).collect();
        let mut stored = 0;
        // One transaction per account index, so that a transaction locks only one account index.
        for places in places.chunk_by(|a, b| a.0 == b.0) {
            let memories: Vec<&[(i64, Uuid, i64)]> = places.chunk_by(|a, b| a.1 == b.1).collect();
            stored += in_transaction!(self.memory_pool()?, |tx| {
                // One change number per memory: a follower may stop after any memory.
                let last: Option<i64> =
                    scalar(NEXT).bind(places[0].0).bind(limit(memories.len())).fetch_optional(&mut *tx).await?;
                let first = last.unwrap_or(0) - limit(memories.len()) + 1;
                let mut stored = 0;
                for places in chunks(places) {
                    let mut sql = QueryBuilder::new("WITH given (chunk_id, dimensions, vector) AS (");
                    sql.push_values(places, |mut row, (_, _, chunk)| {
                        let vector = vectors.get(chunk).copied().unwrap_or_default();
                        row.push_bind(*chunk).push_bind(limit(vector.len())).push_bind(packed(vector));
                    });
                    sql.push(") UPDATE vectors SET model = ").push_bind(&name);
                    sql.push(", dimensions = given.dimensions, vector = given.vector FROM given");
                    sql.push(" WHERE vectors.chunk_id = given.chunk_id");
                    let rows_affected = sql.build().execute(&mut *tx).await?;
                    stored += usize::try_from(rows_affected).unwrap_or(0);
                }
                let changes: Vec<(Uuid, i64)> = memories.iter().map(|chunks| chunks[0].1).zip(first..).collect();
                for changes in chunks(&changes) {
                    let mut sql = QueryBuilder::new("WITH given (id, changed) AS (");
                    sql.push_values(changes, |mut row, (memory, change)| {
                        row.push_bind(*memory).push_bind(*change);
                    });
                    sql.push(") UPDATE memories SET changed = given.changed FROM given WHERE memories.id = given.id");
                    sql.build().execute(&mut *tx).await?;
                }
                Ok(stored)
            })
            .during(DO)
            .await?;
        }
        Ok(stored)
    }
}
