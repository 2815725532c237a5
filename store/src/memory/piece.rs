//! The chunks of a memory as rows: their texts, their words and their vectors.
//!
//! They are written many rows at a time: on PostgreSQL every statement is a round trip.

use std::borrow::Cow;

use domain::words::{Counted, counted};
use serde_json::json;

use super::ChunkPut;
use crate::passage::vector::packed;
use crate::passage::words::token;
use crate::row::storable;

/// A chunk, ready to be written.
pub(super) struct Piece<'a> {
    /// Its place among the chunks of its memory, from 0.
    pub(super) ordinal: i64,
    /// Its text.
    pub(super) content: Cow<'a, str>,
    /// Its stems.
    pub(super) counted: Counted,
    /// Its vector, packed.
    pub(super) vector: Option<Vec<u8>>,
}

impl<'a> Piece<'a> {
    /// Counts the words of a chunk, those of its title weighted.
    pub(super) fn of(title: &str, ordinal: i64, chunk: &ChunkPut<'a>) -> Self {
        let content = storable(chunk.content);
        Self { ordinal, counted: counted(title, &content), vector: chunk.vector.map(packed), content }
    }

    /// Its stems as FTS5 takes them.
    pub(super) fn tokens(&self, shelf: i64) -> String {
        let mut text = String::new();
        for (stem, count) in &self.counted.stems {
            for _ in 0..*count {
                text.push_str(&token(shelf, stem));
                text.push(' ');
            }
        }
        text
    }
}

/// The stems of chunks as [`POSTINGS_ADD`] takes them. In the order of the index: rows that are neighbours there are found once.
pub(super) fn postings(pieces: &[(i64, &Piece<'_>)]) -> String {
    let mut rows: Vec<(&str, i64, u32, u32)> = pieces
        .iter()
        .flat_map(|(id, piece)| {
            piece.counted.stems.iter().map(|(stem, count)| (stem.as_str(), *id, *count, piece.counted.length))
        })
        .collect();
    rows.sort_unstable();
    let (mut stems, mut chunks, mut frequencies, mut lengths) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (stem, chunk, frequency, length) in rows {
        stems.push(stem);
        chunks.push(chunk);
        frequencies.push(frequency);
        lengths.push(length);
    }
    json!([stems, chunks, frequencies, lengths]).to_string()
}

/// Writes the postings of a shelf (`$1`) into PostgreSQL: `$2` is four arrays of one length.
pub(super) const POSTINGS_ADD: &str = "INSERT INTO words (shelf, stem, chunk_id, frequency, length)
    SELECT $1, w.stem, CAST(w.chunk AS BIGINT), CAST(w.frequency AS BIGINT), CAST(w.length AS BIGINT)
    FROM (SELECT CAST($2 AS json) AS j) p, ROWS FROM (
        json_array_elements_text(p.j->0), json_array_elements_text(p.j->1),
        json_array_elements_text(p.j->2), json_array_elements_text(p.j->3)
    ) AS w (stem, chunk, frequency, length)";

/// Writes a slice of [`crate::row::chunks`] with its words and its vectors.
macro_rules! pieces_add {
    ($tx:ident, $Db:ident, $pieces:expr, $memory:expr, $shelf:expr, $model:expr, $postgres:expr) => {{
        let mut sql = sqlx::QueryBuilder::<$Db>::new("INSERT INTO chunks (memory_id, ordinal, content, words) ");
        sql.push_values($pieces, |mut row, piece| {
            row.push_bind($memory).push_bind(piece.ordinal);
            row.push_bind(&*piece.content).push_bind(i64::from(piece.counted.length));
        });
        sql.push(" RETURNING ordinal, id");
        let mut ids: Vec<(i64, i64)> = sql.build_query_as().fetch_all(&mut *$tx).await?;
        // Neither database says in which order they come back.
        ids.sort_unstable();
        let written: Vec<(i64, &$crate::memory::piece::Piece<'_>)> =
            ids.into_iter().map(|(_, id)| id).zip($pieces).collect();
        if $postgres {
            let postings = $crate::memory::piece::postings(&written);
            let query = sqlx::query($crate::memory::piece::POSTINGS_ADD).bind($shelf).bind(postings);
            query.execute(&mut *$tx).await?;
        } else {
            let mut sql = sqlx::QueryBuilder::<$Db>::new("INSERT INTO words (rowid, stems) ");
            sql.push_values(&written, |mut row, (id, piece)| {
                row.push_bind(*id).push_bind(piece.tokens($shelf));
            });
            sql.build().execute(&mut *$tx).await?;
        }
        let mut sql = sqlx::QueryBuilder::<$Db>::new("INSERT INTO vectors (chunk_id, model, dimensions, vector) ");
        sql.push_values(&written, |mut row, (id, piece)| {
            let (model, vector) = match (&$model, &piece.vector) {
                (Some(model), Some(vector)) => (model.as_str(), vector.as_slice()),
                _ => ($crate::passage::vector::NOT_EMBEDDED, &[][..]),
            };
            row.push_bind(*id).push_bind(model);
            row.push_bind($crate::row::limit(vector.len() / 2)).push_bind(vector);
        });
        sql.build().execute(&mut *$tx).await?;
    }};
}
pub(super) use pieces_add;
