//! Candidates for words that are so common that ranking all their entries takes too long.
//!
//! The newest chunks are candidates, and the caller ranks them by their texts. Two walks find them: one over the chunks of the spaces, if
//! the search is limited to spaces, and one over the entries of the rarest word, below the chunks of the first walk. Each walk ends after a
//! given number of entries, so the work depends neither on the size of the account nor on the number of newer chunks outside the spaces. A
//! space with fewer chunks than the requested candidates is read completely.

use std::collections::HashSet;

use domain::ids::{MemoryId, SpaceId};
use domain::language::Language;
use uuid::Uuid;

use super::words::{B, K1, QueryStem, array, quoted};
use super::{AccountStatistics, ChunkId, language_of};
use crate::error::{Corrupt, StoreError};
use crate::memory::json;
use crate::operation::{During, Operation};
use crate::pool::{query, scalar};
use crate::row::limit;
use crate::{Store, joined};

/// Limits of a search for common words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommonWordsLimits {
    /// Maximum number of candidates.
    pub chunks_max: usize,
    /// Maximum number of entries of a word that a walk reads.
    pub walked_max: usize,
    /// Whether the best chunks that contain all words are candidates, instead of the newest. SQLite then reads all entries of each word.
    pub is_ranked: bool,
}

/// The text of a chunk, for ranking by words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkText {
    /// Number of the chunk.
    pub chunk: ChunkId,
    /// Id of the memory that contains it.
    pub memory: MemoryId,
    /// The title of the memory.
    pub title: String,
    /// Language of the memory, in which its words are stemmed.
    pub language: Language,
    /// Text of the chunk.
    pub content: String,
    /// Its length in words; words of the title are weighted.
    pub words: u32,
}

/// Greater than the number of every chunk.
const TOP: i64 = i64::MAX;

/// The newest chunks of each of the spaces: a row with a JSON array for each.
const NEWEST_SQLITE: &str = "SELECT (SELECT json_group_array(chunk_id) FROM (SELECT l.chunk_id FROM space_chunks l
        WHERE l.space_id = unhex(replace(w.value, '-', '')) AND l.account_index = $1 ORDER BY l.chunk_id DESC LIMIT $3))
    FROM json_each($2) w";
const NEWEST_POSTGRES: &str =
    "SELECT COALESCE((SELECT CAST(json_agg(n.chunk_id) AS TEXT) FROM (SELECT l.chunk_id FROM space_chunks l
        WHERE l.space_id = w.space_id AND l.account_index = $1 ORDER BY l.chunk_id DESC LIMIT $3) n), '[]')
    FROM UNNEST(CAST($2 AS UUID[])) w (space_id)";

/// The chunk at which a walk over the entries of a word ends. Parameters: word, chunk below which the walk starts, entries.
const FLOOR_SQLITE: &str = "SELECT COALESCE((SELECT rowid FROM words WHERE words MATCH $1 AND rowid < $2
    ORDER BY rowid DESC LIMIT 1 OFFSET $3), 0)";
/// The same. Parameters: account index, word, chunk, entries.
const FLOOR_POSTGRES: &str =
    "SELECT COALESCE((SELECT chunk_id FROM words WHERE account_index = $1 AND stem = $2 AND chunk_id < $3
    ORDER BY chunk_id DESC LIMIT 1 OFFSET $4), 0)";

/// The newest chunks in a range, as a JSON array. Parameters: words, from, below, chunks; spaces and account index.
const MATCHING_SQLITE: &str = "SELECT json_group_array(id) FROM (SELECT words.rowid AS id FROM words
    WHERE words.words MATCH $1 AND words.rowid >= $2 AND words.rowid < $3 AND ";
const ANYWHERE: &str = "$5 IS NULL AND $6 > 0";
/// One index lookup for each space, independent of the size of the spaces.
const IN_SPACES: &str = "EXISTS (SELECT 1 FROM space_chunks l
    WHERE l.space_id IN (SELECT unhex(replace(value, '-', '')) FROM json_each($5)) AND l.account_index = $6
        AND l.chunk_id = words.rowid)";
