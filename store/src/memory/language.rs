//! Memories whose language was never detected: they were stored before memories had one, and their words have English stems
//! (`docs/decisions/0098-languages-of-memories.md`).

use domain::language::{Language, LanguageSet};
use domain::words::{StemCounts, counted};
use uuid::Uuid;

use super::piece::{delete_words, insert_words};
use crate::error::StoreError;
use crate::operation::{During, Operation};
use crate::pool::{Tx, query, scalar};
use crate::row::limit;
use crate::{Store, in_transaction};
use async_recursion::async_recursion as boxed;

impl Store {
    /// Detects the language of up to `memories_max` memories without one, and stems the words of those that are not English again.
    /// Returns the number of memories; a process that does the same at the same time changes nothing twice.
    #[boxed]
    pub async fn languages_detected(&self, memories_max: usize) -> Result<usize, StoreError> {
        const WAITING: &str = "SELECT id, shelf FROM memories WHERE language IS NULL LIMIT $1";
        const DO: Operation = Operation::DetectLanguages;
        let waiting: Vec<WaitingRow> =
            query(WAITING).bind(limit(memories_max)).fetch_all(&self.pool).during(DO).await?;
        let count = waiting.len();
        for WaitingRow { id, shelf } in waiting {
            in_transaction!(&self.pool, |tx| detect(tx, id, shelf).await).during(DO).await?;
        }
        Ok(count)
    }
}

async fn detect(tx: &mut Tx<'_>, memory: Uuid, shelf_number: i64) -> Result<(), sqlx::Error> {
    // Writes the shelf's row first, as every change of a memory does.
    const HOLD: &str = "UPDATE shelves SET languages = languages WHERE number = $1";
    const TITLE: &str = "SELECT title FROM memories WHERE id = $1 AND shelf = $2 AND language IS NULL";
    const CHUNKS: &str = "SELECT id, content FROM chunks WHERE memory_id = $1 ORDER BY ordinal";
    const DETECTED: &str = "UPDATE memories SET language = $2 WHERE id = $1";
    const ADD: &str = "UPDATE shelves SET languages = languages | $2 WHERE number = $1";
    query(HOLD).bind(shelf_number).execute(&mut *tx).await?;
    let title: Option<String> = scalar(TITLE).bind(memory).bind(shelf_number).fetch_optional(&mut *tx).await?;
    let Some(title) = title else { return Ok(()) };
    let chunks: Vec<(i64, String)> = query(CHUNKS).bind(memory).fetch_all(&mut *tx).await?;
    let parts = std::iter::once(&title).chain(chunks.iter().map(|(_, content)| content));
    let language = Language::of(parts.map(String::as_str));
    if language != Language::English {
        let counts: Vec<(i64, StemCounts)> =
            chunks.iter().map(|(id, content)| (*id, counted(&title, content, language))).collect();
        delete_words(tx, memory).await?;
        let written: Vec<(i64, &StemCounts)> = counts.iter().map(|(id, counted)| (*id, counted)).collect();
        insert_words(tx, &written, shelf_number).await?;
    }
    query(DETECTED).bind(memory).bind(language.to_string()).execute(&mut *tx).await?;
    query(ADD).bind(shelf_number).bind(LanguageSet::with(language).bits()).execute(tx).await.map(drop)
}

crate::row! {
    struct WaitingRow {
        id: Uuid,
        shelf: i64,
    }
}
