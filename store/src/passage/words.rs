//! Finding chunks by their words.
//!
//! SQLite keeps the stems in FTS5, each as a token that begins with the number of its shelf: whoever searches one account walks
//! through the words of no other. PostgreSQL has no BM25, and its `ts_rank` knows neither how rare a word is nor how long a text:
//! there, the same formula is computed from a table of stems.

use std::collections::HashMap;

use domain::ids::SpaceId;

use super::{ChunkId, Shelf, Wanted};
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
    /// rarest. If no memory may have as many as there are, each has its last one.
    EveryNewest,
}

/// From chunk to chunk of a shelf, newest first, each time past all others of its memory: whoever writes holds the shelf, so the
/// numbers of a memory's chunks follow one another.
macro_rules! newest_of_each {
    ($select:literal, $having:expr, $chunk:literal, $most:literal) => {
        concat!(
            "WITH RECURSIVE walked (id, nth) AS (
                SELECT CAST(9223372036854775807 AS BIGINT), CAST(0 AS BIGINT)
                UNION ALL
                SELECT (",
            $select,
            $having,
            " AND ",
            $chunk,
            " < COALESCE((SELECT first.id FROM chunks last JOIN chunks first ON first.memory_id = last.memory_id
                        WHERE last.id = walked.id ORDER BY first.ordinal LIMIT 1), walked.id)
                    ORDER BY ",
            $chunk,
            " DESC LIMIT 1), walked.nth + 1
                FROM walked WHERE walked.id IS NOT NULL AND walked.nth < ",
            $most,
            ") SELECT id FROM walked WHERE nth > 0 AND id IS NOT NULL"
        )
    };
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
        wanted: Wanted,
    ) -> Result<Vec<ChunkId>, StoreError> {
        let spaces = spaces.map(json);
        let found = if asked.is_empty() {
            Ok(Vec::new())
        } else if self.pool.is_postgres() {
            match having {
                Having::EveryNewest => self.newest_of_postgres(on, asked, spaces.as_deref(), wanted).await,
                _ => self.ranked_by_postgres(on, asked, having, spaces.as_deref(), wanted).await,
            }
        } else {
            self.found_by_fts5(on, asked, having, spaces.as_deref(), wanted).await
        };
        found.during("find chunks by their words")
    }

    async fn found_by_fts5(
        &self,
        on: &Shelf,
        asked: &[Asked],
        having: Having,
        spaces: Option<&str>,
        wanted: Wanted,
    ) -> Result<Vec<ChunkId>, sqlx::Error> {
        macro_rules! matching {
            (anywhere) => {
                "words.words MATCH $1 AND $2 IS NULL"
            };
            (in_spaces) => {
                "words.words MATCH $1 AND EXISTS (SELECT 1 FROM chunks c JOIN memory_spaces l ON l.memory_id = c.memory_id
                    WHERE c.id = words.rowid
                        AND l.space_id IN (SELECT unhex(replace(value, '-', '')) FROM json_each($2)))"
            };
        }
        macro_rules! found {
            (best $place:ident) => {
                concat!("SELECT rowid FROM words WHERE ", matching!($place), " ORDER BY rank LIMIT $3")
            };
            (newest $place:ident) => {
                concat!("SELECT rowid FROM words WHERE ", matching!($place), " ORDER BY rowid DESC LIMIT $3")
            };
            (best of each $place:ident) => {
                concat!(
                    "SELECT id FROM (SELECT words.rowid AS id, words.rank AS score, ROW_NUMBER() OVER
                            (PARTITION BY placed.memory_id ORDER BY words.rank, words.rowid) AS place
                        FROM words CROSS JOIN chunks placed ON placed.id = words.rowid WHERE ",
                    matching!($place),
                    ") WHERE place <= $4 ORDER BY score, id LIMIT $3"
                )
            };
            (newest of each $place:ident) => {
                newest_of_each!("SELECT words.rowid FROM words WHERE ", matching!($place), "words.rowid", "$3")
            };
        }
        let sql = match (having, spaces, wanted.each_max) {
            (Having::EveryNewest, None, None) => found!(newest anywhere),
            (Having::EveryNewest, Some(_), None) => found!(newest in_spaces),
            (Having::EveryNewest, None, Some(_)) => found!(newest of each anywhere),
            (Having::EveryNewest, Some(_), Some(_)) => found!(newest of each in_spaces),
            (_, None, None) => found!(best anywhere),
            (_, Some(_), None) => found!(best in_spaces),
            (_, None, Some(_)) => found!(best of each anywhere),
            (_, Some(_), Some(_)) => found!(best of each in_spaces),
        };
        // Letters and digits within quotes: nothing that anybody types is an operator.
        let tokens: Vec<String> = asked.iter().map(|asked| format!("\"{}\"", token(on.number, &asked.stem))).collect();
        let query = tokens.join(if having == Having::Some { " OR " } else { " AND " });
        let each_max = wanted.each_max.filter(|_| having != Having::EveryNewest).map(limit);
        on_reader!(&self.pool, |db| {
            let query = sqlx::query_scalar(sql).bind(&query).bind(spaces).bind(limit(wanted.chunks_max));
            if let Some(each_max) = each_max { query.bind(each_max) } else { query }.fetch_all(db)
        })
    }

    async fn ranked_by_postgres(
        &self,
        on: &Shelf,
        asked: &[Asked],
        having: Having,
        spaces: Option<&str>,
        wanted: Wanted,
    ) -> Result<Vec<ChunkId>, sqlx::Error> {
        macro_rules! ranked {
            () => {
                "SELECT w.chunk_id, SUM(CAST(q.value AS DOUBLE PRECISION) * w.frequency * ($4 + 1)
                    / (w.frequency + $4 * (1 - $5 + $5 * w.length / $6))) AS score
                FROM json_each_text(CAST($2 AS json)) q JOIN words w ON w.shelf = $1 AND w.stem = q.key
                WHERE $3 IS NULL OR EXISTS (SELECT 1 FROM chunks c JOIN memory_spaces l ON l.memory_id = c.memory_id
                    WHERE c.id = w.chunk_id
                        AND l.space_id IN (SELECT CAST(value AS UUID) FROM json_array_elements_text(CAST($3 AS json))))
                GROUP BY w.chunk_id HAVING COUNT(*) >= $7"
            };
        }
        const BEST: &str =
            concat!("SELECT chunk_id FROM (", ranked!(), ") ranked ORDER BY score DESC, chunk_id LIMIT $8");
        const BEST_OF_EACH: &str = concat!(
            "SELECT chunk_id FROM (SELECT chunk_id, score, ROW_NUMBER() OVER
                    (PARTITION BY placed.memory_id ORDER BY score DESC, chunk_id) AS place FROM (",
            ranked!(),
            ") ranked JOIN chunks placed ON placed.id = ranked.chunk_id) placed
                WHERE place <= $9 ORDER BY score DESC, chunk_id LIMIT $8"
        );
        let stems: HashMap<&str, f64> = asked.iter().map(|asked| (asked.stem.as_str(), asked.weight)).collect();
        let stems = serde_json::to_string(&stems).unwrap_or_default();
        let at_least = if having == Having::Some { 1 } else { limit(asked.len()) };
        on_reader!(&self.pool, |db| {
            let query = sqlx::query_scalar(if wanted.each_max.is_some() { BEST_OF_EACH } else { BEST })
                .bind(on.number)
                .bind(&stems)
                .bind(spaces)
                .bind(K1)
                .bind(B)
                .bind(on.length_average())
                .bind(at_least)
                .bind(limit(wanted.chunks_max));
            if let Some(each_max) = wanted.each_max { query.bind(limit(each_max)) } else { query }.fetch_all(db)
        })
    }

    /// Walks backwards through the chunks with the first stem, and ends as soon as there are enough.
    async fn newest_of_postgres(
        &self,
        on: &Shelf,
        asked: &[Asked],
        spaces: Option<&str>,
        wanted: Wanted,
    ) -> Result<Vec<ChunkId>, sqlx::Error> {
        macro_rules! having {
            () => {
                "w.shelf = $1 AND w.stem = $2
                AND NOT EXISTS (SELECT 1 FROM json_array_elements_text(CAST($3 AS json)) q
                    WHERE NOT EXISTS (SELECT 1 FROM words o
                        WHERE o.shelf = $1 AND o.stem = q.value AND o.chunk_id = w.chunk_id))
                AND ($4 IS NULL OR EXISTS (SELECT 1 FROM chunks c JOIN memory_spaces l ON l.memory_id = c.memory_id
                    WHERE c.id = w.chunk_id
                        AND l.space_id IN (SELECT CAST(value AS UUID) FROM json_array_elements_text(CAST($4 AS json)))))"
            };
        }
        const NEWEST: &str =
            concat!("SELECT w.chunk_id FROM words w WHERE ", having!(), " ORDER BY w.chunk_id DESC LIMIT $5");
        const NEWEST_OF_EACH: &str =
            newest_of_each!("SELECT w.chunk_id FROM words w WHERE ", having!(), "w.chunk_id", "$5");
        let Some((first, others)) = asked.split_first() else { return Ok(Vec::new()) };
        let others: Vec<&str> = others.iter().map(|asked| asked.stem.as_str()).collect();
        let others = json(&others);
        let sql = if wanted.each_max.is_some() { NEWEST_OF_EACH } else { NEWEST };
        on_reader!(&self.pool, |db| {
            let query = sqlx::query_scalar(sql).bind(on.number).bind(&first.stem).bind(&others);
            query.bind(spaces).bind(limit(wanted.chunks_max)).fetch_all(db)
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