const NEWEST_FIRST: &str = " ORDER BY words.rowid DESC LIMIT $4)";
const BEST_FIRST: &str = " ORDER BY rank LIMIT $4)";
const NEWEST_MATCHING: &str = joined!(MATCHING_SQLITE, ANYWHERE, NEWEST_FIRST);
const NEWEST_MATCHING_IN_SPACES: &str = joined!(MATCHING_SQLITE, IN_SPACES, NEWEST_FIRST);
const BEST_MATCHING: &str = joined!(MATCHING_SQLITE, ANYWHERE, BEST_FIRST);
const BEST_MATCHING_IN_SPACES: &str = joined!(MATCHING_SQLITE, IN_SPACES, BEST_FIRST);

/// The newest entries of the rarest word, and among these the best chunks by all words.
const MATCHING_POSTGRES: &str =
    "SELECT chunk_id FROM (SELECT n.chunk_id,
            (SELECT SUM(q.weight * COALESCE((SELECT o.frequency * ($9 + 1) / (o.frequency + $9 * (1 - $10 + $10 * o.length / $11))
                    FROM words o WHERE o.account_index = $1 AND o.stem = q.stem AND o.chunk_id = n.chunk_id), 0))
                FROM UNNEST(string_to_array($5, ' '), CAST($6 AS DOUBLE PRECISION[])) q (stem, weight)) AS score
        FROM (SELECT w.chunk_id FROM words w WHERE w.account_index = $1 AND w.stem = $2 AND w.chunk_id < $3
            ORDER BY w.chunk_id DESC LIMIT $4) n
        WHERE $7 IS NULL OR COALESCE((SELECT TRUE FROM space_chunks l WHERE l.space_id = ANY(CAST($7 AS UUID[]))
            AND l.account_index = $1 AND l.chunk_id = n.chunk_id LIMIT 1), FALSE)
    ) matching ORDER BY score DESC, chunk_id DESC LIMIT $8";

/// A walk from the newest chunk to the newest chunk of the next memory: the chunks of a memory have consecutive numbers. The parts are the
/// text before the statement that selects the next chunk, before its order, before the maximum number of memories, and after it.
const WALK: [&str; 4] = [
    "WITH RECURSIVE walked (id, nth) AS (
        SELECT CAST(9223372036854775807 AS BIGINT), CAST(0 AS BIGINT)
        UNION ALL
        SELECT (",
    " < COALESCE((SELECT first.id FROM chunks last JOIN chunks first ON first.memory_id = last.memory_id
                WHERE last.id = walked.id ORDER BY first.ordinal LIMIT 1), walked.id)",
    "), walked.nth + 1
        FROM walked WHERE walked.id IS NOT NULL AND walked.nth < ",
    ") SELECT id FROM walked WHERE nth > 0 AND id IS NOT NULL",
];

const MEMORIES_SQLITE: &str = joined!(
    WALK[0],
    "SELECT words.rowid FROM words WHERE words.words MATCH $1 AND words.rowid >= $2 AND words.rowid",
    WALK[1],
    " ORDER BY words.rowid DESC LIMIT 1",
    WALK[2],
    "$3",
    WALK[3],
);
const MEMORIES_POSTGRES: &str = joined!(
    WALK[0],
    "SELECT w.chunk_id FROM words w WHERE w.account_index = $1 AND w.stem = $2 AND w.chunk_id >= $4
        AND NOT EXISTS (SELECT 1 FROM json_array_elements_text(CAST($3 AS json)) q
            WHERE NOT EXISTS (SELECT 1 FROM words o WHERE o.account_index = $1 AND o.stem = q.value AND o.chunk_id = w.chunk_id))
        AND w.chunk_id",
    WALK[1],
    " ORDER BY w.chunk_id DESC LIMIT 1",
    WALK[2],
    "$5",
    WALK[3],
);
const MEMORIES_OF_SPACES_SQLITE: &str = joined!(
    WALK[0],
    "SELECT MAX((SELECT l.chunk_id FROM space_chunks l
        WHERE l.space_id = unhex(replace(w.value, '-', '')) AND l.account_index = $1 AND l.chunk_id",
    WALK[1],
    " ORDER BY l.chunk_id DESC LIMIT 1)) FROM json_each($2) w",
    WALK[2],
    "$3",
    WALK[3],
);
const MEMORIES_OF_SPACES_POSTGRES: &str = joined!(
    WALK[0],
    "SELECT MAX((SELECT l.chunk_id FROM space_chunks l WHERE l.space_id = w.space_id AND l.account_index = $1 AND l.chunk_id",
    WALK[1],
    " ORDER BY l.chunk_id DESC LIMIT 1)) FROM UNNEST(CAST($2 AS UUID[])) w (space_id)",
    WALK[2],
    "$3",
    WALK[3],
);

