//! Checks the statistics service: the embedded log, or the external service.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Instant;

use actors::outbox::ACT_WAIT_MAX;
use app::config::{LogPartSettings, Settings};
use app::installation::{self, LogRecord, Mismatch};
use domain::clock::date_time;
use domain::log_part::LogPart;
use domain::{Clock, Rng, Timestamp, reasons};
use statistics::client::Client;
use statistics::contract::{ActivityQuery, RecordScope};
use statistics::log::{Audited, Log, LogError, LogStatus};
use store::pool::servers_of;
use store::{Store, StoreError};

use super::archive;
use super::clock::ClockReference;
use super::database::read_through;
use super::finding::Finding;
use super::main_database::MainDatabase;
use super::{memory, replication};
use crate::cli::acts::verified::compare;
use crate::cli::main_database::{open_log, open_part};

const STATISTICS: &str = "statistics";
const LOG: &str = "log";
const INSTALLATION: &str = "installation";
const ACTS: &str = "acts";

/// Age in seconds above which a checkpoint is reported; a running server signs at least every second.
const SIGNED_WITHIN_SECONDS: i64 = 10;

pub(super) async fn check(
    (settings, main): (&Settings, &MainDatabase<'_>),
    deep: bool,
    witnesses: &mut Vec<ClockReference>,
) -> Vec<Finding> {
    if let Some(url) = &settings.upstream.url {
        return vec![external(settings, url).await];
    }
    let mut findings = embedded((settings, main), deep, witnesses).await;
    findings.extend(parts((settings, main), deep, witnesses).await);
    findings
}

async fn external(settings: &Settings, url: &str) -> Finding {
    let client = match Client::new(&settings.upstream, &Rng::system()) {
        Ok(client) => client,
        Err(error) => return Finding::bad(STATISTICS, reasons(&error), "correct upstream.url"),
    };
    // The activity of an unknown computer is the cheapest request that every statistics service supports.
    let stranger = Rng::system().uuid_v7(Clock::system().now()).into();
    let scope = RecordScope { machine: Some(stranger), ..RecordScope::default() };
    let page = ActivityQuery { limit: Some(1), ..ActivityQuery::default() };
    let begin = Instant::now();
    match client.activity(&scope, &page).await {
        Ok(answer) if answer.status.is_success() => {
            Finding::good(STATISTICS, format!("{url} answers in {} ms", begin.elapsed().as_millis()))
        }
        Ok(answer) if matches!(answer.status.as_u16(), 401 | 403) => {
            Finding::bad(STATISTICS, format!("{url} answers {}", answer.status), "correct upstream.token")
        }
        Ok(answer) => {
            let text = format!("{url} answers {}", answer.status);
            Finding::bad(STATISTICS, text, "until it answers 200, events are held or refused with 424")
        }
        Err(error) => Finding::bad(
            STATISTICS,
            format!("{url}: {}", reasons(&error)),
            "check that it is running and that upstream.url is correct",
        ),
    }
}

/// Checks that new events are placed in the signed tree.
fn signed(LogStatus { tree_size, signed_at, unplaced, .. }: LogStatus, now: Timestamp) -> Finding {
    let age = (now - signed_at).num_seconds().max(0);
    let text = format!(
        "embedded: the tree of {tree_size} was signed {}, {age} s ago; events without a place in it: {unplaced}",
        date_time(signed_at)
    );
    if unplaced == 0 || age < SIGNED_WITHIN_SECONDS {
        return Finding::good(STATISTICS, text);
    }
    let advice = "a running server places events in the tree: start it, or check its failing passes (`sequence`)";
    Finding::doubtful(STATISTICS, text, advice)
}

/// Reports a missing log if the main database has a checkpoint of one.
async fn lost(main: &MainDatabase<'_>, part: LogPart) -> Option<Finding> {
    // Another check reports a main database that cannot be read.
    let (_, record) = record(main, part).await?.ok()?;
    let mismatch = Mismatch::LogMissing { remembered: record.events_min() };
    record.know_a_log().then(|| Finding::bad(STATISTICS, mismatch, Mismatch::advice(part)))
}

/// Checks that the log belongs to the main database.
async fn installed(store: &Store, part: LogPart, log: &Log) -> Finding {
    match installation::compare(store, part, log).await {
        Ok(Ok(())) => Finding::good(INSTALLATION, "the log continues the checkpoint in the main database"),
        Ok(Err(mismatch)) => Finding::bad(INSTALLATION, mismatch, Mismatch::advice(part)),
        Err(error) => Finding::bad(INSTALLATION, reasons(&error), "check the database's log"),
    }
}

/// Compares the acts of operators with the log, or reports only the acts that wait.
async fn acts(store: &Store, log: &Log, deep: bool) -> Finding {
    let advice = "a running server sends them: start it, or check its failing passes (`outbox`)";
    let waiting_since = store.acts_waiting_since().await;
    let compared = if deep { Some(compare(store, log).await) } else { None };
    match (compared, waiting_since) {
        (Some(Err(failure)), _) => Finding::bad(ACTS, failure.reason(), "check the database's log"),
        (Some(Ok(verified)), _) if !verified.faults.is_empty() => {
            Finding::bad(ACTS, verified.faults.join("; "), "`attache admin act list` shows them: keep both databases")
        }
        (_, Err(error)) => Finding::bad(ACTS, reasons(&error), "check the database's log"),
        (_, Ok(Some(since))) if since + ACT_WAIT_MAX < Clock::system().now() => {
            Finding::doubtful(ACTS, format!("not in the log since {}", date_time(since)), advice)
        }
        (Some(Ok(verified)), _) => {
            Finding::good(ACTS, format!("{} are in the log, {} wait", verified.proven, verified.waiting))
        }
        (None, Ok(waiting)) => Finding::good(ACTS, if waiting.is_some() { "some wait" } else { "all are in the log" }),
    }
}

/// The record of a part of the log in the main database, which must have the current schema; `None` if there is no main database.
async fn record<'m>(main: &'m MainDatabase<'_>, part: LogPart) -> Option<Result<(&'m Store, LogRecord), String>> {
    if main.absent_file().is_some() {
        return None;
    }
    let store = match main.open().await {
        Ok(store) => store,
        Err(error) => return Some(Err(reasons(error))),
    };
    let record = match store.check_schema().await {
        Ok(()) => LogRecord::read(store, part).await.map_err(|error| reasons(&error)),
        Err(error) => Err(reasons(&error)),
    };
    Some(record.map(|record| (store, record)))
}

