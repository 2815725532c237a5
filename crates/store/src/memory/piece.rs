//! The chunks of a memory as rows: texts, words and vectors.
//!
//! Many rows are written per statement, because on PostgreSQL every statement is a round trip.

use std::borrow::Cow;

use domain::language::Language;
use domain::words::{StemCounts, counted};
use uuid::Uuid;

use super::ChunkPut;
use crate::chunk::vector::{NOT_EMBEDDED, packed};
use crate::chunk::words::token;
use crate::pool::{QueryBuilder, Tx, query};
use crate::row::{chunks, limit, storable};

/// A chunk, ready to be written.
pub(super) struct PreparedChunk<'a> {
    /// Its index among the chunks of its memory, from 0.
    pub(super) ordinal: i64,
    /// Its text.
    pub(super) content: Cow<'a, str>,
    /// Its stems.
    pub(super) counted: StemCounts,
    /// Its vector, packed.
    pub(super) vector: Option<Vec<u8>>,
}

impl<'a> PreparedChunk<'a> {
    /// Counts the words of a memory's chunks in the language of the memory; words of the title are weighted.
    pub(super) fn all(title: &str, chunks: &[ChunkPut<'a>]) -> (Language, Vec<Self>) {
        let language = Language::of(std::iter::once(title).chain(chunks.iter().map(|chunk| chunk.content)));
        let piece = |(ordinal, chunk): (i64, &ChunkPut<'a>)| {
            let content = storable(chunk.content);
            Self { ordinal, counted: counted(title, &content, language), vector: chunk.vector.map(packed), content }
        };
        (language, (0..).zip(chunks).map(piece).collect())
    }
}

/// The stems as FTS5 tokens.
fn tokens(counted: &StemCounts, account_index_number: i64) -> String {
    let mut text = String::new();
    for (stem, count) in &counted.stems {
        for _ in 0..*count {
            text.push_str(&token(account_index_number, stem));
            text.push(' ');
        }
    }
    text
}

/// The stems of stored chunks, by chunk number.
type CountedChunks<'p> = Vec<(i64, &'p StemCounts)>;

/// Inserts the words of chunks, in the caller's transaction.
pub(super) async fn insert_words(
    tx: &mut Tx<'_>,
    written: &[(i64, &StemCounts)],
    account_index_number: i64,
) -> Result<(), sqlx::Error> {
    if tx.is_postgres() {
        for written in written.chunks(AT_ONCE) {
            insert_postings(tx, written, account_index_number).await?;
        }
    } else {
        for written in chunks(written) {
            insert_tokens(tx, written, account_index_number).await?;
        }
    }
    Ok(())
}

/// Deletes the words of a memory's chunks, in the caller's transaction.
pub(super) async fn delete_words(tx: &mut Tx<'_>, memory: Uuid) -> Result<(), sqlx::Error> {
    const SQLITE: &str = "DELETE FROM words WHERE rowid IN (SELECT id FROM chunks WHERE memory_id = $1)";
    const POSTGRES: &str = "DELETE FROM words WHERE chunk_id IN (SELECT id FROM chunks WHERE memory_id = $1)";
    let sql = if tx.is_postgres() { POSTGRES } else { SQLITE };
    query(sql).bind(memory).execute(tx).await.map(drop)
}

/// Inserts the chunks of a memory with their words and their vectors, in the caller's transaction.
pub(super) async fn insert_chunks(
    tx: &mut Tx<'_>,
    all: &[PreparedChunk<'_>],
    memory: Uuid,
    account_index_number: i64,
    model: Option<&str>,
) -> Result<(), sqlx::Error> {
    for pieces in all.chunks(AT_ONCE) {
        let written = insert_texts(tx, pieces, memory).await?;
        let counted: CountedChunks<'_> = written.iter().map(|(id, piece)| (*id, &piece.counted)).collect();
        insert_words(tx, &counted, account_index_number).await?;
        for written in chunks(&written) {
            insert_vectors(tx, written, model).await?;
        }
    }
    Ok(())
}

/// Number of chunks with postings in one statement on PostgreSQL.
const AT_ONCE: usize = 256;

/// Inserts the texts; returns the chunks with the ids of their rows.
async fn insert_texts<'p, 'a>(
    tx: &mut Tx<'_>,
    pieces: &'p [PreparedChunk<'a>],
    memory: Uuid,
) -> Result<Vec<(i64, &'p PreparedChunk<'a>)>, sqlx::Error> {
    let mut ids: Vec<(i64, i64)> = Vec::with_capacity(pieces.len());
    for pieces in chunks(pieces) {
        let mut sql = QueryBuilder::new("INSERT INTO chunks (memory_id, ordinal, content, words) ");
        sql.push_values(pieces, |mut row, piece| {
            row.push_bind(memory).push_bind(piece.ordinal);
            row.push_bind(&*piece.content).push_bind(i64::from(piece.counted.length));
        });
        sql.push(" RETURNING ordinal, id");
        ids.extend(sql.build().fetch_all::<(i64, i64)>(&mut *tx).await?);
    }
    // Neither database defines the order of the returned rows.
    ids.sort_unstable();
    Ok(ids.into_iter().map(|(_, id)| id).zip(pieces).collect())
}

