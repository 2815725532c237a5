//! Full-text search of chunks.
//!
//! SQLite stores the stems in FTS5, each as a token that starts with the number of its account index: a search of one account reads only
//! its own entries. PostgreSQL has no BM25, and its `ts_rank` considers neither the rarity of a word nor the length of a text; therefore
//! the same formula is computed from a table of stems.

use std::collections::HashMap;

use domain::ids::SpaceId;

use super::{AccountStatistics, ChunkId, ChunkLimits};
use crate::error::StoreError;
use crate::memory::json;
use crate::operation::{During, Operation};
use crate::pool::{query, scalar};
use crate::row::limit;
use crate::{Store, joined};

/// BM25 parameter k1: saturation of repeated words.
pub const K1: f64 = 0.9;
/// BM25 parameter b: normalisation by text length.
pub const B: f64 = 0.4;

/// A stem of the query.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryStem {
    /// Text of the stem.
    pub stem: String,
    /// Its inverse document frequency.
    pub weight: f64,
}

impl Store {
    /// Number of chunks of an account index that contain each of `stems`.
    #[boxed]
    pub async fn stems_counted(&self, account_index_number: i64, stems: &[String]) -> Result<Vec<u32>, StoreError> {
        const SQLITE: &str = "SELECT term, doc FROM words_counted WHERE $1 IS NOT NULL
            AND term IN (SELECT value FROM json_each($2))";
        const POSTGRES: &str = "SELECT stem, COUNT(*) FROM words WHERE account_index = $1
            AND stem IN (SELECT value FROM json_array_elements_text(CAST($2 AS json))) GROUP BY stem";
        let postgres = self.memory()?.is_postgres();
        let sql = if postgres { POSTGRES } else { SQLITE };
        let names: Vec<String> =
            stems.iter().map(|stem| if postgres { stem.clone() } else { token(account_index_number, stem) }).collect();
        let list = json(&names);
        let rows: Vec<(String, i64)> = query(sql)
            .bind(account_index_number)
            .bind(&list)
            .fetch_all(self.memory()?)
            .during(Operation::CountWords)
            .await?;
        let counts: HashMap<String, i64> = rows.into_iter().collect();
        names.iter().map(|name| Ok(crate::row::count("words", counts.get(name).copied().unwrap_or(0))?)).collect()
    }

    /// The best chunks of an account index with any of the stems, best first. With `spaces`, only chunks in one of the spaces. Ranks every
    /// entry of the stems; for common stems use [`Store::chunks_with_common_words`].
    #[boxed]
    pub async fn chunks_with_words(
        &self,
        on: &AccountStatistics,
        asked: &[QueryStem],
        spaces: Option<&[SpaceId]>,
        wanted: ChunkLimits,
    ) -> Result<Vec<ChunkId>, StoreError> {
        const OPERATION: Operation = Operation::FindChunksByTheirWords;
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        if self.memory()?.is_postgres() {
            self.ranked_by_postgres(on, asked, spaces.map(array).as_deref(), wanted).during(OPERATION).await
        } else {
            self.ranked_by_fts5(on, asked, spaces.map(json).as_deref(), wanted).during(OPERATION).await
        }
    }