fn advice(error: &LogError) -> &'static str {
    match error {
        LogError::Store(StoreError::SchemaTooOld { .. }) => "`attache migrate` migrates it",
        LogError::Store(StoreError::SchemaTooNew { .. }) => "run the version that created it, or a newer one",
        LogError::Store(StoreError::Unsafe { .. }) => "change the setting in the database's configuration",
        LogError::Store(StoreError::Open { .. } | StoreError::Refused { .. }) => {
            "check that the database is running and that database.url and data.dir are correct"
        }
        LogError::CachedSequence { .. } => {
            "execute the statement, then restart every server, whose sessions have numbers already"
        }
        _ => "check the database's log",
    }
}

/// Checks of each part of the log. `path`: the node's file with its checkpoint; `None` on SQLite.
async fn of_log(
    (part, log): (LogPart, &Log),
    path: Option<PathBuf>,
    deep: bool,
    witnesses: &mut Vec<ClockReference>,
) -> Vec<Finding> {
    let mut findings = vec![match log.standing().await {
        Ok(standing) => {
            witnesses.push(ClockReference::of_the_past("the log's last signature", standing.signed_at));
            signed(standing, Clock::system().now())
        }
        Err(error) => Finding::bad(STATISTICS, reasons(&error), "check the database's log"),
    }];
    if let Err(error) = log.check_sequence().await {
        findings.push(Finding::bad(STATISTICS, reasons(&error), advice(&error)));
    }
    if let Ok(Some(version)) = log.distributed_by_citus().await {
        findings.push(Finding::doubtful(
            STATISTICS,
            format!(
                "the log is distributed by Citus {version}: an event costs several times the CPU of PostgreSQL alone"
            ),
            "use it to try it out; docs/operations.md, PostgreSQL, names the ways to more events",
        ));
    }
    findings.extend(memory::check(path, (part, log)).await);
    findings.extend(archive::check(log, deep).await);
    if deep {
        findings.push(read_through("log file", log.pool()).await);
        findings.push(match log.audit().await {
            Ok(audited) => {
                let Audited { events, chains, checkpoint, .. } = audited;
                let size = checkpoint.size;
                Finding::good(
                    LOG,
                    format!("verified: events {events}, chains {chains}, the tree of {size} leaves and its signature"),
                )
            }
            Err(fault) => Finding::bad(
                LOG,
                fault,
                "the log was modified: keep this file, and restore a backup to another folder to compare",
            ),
        });
    }
    findings
}

