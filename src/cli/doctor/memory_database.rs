//! Checks the separate database of the memory.

use app::config::Settings;
use app::installation::memory_settings;
use domain::reasons;
use store::memory::database::{MemoryOpenError, MemoryRefusal};
use store::pool::servers_of;
use store::{DatabaseSettings, Store, StoreError};

use super::database::read_through;
use super::finding::Finding;
use super::replication;

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
        Err(MemoryOpenError::Store(error @ StoreError::Refused { .. })) => {
            let advice = "correct knowledge.database.url: no server starts until then";
            return vec![Finding::bad(MEMORY, reasons(&error), advice)];
        }
        Err(MemoryOpenError::Store(error)) => {
            let advice = "requests about memories get 503 until it answers: check the server of knowledge.database.url";
            return vec![Finding::bad(MEMORY, reasons(&error), advice)];
        }
    };
    let mut findings = of_memory(&there, store, deep).await;
    if servers(&memory) != servers(&settings.database) {
        let of_server =
            replication::check(settings, (there.pool(), memory.url.as_deref()), replication::OF_MEMORIES).await;
        findings.extend(of_server.into_iter().map(|finding| finding.of(MEMORY)));
    }
    there.close().await;
    findings
}

fn servers(database: &DatabaseSettings) -> String {
    database.url.as_deref().map(servers_of).unwrap_or_default()
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
