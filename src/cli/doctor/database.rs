//! The main database: whether it opens, keeps what it acknowledges, has the tables of this version, and takes writes.

use domain::reasons;
use store::{Pool, Store, StoreError};

use super::Finding;
use super::clock::ClockReference;
use crate::config::Settings;
use crate::installation::{Mismatch, is_lone_log};

const DATABASE: &str = "database";

pub(super) async fn look(settings: &Settings, deep: bool, witnesses: &mut Vec<ClockReference>) -> Vec<Finding> {
    let path = settings.data.facts();
    if settings.upstream.url.is_none() && is_lone_log(settings) {
        return vec![Finding::bad(DATABASE, Mismatch::FactsMissing, Mismatch::advice())];
    }
    if settings.database.url.is_none() && !path.exists() {
        let found = format!("{} is not there yet", path.display());
        return vec![Finding::doubtful(DATABASE, found, "`attache serve` or `attache migrate` makes it")];
    }
    // A database that would lose what it acknowledges is refused here.
    let store = match Store::open(&settings.database, &path).await {
        Ok(store) => store,
        Err(error @ StoreError::Unsafe { .. }) => {
            return vec![Finding::bad(DATABASE, reasons(&error), "change it in the database's own configuration")];
        }
        Err(error) => {
            return vec![Finding::bad(DATABASE, reasons(&error), "is it running, and is database.url right?")];
        }
    };
    if let Ok(Some(now)) = store.pool().now().await {
        witnesses.push(ClockReference::of_the_present("the database", now));
    }
    let found = of_store(&store, deep).await;
    store.close().await;
    found
}

/// Reads a database through, and says what was read.
pub(super) async fn read_through(about: &'static str, pool: &Pool) -> Finding {
    let restore = if pool.is_postgres() {
        "restore a backup of the database server"
    } else {
        "restore a backup: `attache backup restore`"
    };
    match pool.faults().await {
        Ok(faults) if faults.is_empty() && pool.is_postgres() => Finding::good(
            about,
            "every row of every table was read; indexes were not: the extension amcheck of PostgreSQL reads them",
        ),
        Ok(faults) if faults.is_empty() => Finding::good(about, "whole: every page, index and reference was read"),
        Ok(faults) => Finding::bad(about, faults.join("; "), restore),
        Err(error) => Finding::bad(about, reasons(&error), "look into the disk's own log"),
    }
}

async fn of_store(store: &Store, deep: bool) -> Vec<Finding> {
    let mut findings = vec![match store.pool().describe().await {
        Ok(words) => Finding::good(DATABASE, words.join(", ")),
        Err(error) => Finding::bad(DATABASE, reasons(&error), "look into the database's log"),
    }];
    match store.check_schema().await {
        Ok(()) => findings.push(Finding::good("tables", "those of this version")),
        Err(error) => {
            let advice = match error {
                StoreError::SchemaTooOld { .. } => {
                    "`attache migrate` brings them up to date, and `attache serve` does so too"
                }
                _ => "run the version that made them, or a newer one",
            };
            findings.push(Finding::bad("tables", reasons(&error), advice));
            return findings;
        }
    }
    findings.push(match store.writable().await {
        Ok(()) => Finding::good("writes", "a row was written and committed"),
        Err(error) => Finding::bad("writes", reasons(&error), "is the disk full, or the file read-only?"),
    });
    if deep {
        findings.push(read_through("file", store.pool()).await);
    }
    findings
}
