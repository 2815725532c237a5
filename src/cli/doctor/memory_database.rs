//! Checks the separate database of the memory.

use app::config::Settings;
use app::installation::memory_settings;
use domain::reasons;
use store::memory::database::{MemoryOpenError, MemoryRefusal};
use store::{Pool, Store};

use super::database::read_through;
use super::finding::Finding;

const MEMORY: &str = "memory database";

/// The findings; none if the memory is, and has to be, in the main database.
pub(super) async fn check(settings: &Settings, store: &Store, deep: bool) -> Vec<Finding> {
    let Some(memory) = memory_settings(settings) else {
        return match store.is_memory_elsewhere().await {
            Ok(false) => Vec::new(),
            Ok(true) => vec![Finding::bad(MEMORY, MemoryRefusal::NotConfigured, "no server starts until then")],
            Err(error) => vec![Finding::bad(MEMORY, reasons(&error), "check the database's log")],
        };
    };
    let pool = match store.memory_examine(&memory).await {
        Ok(pool) => pool,
        Err(MemoryOpenError::Refused(refusal)) => {
            return vec![Finding::bad(MEMORY, refusal, "no server starts until then")];
        }
        Err(MemoryOpenError::Store(error)) => {
            let advice = "requests about memories get 503 until it answers: check the server of knowledge.database.url";
            return vec![Finding::bad(MEMORY, reasons(&error), advice)];
        }
    };
    let findings = of_pool(&pool, store, deep).await;
    pool.close().await;
    findings
}

async fn of_pool(pool: &Pool, store: &Store, deep: bool) -> Vec<Finding> {
    let is_begun = store.is_memory_elsewhere().await;
    let mut findings = vec![match (pool.describe().await, is_begun) {
        (Ok(_), Ok(false)) => Finding::doubtful(MEMORY, "not used yet", "the next start of a server prepares it"),
        (Ok(words), Ok(true)) => Finding::good(MEMORY, words.join(", ")),
        (Err(error), _) | (_, Err(error)) => Finding::bad(MEMORY, reasons(&error), "check the database's log"),
    }];
    if deep {
        findings.push(read_through(MEMORY, pool).await);
    }
    findings
}