    async fn ranked_by_fts5(
        &self,
        on: &AccountStatistics,
        asked: &[QueryStem],
        spaces: Option<&str>,
        wanted: ChunkLimits,
    ) -> Result<Vec<ChunkId>, sqlx::Error> {
        // One index lookup for each space, independent of the size of the spaces.
        const IN_SPACES: &str = "EXISTS (SELECT 1 FROM space_chunks l
            WHERE l.space_id IN (SELECT unhex(replace(value, '-', '')) FROM json_each($2)) AND l.account_index = $4
                AND l.chunk_id = words.rowid)";
        const ANYWHERE: &str = "$2 IS NULL AND $4 > 0";
        const MATCHING: &str = "SELECT rowid FROM words WHERE words.words MATCH $1 AND ";
        const BY_RANK: &str = " ORDER BY rank LIMIT $3";
        const PLACED: &str = "SELECT id FROM (SELECT words.rowid AS id, words.rank AS score, ROW_NUMBER() OVER
                (PARTITION BY placed.memory_id ORDER BY words.rank, words.rowid) AS place
            FROM words CROSS JOIN chunks placed ON placed.id = words.rowid WHERE words.words MATCH $1 AND ";
        const BY_SCORE: &str = ") WHERE place <= $5 ORDER BY score, id LIMIT $3";
        const BEST: &str = joined!(MATCHING, ANYWHERE, BY_RANK);
        const BEST_IN_SPACES: &str = joined!(MATCHING, IN_SPACES, BY_RANK);
        const BEST_OF_EACH: &str = joined!(PLACED, ANYWHERE, BY_SCORE);
        const BEST_OF_EACH_IN_SPACES: &str = joined!(PLACED, IN_SPACES, BY_SCORE);
        let sql = match (spaces, wanted.each_max) {
            (None, None) => BEST,
            (Some(_), None) => BEST_IN_SPACES,
            (None, Some(_)) => BEST_OF_EACH,
            (Some(_), Some(_)) => BEST_OF_EACH_IN_SPACES,
        };
        let query = quoted(on, asked).join(" OR ");
        {
            let query = scalar(sql).bind(&query).bind(spaces).bind(limit(wanted.chunks_max)).bind(on.number);
            if let Some(each_max) = wanted.each_max { query.bind(limit(each_max)) } else { query }
                .fetch_all(self.memory_pool()?)
        }
        .await
    }

    async fn ranked_by_postgres(
        &self,
        on: &AccountStatistics,
        asked: &[QueryStem],
        spaces: Option<&str>,
        wanted: ChunkLimits,
    ) -> Result<Vec<ChunkId>, sqlx::Error> {
        // Without EXISTS, which PostgreSQL may execute as a hash of all chunks of the spaces.
        const RANKED: &str = "SELECT w.chunk_id, SUM(CAST(q.value AS DOUBLE PRECISION) * w.frequency * ($4 + 1)
                / (w.frequency + $4 * (1 - $5 + $5 * w.length / $6))) AS score
            FROM json_each_text(CAST($2 AS json)) q JOIN words w ON w.account_index = $1 AND w.stem = q.key
            WHERE $3 IS NULL OR COALESCE((SELECT TRUE FROM space_chunks l WHERE l.space_id = ANY(CAST($3 AS UUID[]))
                AND l.account_index = $1 AND l.chunk_id = w.chunk_id LIMIT 1), FALSE)
            GROUP BY w.chunk_id";
        const BEST: &str = joined!("SELECT chunk_id FROM (", RANKED, ") ranked ORDER BY score DESC, chunk_id LIMIT $7");
        const BEST_OF_EACH: &str = joined!(
            "SELECT chunk_id FROM (SELECT chunk_id, score, ROW_NUMBER() OVER
                    (PARTITION BY placed.memory_id ORDER BY score DESC, chunk_id) AS place FROM (",
            RANKED,
            ") ranked JOIN chunks placed ON placed.id = ranked.chunk_id) placed
                WHERE place <= $8 ORDER BY score DESC, chunk_id LIMIT $7"
        );
        let stems: HashMap<&str, f64> = asked.iter().map(|asked| (asked.stem.as_str(), asked.weight)).collect();
        let stems = serde_json::to_string(&stems).unwrap_or_default();
        {
            let query = scalar(if wanted.each_max.is_some() { BEST_OF_EACH } else { BEST })
                .bind(on.number)
                .bind(&stems)
                .bind(spaces)
                .bind(K1)
                .bind(B)
                .bind(on.length_average())
                .bind(limit(wanted.chunks_max));
            if let Some(each_max) = wanted.each_max { query.bind(limit(each_max)) } else { query }
                .fetch_all(self.memory_pool()?)
        }
        .await
    }
}

impl AccountStatistics {
    /// Average length of a chunk, in words.
    pub fn length_average(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "nobody keeps 2^53 words")]
        let (words, chunks) = (self.words as f64, self.chunks as f64);
        (words / chunks.max(1.0)).max(1.0)
    }
}

/// Stems as terms of an FTS5 query: letters and digits within quotes, so that a stem is never an operator.
pub(super) fn quoted(on: &AccountStatistics, asked: &[QueryStem]) -> Vec<String> {
    asked.iter().map(|asked| format!("\"{}\"", token(on.number, &asked.stem))).collect()
}

/// Ids as an array of PostgreSQL.
pub(super) fn array(spaces: &[SpaceId]) -> String {
    let ids: Vec<String> = spaces.iter().map(ToString::to_string).collect();
    format!("{{{}}}", ids.join(","))
}

/// The FTS5 token of a stem in an account index. The number ends at the first `x`.
pub(crate) fn token(account_index: i64, stem: &str) -> String {
    format!("{account_index}x{stem}")
}
