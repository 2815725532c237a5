//! Finding chunks by their words.
//!
//! SQLite keeps the stems in FTS5, each as a token that begins with the number of its shelf: whoever searches one account walks
//! through the words of no other. PostgreSQL has no BM25, and its `ts_rank` knows neither how rare a word is nor how long a text:
//! there, the same formula is computed from a table of stems.

use std::collections::HashMap;

use domain::ids::SpaceId;

use super::{ChunkId, Shelf};
use crate::error::{During, StoreError};
use crate::memory::json;
use crate::row::limit;
use crate::{Store, on_reader};

/// How fast a word that comes again stops counting, in BM25.
pub const K1: f64 = 0.9;
/// How much a long text has to say more, in BM25.
pub const B: f64 = 0.4;

/// A stem that is looked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The stem.
    pub stem: String,
    /// What it tells: its inverse document frequency.
    pub weight: f64,
}

/// Which chunks are found by words, and in which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Having {
    /// Any of the stems; best first.
    Some,
    /// All of the stems; best first.
    Every,
    /// All of the stems; newest first. Nothing is ranked, so it costs little however common the stems are. The first stem should be the
    /// rarest.
    EveryNewest,
}

impl Store {
    /// In how many chunks of a shelf each of `stems` is.
    pub async fn stems_counted(&self, shelf_number: i64, stems: &[String]) -> Result<Vec<u32>, StoreError> {
        const SQLITE: &str = "SELECT term, doc FROM words_counted WHERE $1 IS NOT NULL
            AND term IN (SELECT value FROM json_each($2))";
        const POSTGRES: &str = "SELECT stem, COUNT(*) FROM words WHERE shelf = $1
            AND stem IN (SELECT value FROM json_array_elements_text(CAST($2 AS json))) GROUP BY stem";
        let postgres = self.pool.is_postgres();
        let sql = if postgres { POSTGRES } else { SQLITE };
        let names: Vec<String> =
            stems.iter().map(|stem| if postgres { stem.clone() } else { token(shelf_number, stem) }).collect();
        let list = json(&names);
        let rows: Vec<(String, i64)> =
            on_reader!(&self.pool, |db| sqlx::query_as(sql).bind(shelf_number).bind(&list).fetch_all(db))
                .during("count words")?;
        let counts: HashMap<String, i64> = rows.into_iter().collect();
        names.iter().map(|name| Ok(crate::row::count("words", counts.get(name).copied().unwrap_or(0))?)).collect()
    }

    /// The chunks of a shelf in which the stems are. With `spaces`, only chunks of memories that are linked to one of them.
    pub async fn chunks_with_words(
        &self,
        on: &Shelf,
        asked: &[Asked],
        having: Having,
        spaces: Option<&[SpaceId]>,
        rows_max: usize,
    ) -> Result<Vec<ChunkId>, StoreError> {
        let spaces = spaces.map(json);
        let found = if asked.is_empty() {
            Ok(Vec::new())
        } else if self.pool.is_postgres() {
            match having {
                Having::EveryNewest => self.newest_of_postgres(on, asked, spaces.as_deref(), limit(rows_max)).await,
                _ => self.ranked_by_postgres(on, asked, having, spaces.as_deref(), limit(rows_max)).await,
            }
        } else {
            self.found_by_fts5(on, asked, having, spaces.as_deref(), limit(rows_max)).await
        };
        found.during("find chunks by their words")
    }

    async fn found_by_fts5(
        &self,
        on: &Shelf,
        asked: &[Asked],
        having: Having,
        spaces: Option<&str>,
        rows_max: i64,
    ) -> Result<Vec<ChunkId>, sqlx::Error> {
        macro_rules! found {
            ($order:literal) => {
                concat!("SELECT rowid FROM words WHERE words MATCH $1 AND $2 IS NULL ORDER BY ", $order, " LIMIT $3")
            };
            (in spaces $order:literal) => {
                concat!(
                    "SELECT rowid FROM words WHERE words MATCH $1
                        AND EXISTS (SELECT 1 FROM chunks c JOIN memory_spaces l ON l.memory_id = c.memory_id
                            WHERE c.id = words.rowid
                                AND l.space_id IN (SELECT unhex(replace(value, '-', '')) FROM json_each($2)))
                        ORDER BY ",
                    $order,
                    " LIMIT $3"
                )
            };
        }
        let sql = match (having, spaces) {
            (Having::EveryNewest, None) => found!("rowid DESC"),
            (Having::EveryNewest, Some(_)) => found!(in spaces "rowid DESC"),
            (_, None) => found!("rank"),
            (_, Some(_)) => found!(in spaces "rank"),
        };
        // Letters and digits within quotes: nothing that anybody types is an operator.
        let tokens: Vec<String> = asked.iter().map(|asked| format!("\"{}\"", token(on.number, &asked.stem))).collect();
        let query = tokens.join(if having == Having::Some { " OR " } else { " AND " });
        on_reader!(&self.pool, |db| sqlx::query_scalar(sql).bind(&query).bind(spaces).bind(rows_max).fetch_all(db))
    }