/// Inserts the words on SQLite: one row of the FTS5 table per chunk.
async fn insert_tokens(
    tx: &mut Tx<'_>,
    written: &[(i64, &StemCounts)],
    account_index_number: i64,
) -> Result<(), sqlx::Error> {
    let mut sql = QueryBuilder::new("INSERT INTO words (rowid, stems) ");
    sql.push_values(written, |mut row, (id, counted)| {
        row.push_bind(*id).push_bind(tokens(counted, account_index_number));
    });
    sql.build().execute(tx).await.map(drop)
}

/// Inserts the words on PostgreSQL: the stems separated by spaces, and three arrays in PostgreSQL's text form, in the order
/// of the index, so that neighbours in the index are written one after the other.
async fn insert_postings(
    tx: &mut Tx<'_>,
    written: &[(i64, &StemCounts)],
    account_index_number: i64,
) -> Result<(), sqlx::Error> {
    const SQL: &str = "INSERT INTO words (account_index, stem, chunk_id, frequency, length)
        SELECT $1, w.stem, w.chunk_id, w.frequency, w.length FROM UNNEST(string_to_array($2, ' '), CAST($3 AS BIGINT[]),
            CAST($4 AS BIGINT[]), CAST($5 AS BIGINT[])) AS w (stem, chunk_id, frequency, length)";
    let mut rows: Vec<(&str, i64, u32, u32)> = written
        .iter()
        .flat_map(|(id, counted)| {
            counted.stems.iter().map(|(stem, count)| (stem.as_str(), *id, *count, counted.length))
        })
        .collect();
    rows.sort_unstable();
    let stems = rows.iter().map(|row| row.0).collect::<Vec<_>>().join(" ");
    let array = |number: fn(&(&str, i64, u32, u32)) -> i64| {
        let numbers: Vec<String> = rows.iter().map(|row| number(row).to_string()).collect();
        format!("{{{}}}", numbers.join(","))
    };
    query(SQL)
        .bind(account_index_number)
        .bind(stems)
        .bind(array(|row| row.1))
        .bind(array(|row| row.2.into()))
        .bind(array(|row| row.3.into()))
        .execute(tx)
        .await
        .map(drop)
}

/// Inserts the vectors. A chunk without one gets a row without a model, by which it is found and embedded later.
async fn insert_vectors(
    tx: &mut Tx<'_>,
    written: &[(i64, &PreparedChunk<'_>)],
    model: Option<&str>,
) -> Result<(), sqlx::Error> {
    let mut sql = QueryBuilder::new("INSERT INTO vectors (chunk_id, model, dimensions, vector) ");
    sql.push_values(written, |mut row, (id, piece)| {
        let (model, vector) = match (model, &piece.vector) {
            (Some(model), Some(vector)) => (model, vector.as_slice()),
            _ => (NOT_EMBEDDED, &[][..]),
        };
        row.push_bind(*id).push_bind(model).push_bind(limit(vector.len() / 2)).push_bind(vector);
    });
    sql.build().execute(tx).await.map(drop)
}

/// Deletes the chunks of a memory, with their words and links to spaces. The foreign key deletes their vectors.
pub(super) async fn delete_chunks(tx: &mut Tx<'_>, memory: Uuid) -> Result<(), sqlx::Error> {
    const PLACES: &str =
        "DELETE FROM space_chunks WHERE space_id IN (SELECT space_id FROM memory_spaces WHERE memory_id = $1)
        AND account_index = (SELECT account_index FROM memories WHERE id = $1)
        AND chunk_id IN (SELECT id FROM chunks WHERE memory_id = $1)";
    const CHUNKS: &str = "DELETE FROM chunks WHERE memory_id = $1";
    delete_words(tx, memory).await?;
    for sql in [PLACES, CHUNKS] {
        query(sql).bind(memory).execute(&mut *tx).await?;
    }
    Ok(())
}
