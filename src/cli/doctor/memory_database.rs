//! Checks the separate database of the memory.

use app::config::Settings;
use app::installation::memory_settings;
use domain::reasons;
use store::Store;
use store::memory::database::{MemoryOpenError, MemoryRefusal};

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
    let there = match store.memory_examine(&memory).await {
        Ok(there) => there,
        Err(MemoryOpenError::Refused(refusal)) => {
            return vec![Finding::bad(MEMORY, refusal, "no server starts until then")];
        }
        Err(MemoryOpenError::Store(error)) => {
            let advice = "requests about memories get 503 until it answers: check the server of knowledge.database.url";
            return vec![Finding::bad(MEMORY, reasons(&error), advice)];
        }
    };
    let findings = of_memory(&there, store, deep).await;
    there.close().await;
    findings
}

async fn of_memory(there: &Store, store: &Store, deep: bool) -> Vec<Finding> {
    let found = async {
        if !store.is_memory_elsewhere().await? {
            return Ok(None);
        }
        there.check_schema().await?;
        there.writable().await?;
        there.pool().describe().await.map(Some)
    };
    let mut findings = vec![match found.await {
        Ok(None) => Finding::doubtful(MEMORY, "not used yet", "the next start of a server prepares it"),
        Ok(Some(words)) => Finding::good(MEMORY, format!("{}; a row was written", words.join(", "))),
        Err(error) => {
            Finding::bad(MEMORY, reasons(&error), "check its disk and its log; `attache migrate` migrates it")
        }
    }];
    if deep {
        findings.push(read_through(MEMORY, there.pool()).await);
    }
    findings
}