impl Store {
    /// Candidates among the chunks of an account index for stems that are all common, the rarest first; in `spaces`, or without a limit.
    /// The candidates have no order, and some may contain none of the stems.
    #[boxed]
    pub async fn chunks_with_common_words(
        &self,
        on: &AccountStatistics,
        asked: &[QueryStem],
        spaces: Option<&[SpaceId]>,
        reach: CommonWordsLimits,
    ) -> Result<Vec<ChunkId>, StoreError> {
        const DO: Operation = Operation::FindChunksWithCommonWords;
        if asked.is_empty() || reach.chunks_max == 0 {
            return Ok(Vec::new());
        }
        let (mut found, mut below, mut walked_max) = (Vec::new(), TOP, reach.walked_max);
        if let Some(spaces) = spaces {
            found = self.newest_of_spaces(on, spaces, reach.chunks_max).await?;
            if found.len() < reach.chunks_max {
                return Ok(found);
            }
            found.truncate(reach.chunks_max.div_ceil(2));
            below = found.last().copied().unwrap_or(TOP);
            // Half of the candidates and half of the entries, because each candidate costs a lookup of the spaces.
            walked_max = walked_max.div_ceil(2);
        }
        let rest = CommonWordsLimits { chunks_max: reach.chunks_max - found.len(), walked_max, ..reach };
        let matching = if self.memory()?.is_postgres() {
            self.matching_by_postgres(on, asked, spaces, below, rest).during(DO).await?
        } else {
            self.matching_by_fts5(on, asked, spaces, below, rest).during(DO).await?
        };
        found.extend(matching);
        Ok(found)
    }

    /// One chunk of each of the newest memories. Of an account index: the newest chunk with every stem, as far as the walk over the entries
    /// of the first stem reaches. Of spaces: the newest chunk.
    #[boxed]
    pub async fn chunks_of_newest_memories(
        &self,
        on: &AccountStatistics,
        asked: &[QueryStem],
        spaces: Option<&[SpaceId]>,
        memories_max: usize,
        walked_max: usize,
    ) -> Result<Vec<ChunkId>, StoreError> {
        const DO: Operation = Operation::FindNewestMemoriesWithCommonWords;
        let (Some((first, others)), most) = (asked.split_first(), limit(memories_max)) else { return Ok(Vec::new()) };
        let is_postgres = self.memory()?.is_postgres();
        if let Some(spaces) = spaces {
            let (sql, spaces) = if is_postgres {
                (MEMORIES_OF_SPACES_POSTGRES, array(spaces))
            } else {
                (MEMORIES_OF_SPACES_SQLITE, json(spaces))
            };
            return scalar(sql).bind(on.number).bind(&spaces).bind(most).fetch_all(self.memory()?).during(DO).await;
        }
        let floor = self.floor(on, first, TOP, walked_max).during(DO).await?;
        let query = if is_postgres {
            let others = json(&others.iter().map(|asked| asked.stem.as_str()).collect::<Vec<_>>());
            scalar(MEMORIES_POSTGRES).bind(on.number).bind(&first.stem).bind(others).bind(floor)
        } else {
            scalar(MEMORIES_SQLITE).bind(quoted(on, asked).join(" AND ")).bind(floor)
        };
        query.bind(most).fetch_all(self.memory()?).during(DO).await
    }

