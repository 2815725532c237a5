//! The chunks of a memory as rows: their texts, their words and their vectors.
//!
//! They are written many rows at a time: on PostgreSQL every statement is a round trip.

use std::borrow::Cow;

use domain::words::{Counted, counted};

use super::ChunkPut;
use crate::passage::vector::packed;
use crate::passage::words::token;
use crate::row::storable;

/// A chunk, ready to be written.
pub(super) struct PreparedChunk<'a> {
    /// Its place among the chunks of its memory, from 0.
    pub(super) ordinal: i64,
    /// Its text.
    pub(super) content: Cow<'a, str>,
    /// Its stems.
    pub(super) counted: Counted,
    /// Its vector, packed.
    pub(super) vector: Option<Vec<u8>>,
}

impl<'a> PreparedChunk<'a> {
    /// Counts the words of a chunk, those of its title weighted.
    pub(super) fn of(title: &str, ordinal: i64, chunk: &ChunkPut<'a>) -> Self {
        let content = storable(chunk.content);
        Self { ordinal, counted: counted(title, &content), vector: chunk.vector.map(packed), content }
    }

    /// Its stems as FTS5 takes them.
    pub(super) fn tokens(&self, shelf_number: i64) -> String {
        let mut text = String::new();
        for (stem, count) in &self.counted.stems {
            for _ in 0..*count {
                text.push_str(&token(shelf_number, stem));
                text.push(' ');
            }
        }
        text
    }
}

/// The postings of chunks as [`POSTINGS_ADD`] takes them: the stems between blanks, and three arrays as PostgreSQL writes them.
///
/// They are in the order of the index, so that neighbours in it are written one after the other.
pub(super) fn postings(written: &[(i64, &PreparedChunk<'_>)]) -> [String; 4] {
    let mut rows: Vec<(&str, i64, u32, u32)> = written
        .iter()
        .flat_map(|(id, piece)| {
            piece.counted.stems.iter().map(|(stem, count)| (stem.as_str(), *id, *count, piece.counted.length))
        })
        .collect();
    rows.sort_unstable();
    let stems = rows.iter().map(|row| row.0).collect::<Vec<_>>().join(" ");
    let array = |number: fn(&(&str, i64, u32, u32)) -> i64| {
        let numbers: Vec<String> = rows.iter().map(|row| number(row).to_string()).collect();
        format!("{{{}}}", numbers.join(","))
    };
    [stems, array(|row| row.1), array(|row| row.2.into()), array(|row| row.3.into())]
}

/// Writes postings of a shelf (`$1`) into PostgreSQL.
pub(super) const POSTINGS_ADD: &str = "INSERT INTO words (shelf, stem, chunk_id, frequency, length)
    SELECT $1, w.stem, w.chunk_id, w.frequency, w.length FROM UNNEST(string_to_array($2, ' '), CAST($3 AS BIGINT[]),
        CAST($4 AS BIGINT[]), CAST($5 AS BIGINT[])) AS w (stem, chunk_id, frequency, length)";

/// Chunks whose postings are one statement on PostgreSQL.
pub(super) const AT_ONCE: usize = 256;

/// Writes chunks with their words and their vectors.
macro_rules! pieces_add {
    ($tx:ident, $Db:ident, $pieces:expr, $memory:expr, $shelf:expr, $model:expr, $postgres:expr) => {
        for pieces in $pieces.chunks(piece::AT_ONCE) {
            let mut ids: Vec<(i64, i64)> = Vec::with_capacity(pieces.len());
            for pieces in chunks(pieces) {
                let mut sql = QueryBuilder::<$Db>::new("INSERT INTO chunks (memory_id, ordinal, content, words) ");
                sql.push_values(pieces, |mut row, piece| {
                    row.push_bind($memory).push_bind(piece.ordinal);
                    row.push_bind(&*piece.content).push_bind(i64::from(piece.counted.length));
                });
                sql.push(" RETURNING ordinal, id");
                ids.extend(sql.build_query_as::<(i64, i64)>().fetch_all(&mut *$tx).await?);
            }
            // Neither database says in which order they come back.
            ids.sort_unstable();
            let written: Vec<(i64, &PreparedChunk<'_>)> = ids.into_iter().map(|(_, id)| id).zip(pieces).collect();
            if $postgres {
                let [stems, chunks, frequencies, lengths] = piece::postings(&written);
                let query = sqlx::query(piece::POSTINGS_ADD).bind($shelf).bind(stems).bind(chunks);
                query.bind(frequencies).bind(lengths).execute(&mut *$tx).await?;
            }
            for written in chunks(&written) {
                if !$postgres {
                    let mut sql = QueryBuilder::<$Db>::new("INSERT INTO words (rowid, stems) ");
                    sql.push_values(written, |mut row, (id, piece)| {
                        row.push_bind(*id).push_bind(piece.tokens($shelf));
                    });
                    sql.build().execute(&mut *$tx).await?;
                }
                let mut sql = QueryBuilder::<$Db>::new("INSERT INTO vectors (chunk_id, model, dimensions, vector) ");
                sql.push_values(written, |mut row, (id, piece)| {
                    let (model, vector) = match (&$model, &piece.vector) {
                        (Some(model), Some(vector)) => (model.as_str(), vector.as_slice()),
                        _ => (NOT_EMBEDDED, &[][..]),
                    };
                    row.push_bind(*id).push_bind(model).push_bind(limit(vector.len() / 2)).push_bind(vector);
                });
                sql.build().execute(&mut *$tx).await?;
            }
        }
    };
}
pub(super) use pieces_add;