    async fn ranked_by_postgres(
        &self,
        on: &Shelf,
        asked: &[Asked],
        having: Having,
        spaces: Option<&str>,
        rows_max: i64,
    ) -> Result<Vec<ChunkId>, sqlx::Error> {
        const SQL: &str = "SELECT w.chunk_id FROM json_each_text(CAST($2 AS json)) q
                JOIN words w ON w.shelf = $1 AND w.stem = q.key
            WHERE $3 IS NULL OR EXISTS (SELECT 1 FROM chunks c JOIN memory_spaces l ON l.memory_id = c.memory_id
                WHERE c.id = w.chunk_id
                    AND l.space_id IN (SELECT CAST(value AS UUID) FROM json_array_elements_text(CAST($3 AS json))))
            GROUP BY w.chunk_id HAVING COUNT(*) >= $7
            ORDER BY SUM(CAST(q.value AS DOUBLE PRECISION) * w.frequency * ($4 + 1)
                / (w.frequency + $4 * (1 - $5 + $5 * w.length / $6))) DESC, w.chunk_id LIMIT $8";
        let stems: HashMap<&str, f64> = asked.iter().map(|asked| (asked.stem.as_str(), asked.weight)).collect();
        let stems = serde_json::to_string(&stems).unwrap_or_default();
        let at_least = if having == Having::Some { 1 } else { limit(asked.len()) };
        on_reader!(&self.pool, |db| {
            sqlx::query_scalar(SQL)
                .bind(on.number)
                .bind(&stems)
                .bind(spaces)
                .bind(K1)
                .bind(B)
                .bind(on.length_average())
                .bind(at_least)
                .bind(rows_max)
                .fetch_all(db)
        })
    }

    /// Walks backwards through the chunks with the first stem, and ends as soon as there are enough.
    async fn newest_of_postgres(
        &self,
        on: &Shelf,
        asked: &[Asked],
        spaces: Option<&str>,
        rows_max: i64,
    ) -> Result<Vec<ChunkId>, sqlx::Error> {
        const SQL: &str = "SELECT w.chunk_id FROM words w WHERE w.shelf = $1 AND w.stem = $2
                AND NOT EXISTS (SELECT 1 FROM json_array_elements_text(CAST($3 AS json)) q
                    WHERE NOT EXISTS (SELECT 1 FROM words o
                        WHERE o.shelf = $1 AND o.stem = q.value AND o.chunk_id = w.chunk_id))
                AND ($4 IS NULL OR EXISTS (SELECT 1 FROM chunks c JOIN memory_spaces l ON l.memory_id = c.memory_id
                    WHERE c.id = w.chunk_id
                        AND l.space_id IN (SELECT CAST(value AS UUID) FROM json_array_elements_text(CAST($4 AS json)))))
            ORDER BY w.chunk_id DESC LIMIT $5";
        let Some((first, others)) = asked.split_first() else { return Ok(Vec::new()) };
        let others: Vec<&str> = others.iter().map(|asked| asked.stem.as_str()).collect();
        let others = json(&others);
        on_reader!(&self.pool, |db| {
            let query = sqlx::query_scalar(SQL).bind(on.number).bind(&first.stem).bind(&others);
            query.bind(spaces).bind(rows_max).fetch_all(db)
        })
    }
}

impl Shelf {
    /// The length of a chunk on average, in words.
    pub fn length_average(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "nobody keeps 2^53 words")]
        let (words, chunks) = (self.words as f64, self.chunks as f64);
        (words / chunks.max(1.0)).max(1.0)
    }
}

/// A stem of a shelf, as FTS5 has it. The number ends at the first `x`.
pub(crate) fn token(shelf: i64, stem: &str) -> String {
    format!("{shelf}x{stem}")
}