async fn embedded(
    (settings, main): (&Settings, &MainDatabase<'_>),
    deep: bool,
    witnesses: &mut Vec<ClockReference>,
) -> Vec<Finding> {
    let path = settings.data.log();
    if settings.database.url.is_none() && !path.exists() {
        let found = format!("{} does not exist yet", path.display());
        let never = Finding::doubtful(STATISTICS, found, "`attache serve` or `attache migrate` creates it");
        return vec![lost(main, LogPart::FIRST).await.unwrap_or(never)];
    }
    let log = match open_log(settings).await {
        Ok(log) => log,
        Err(error) => {
            let lost = if is_empty(&error) { lost(main, LogPart::FIRST).await } else { None };
            return vec![lost.unwrap_or_else(|| Finding::bad(STATISTICS, reasons(&error), advice(&error)))];
        }
    };
    let path = settings.database.url.as_ref().map(|_| settings.data.checkpoint());
    let mut findings = of_log((LogPart::FIRST, &log), path, deep, witnesses).await;
    match record(main, LogPart::FIRST).await {
        Some(Ok((store, _))) => {
            findings.push(installed(store, LogPart::FIRST, &log).await);
            findings.push(acts(store, &log, deep).await);
        }
        Some(Err(why)) => {
            let text = format!("the log was not compared with the main database: {why}");
            findings.push(Finding::bad(
                INSTALLATION,
                text,
                "correct the main database, and run `attache doctor` again",
            ));
        }
        None => {}
    }
    log.close().await;
    findings
}

/// Checks the further parts of the log.
async fn parts(
    (settings, main): (&Settings, &MainDatabase<'_>),
    deep: bool,
    witnesses: &mut Vec<ClockReference>,
) -> Vec<Finding> {
    if settings.log.part.is_empty() {
        return Vec::new();
    }
    // Another check reports a main database that cannot be read.
    let store = record(main, LogPart::FIRST).await.and_then(Result::ok).map(|(store, _)| store);
    let mut findings = Vec::new();
    let mut servers: BTreeSet<String> = settings.database.url.iter().map(|url| servers_of(url)).collect();
    for LogPartSettings { number, url, .. } in &settings.log.part {
        let part = LogPart::new(*number);
        let log = match open_part(settings, url).await {
            Ok(log) => log,
            Err(error) => {
                let lost = if is_empty(&error) { lost(main, part).await } else { None };
                findings.push(lost.unwrap_or_else(|| unopened(&error)).of_part(part));
                continue;
            }
        };
        let mut of_part = of_log((part, &log), Some(settings.data.checkpoint_of(part)), deep, witnesses).await;
        if let Some(store) = store {
            of_part.push(installed(store, part, &log).await);
        }
        if servers.insert(servers_of(url)) {
            let of_server = replication::check(settings, (log.pool(), Some(url)), replication::OF_EVENTS).await;
            of_part.extend(of_server.into_iter().map(|finding| finding.of(STATISTICS)));
        }
        log.close().await;
        findings.extend(of_part.into_iter().map(|finding| finding.of_part(part)));
    }
    findings
}

/// A further part that cannot be read. An empty database is one before the first start with it, or a wrong one.
fn unopened(error: &LogError) -> Finding {
    const AWAY: &str = "correct its url in log.part, or start its database: its computers get 424";
    if is_empty(error) {
        return Finding::doubtful(LOG, "its database has no log yet", "`attache serve` creates it");
    }
    Finding::bad(LOG, reasons(error), AWAY)
}

/// Whether a database without tables was opened.
fn is_empty(error: &LogError) -> bool {
    matches!(error, LogError::Store(StoreError::SchemaTooOld { found: 0, .. }))
}