    /// The texts of chunks, in any order. Deleted chunks are left out.
    #[boxed]
    pub async fn chunk_texts(&self, chunks: &[ChunkId]) -> Result<Vec<ChunkText>, StoreError> {
        const SQLITE: &str = "SELECT c.id, c.memory_id, m.title, m.language, c.content, c.words
            FROM chunks c JOIN memories m ON m.id = c.memory_id WHERE c.id IN (SELECT value FROM json_each($1))";
        const POSTGRES: &str = "SELECT c.id, c.memory_id, m.title, m.language, c.content, c.words
            FROM chunks c JOIN memories m ON m.id = c.memory_id
            WHERE c.id IN (SELECT CAST(value AS BIGINT) FROM json_array_elements_text(CAST($1 AS json)))";
        if chunks.is_empty() {
            return Ok(Vec::new());
        }
        let sql = if self.memory()?.is_postgres() { POSTGRES } else { SQLITE };
        let chunks = json(chunks);
        let rows: Vec<TextRow> =
            query(sql).bind(&chunks).fetch_all(self.memory()?).during(Operation::ReadTextsOfChunks).await?;
        Ok(rows.into_iter().map(ChunkText::try_from).collect::<Result<_, _>>()?)
    }

    /// The newest chunks of an account index in the given spaces, newest first.
    async fn newest_of_spaces(
        &self,
        on: &AccountStatistics,
        spaces: &[SpaceId],
        chunks_max: usize,
    ) -> Result<Vec<ChunkId>, StoreError> {
        let (sql, spaces) =
            if self.memory()?.is_postgres() { (NEWEST_POSTGRES, array(spaces)) } else { (NEWEST_SQLITE, json(spaces)) };
        let lists: Vec<String> = scalar(sql)
            .bind(on.number)
            .bind(&spaces)
            .bind(limit(chunks_max))
            .fetch_all(self.memory()?)
            .during(Operation::FindNewestChunksOfSpaces)
            .await?;
        let mut newest = Vec::new();
        for list in &lists {
            newest.extend(numbers(list)?);
        }
        newest.sort_unstable_by_key(|chunk| std::cmp::Reverse(*chunk));
        newest.dedup();
        newest.truncate(chunks_max);
        Ok(newest)
    }

    /// The chunk at which a walk over the entries of a stem ends; the walk starts below a given chunk.
    async fn floor(
        &self,
        on: &AccountStatistics,
        stem: &QueryStem,
        below: i64,
        walked_max: usize,
    ) -> Result<i64, sqlx::Error> {
        if self.memory_pool()?.is_postgres() {
            scalar(FLOOR_POSTGRES)
                .bind(on.number)
                .bind(&stem.stem)
                .bind(below)
                .bind(limit(walked_max))
                .fetch_one(self.memory_pool()?)
                .await
        } else {
            let term = quoted(on, std::slice::from_ref(stem)).concat();
            scalar(FLOOR_SQLITE).bind(&term).bind(below).bind(limit(walked_max)).fetch_one(self.memory_pool()?).await
        }
    }

    /// The newest or best chunks with all stems; if too few, then with the rarer half of the stems, then with the rarest.
    async fn matching_by_fts5(
        &self,
        on: &AccountStatistics,
        asked: &[QueryStem],
        spaces: Option<&[SpaceId]>,
        below: i64,
        reach: CommonWordsLimits,
    ) -> Result<Vec<ChunkId>, sqlx::Error> {
        let floor = self.floor(on, &asked[0], below, reach.walked_max).await?;
        let (terms, spaces) = (quoted(on, asked), spaces.map(json));
        let mut counts = vec![asked.len(), asked.len().div_ceil(2), 1];
        counts.dedup();
        let (mut found, mut known) = (Vec::new(), HashSet::new());
        for count in counts {
            let query = terms[..count].join(" AND ");
            let sql = match (reach.is_ranked && count == asked.len(), spaces.is_some()) {
                (true, false) => BEST_MATCHING,
                (true, true) => BEST_MATCHING_IN_SPACES,
                (false, false) => NEWEST_MATCHING,
                (false, true) => NEWEST_MATCHING_IN_SPACES,
            };
            let list: String = scalar(sql)
                .bind(&query)
                .bind(floor)
                .bind(below)
                .bind(limit(reach.chunks_max))
                .bind(&spaces)
                .bind(on.number)
                .fetch_one(self.memory_pool()?)
                .await?;
            let chunks = numbers(&list).map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
            found.extend(chunks.into_iter().filter(|chunk| known.insert(*chunk)));
            if found.len() >= reach.chunks_max {
                break;
            }
        }
        found.truncate(reach.chunks_max);
        Ok(found)
    }

