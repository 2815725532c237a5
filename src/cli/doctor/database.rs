//! Checks the main database: whether it opens, is durable, has the current schema, and accepts writes.

use app::config::Settings;
use app::installation::{Mismatch, is_lone_log};
use domain::log_part::LogPart;
use domain::{Clock, reasons};
use store::memory::database::MemoryRefusal;
use store::{Pool, Store, StoreError};

use super::clock::ClockReference;
use super::finding::Finding;
use super::main_database::MainDatabase;
use super::{memory_database, nodes, replication};

const DATABASE: &str = "database";

pub(super) async fn check(
    (settings, main): (&Settings, &MainDatabase<'_>),
    deep: bool,
    witnesses: &mut Vec<ClockReference>,
) -> Vec<Finding> {
    if settings.upstream.url.is_none() && is_lone_log(settings) {
        return vec![Finding::bad(DATABASE, Mismatch::FactsMissing, Mismatch::advice(LogPart::FIRST))];
    }
    if let Some(path) = main.absent_file() {
        let text = format!("{} does not exist yet", path.display());
        return vec![Finding::doubtful(DATABASE, text, "`attache serve` or `attache migrate` creates it")];
    }
    let store = match main.open().await {
        Ok(store) => store,
        Err(error @ StoreError::Unsafe { .. }) => {
            return vec![Finding::bad(DATABASE, reasons(error), "change the setting in the database's configuration")];
        }
        Err(error) => {
            return vec![Finding::bad(
                DATABASE,
                reasons(error),
                "check that the database is running and that database.url is correct",
            )];
        }
    };
    if store.is_memory_only().await.unwrap_or(false) {
        let advice = "database.url needs the main database";
        return vec![Finding::bad(DATABASE, MemoryRefusal::NotMain, advice)];
    }
    if let Ok(Some(now)) = store.pool().now().await {
        witnesses.push(ClockReference::of_the_present("the database", now));
    }
    let mut findings = of_store(settings, store, deep).await;
    findings.extend(
        replication::check(settings, (store.pool(), settings.database.url.as_deref()), replication::OF_EVENTS).await,
    );
    findings
}

/// Reads and verifies a whole database.
pub(super) async fn read_through(about: &'static str, pool: &Pool) -> Finding {
    let restore = if pool.is_postgres() {
        "restore a backup of the database server"
    } else {
        "restore a backup: `attache backup restore`"
    };
    match pool.faults().await {
        Ok(faults) if faults.is_empty() && pool.is_postgres() => Finding::good(
            about,
            "every row of every table was read; indexes were not: use PostgreSQL's extension amcheck for them. Read was the primary \
             server: its standbys and backups were not",
        ),
        Ok(faults) if faults.is_empty() => Finding::good(about, "intact: every page, index and reference was read"),
        Ok(faults) => Finding::bad(about, faults.join("; "), restore),
        Err(error) => Finding::bad(about, reasons(&error), "check the system log for disk errors"),
    }
}

/// Reports overrides of settings, of which the file says nothing.
async fn overridden(store: &Store) -> Option<Finding> {
    const OVERRIDES: &str = "overrides";
    let overrides = match store.setting_overrides(Clock::system().now()).await {
        Ok(overrides) => overrides,
        Err(error) => return Some(Finding::bad(OVERRIDES, reasons(&error), "check the database's log")),
    };
    let paths: Vec<&str> = overrides.iter().map(|found| found.path.as_str()).collect();
    let advice = "`attache config overrides` shows them with their ends, `attache config unset` removes one";
    (!paths.is_empty()).then(|| Finding::doubtful(OVERRIDES, paths.join(", "), advice))
}

/// Reports paused parts of the service.
async fn paused(store: &Store) -> Option<Finding> {
    const PAUSES: &str = "pauses";
    let pauses = match store.service_pauses(Clock::system().now()).await {
        Ok(pauses) => pauses,
        Err(error) => return Some(Finding::bad(PAUSES, reasons(&error), "check the database's log")),
    };
    let found: Vec<String> = pauses.iter().map(ToString::to_string).collect();
    let advice = "`attache admin resume` ends one early";
    (!found.is_empty()).then(|| Finding::doubtful(PAUSES, found.join("; "), advice))
}

async fn of_store(settings: &Settings, store: &Store, deep: bool) -> Vec<Finding> {
    let mut findings = vec![match store.pool().describe().await {
        Ok(words) => Finding::good(DATABASE, words.join(", ")),
        Err(error) => Finding::bad(DATABASE, reasons(&error), "check the database's log"),
    }];
    match store.check_schema().await {
        Ok(()) => findings.push(Finding::good("tables", "current schema")),
        Err(error) => {
            let advice = match error {
                StoreError::SchemaTooOld { .. } => "`attache migrate` or `attache serve` migrates them",
                _ => "run the version that created them, or a newer one",
            };
            findings.push(Finding::bad("tables", reasons(&error), advice));
            return findings;
        }
    }
    findings.push(match store.writable().await {
        Ok(()) => Finding::good("writes", "a row was written and committed"),
        Err(error) => {
            Finding::bad("writes", reasons(&error), "check that the disk is not full and the file is writable")
        }
    });
    findings.extend(memory_database::check(settings, store, deep).await);
    findings.push(nodes::check(settings, store).await);
    findings.extend(overridden(store).await);
    findings.extend(paused(store).await);
    if deep {
        findings.push(read_through("file", store.pool()).await);
    }
    findings
}