    /// A lookup of a stem in a chunk counts as an entry.
    async fn matching_by_postgres(
        &self,
        on: &AccountStatistics,
        asked: &[QueryStem],
        spaces: Option<&[SpaceId]>,
        below: i64,
        reach: CommonWordsLimits,
    ) -> Result<Vec<ChunkId>, sqlx::Error> {
        let Some(first) = asked.first() else { return Ok(Vec::new()) };
        let entries_max = (reach.walked_max / asked.len()).max(reach.chunks_max);
        let stems = asked.iter().map(|asked| asked.stem.as_str()).collect::<Vec<_>>().join(" ");
        let weights: Vec<String> = asked.iter().map(|asked| asked.weight.to_string()).collect();
        let (weights, spaces) = (format!("{{{}}}", weights.join(",")), spaces.map(array));
        {
            let query = scalar(MATCHING_POSTGRES).bind(on.number).bind(&first.stem).bind(below);
            let query = query.bind(limit(entries_max)).bind(&stems).bind(&weights);
            let query = query.bind(&spaces).bind(limit(reach.chunks_max));
            query.bind(K1).bind(B).bind(on.length_average()).fetch_all(self.memory_pool()?)
        }
        .await
    }
}

/// A JSON array of chunks.
fn numbers(list: &str) -> Result<Vec<ChunkId>, Corrupt> {
    serde_json::from_str(list).map_err(|error| Corrupt::new("space_chunks.chunk_id", error))
}

crate::row! {
    struct TextRow {
        id: i64,
        memory_id: Uuid,
        title: String,
        language: String,
        content: String,
        words: i64,
    }
}

impl TryFrom<TextRow> for ChunkText {
    type Error = Corrupt;

    fn try_from(row: TextRow) -> Result<Self, Corrupt> {
        Ok(Self {
            chunk: row.id,
            memory: row.memory_id.into(),
            title: row.title,
            language: language_of(&row.language),
            content: row.content,
            words: crate::row::count("chunks.words", row.words)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DatabaseSettings, Pool};

    #[tokio::test]
    async fn no_walk_reads_a_table_from_end_to_end() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&DatabaseSettings::default(), &folder.path().join("attache.db")).await.unwrap();
        store.migrate().await.unwrap();
        let Pool::Sqlite { file, .. } = store.pool() else { unreachable!() };
        let reader = file.reader().unwrap();
        for sql in [
            NEWEST_SQLITE,
            FLOOR_SQLITE,
            NEWEST_MATCHING,
            NEWEST_MATCHING_IN_SPACES,
            BEST_MATCHING,
            BEST_MATCHING_IN_SPACES,
            MEMORIES_SQLITE,
            MEMORIES_OF_SPACES_SQLITE,
        ] {
            // A query plan needs no arguments.
            let mut plan = reader.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let steps = plan.raw_query().mapped(|row| row.get("detail"));
            let steps: Vec<String> = steps.collect::<Result<_, _>>().unwrap();
            assert!(!steps.is_empty());
            for step in &steps {
                let is_bounded = step.contains(" VIRTUAL TABLE INDEX ")
                    || ["SCAN CONSTANT ROW", "SCAN walked", "SCAN (subquery"].iter().any(|part| step.starts_with(part));
                assert!(!step.starts_with("SCAN") || is_bounded, "{sql}: {steps:#?}");
                assert!(!step.contains("TEMP B-TREE"), "{sql}: {steps:#?}");
                // In the word index, only the entries of a word are read.
                assert!(!step.contains("words VIRTUAL TABLE") || step.contains(":M1"), "{sql}: {steps:#?}");
            }
        }
    }
}
