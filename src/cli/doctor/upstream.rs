//! The statistics service: the embedded log, or another server.

use std::time::Instant;

use domain::clock::date_time;
use domain::{Chance, Clock, Timestamp, reasons};
use statistics::client::Client;
use statistics::contract::{ActivityQuery, Scope};
use statistics::log::{Audited, Log, Standing};
use store::Pool;

use super::Finding;
use super::clock::Witness;
use super::database::read_through;
use crate::config::Settings;

const STATISTICS: &str = "statistics";
const LOG: &str = "log";

/// A living server signs at least every second.
const SIGNED_WITHIN_SECONDS: i64 = 10;

pub(super) async fn look(settings: &Settings, deep: bool, witnesses: &mut Vec<Witness>) -> Vec<Finding> {
    match &settings.upstream.url {
        Some(url) => vec![external(settings, url).await],
        None => embedded(settings, deep, witnesses).await,
    }
}

async fn external(settings: &Settings, url: &str) -> Finding {
    let client = match Client::new(&settings.upstream, &Chance::system()) {
        Ok(client) => client,
        Err(error) => return Finding::bad(STATISTICS, reasons(&error), "correct upstream.url"),
    };
    // A page of a computer that nobody knows: the cheapest question that every such service answers.
    let stranger = Chance::system().uuid_v7(Clock::system().now()).into();
    let scope = Scope { machine: Some(stranger), ..Scope::default() };
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
            let found = format!("{url} answers {}", answer.status);
            Finding::bad(STATISTICS, found, "until it answers 200, events are held back or refused with 424")
        }
        Err(error) => {
            Finding::bad(STATISTICS, format!("{url}: {}", reasons(&error)), "is it running, and is upstream.url right?")
        }
    }
}

/// Whether every event has its place in the signed tree, or gets it soon.
fn signed(Standing { tree_size, signed_at, unplaced, .. }: Standing, now: Timestamp) -> Finding {
    let age = (now - signed_at).num_seconds().max(0);
    let found = format!(
        "embedded: the tree of {tree_size} was signed {}, {age} s ago; events without a place in it: {unplaced}",
        date_time(signed_at)
    );
    if unplaced == 0 || age < SIGNED_WITHIN_SECONDS {
        return Finding::good(STATISTICS, found);
    }
    let advice = "events get their place while a server runs: start it, or look at its failing passes (`sequence`)";
    Finding::doubtful(STATISTICS, found, advice)
}

async fn embedded(settings: &Settings, deep: bool, witnesses: &mut Vec<Witness>) -> Vec<Finding> {
    let path = settings.data.log();
    if settings.database.url.is_none() && !path.exists() {
        let found = format!("{} is not there yet", path.display());
        return vec![Finding::doubtful(STATISTICS, found, "`attache serve` or `attache migrate` makes it")];
    }
    let opened = async {
        let pool = Pool::open(&settings.database, &path, Some("statistics")).await.map_err(|error| reasons(&error))?;
        let log = Log::open_copy(pool, &Clock::system(), &Chance::system()).await;
        log.map_err(|error| reasons(&error))
    };
    let log = match opened.await {
        Ok(log) => log,
        Err(reason) => return vec![Finding::bad(STATISTICS, reason, "`attache migrate` brings it up to date")],
    };
    let mut findings = vec![match log.standing().await {
        Ok(standing) => {
            witnesses.push(Witness::of_the_past("the log's last signature", standing.signed_at));
            signed(standing, Clock::system().now())
        }
        Err(error) => Finding::bad(STATISTICS, reasons(&error), "look into the database's log"),
    }];
    if deep {
        findings.push(read_through("log file", log.pool()).await);
        findings.push(match log.audit().await {
            Ok(audited) => {
                let Audited { events, chains, checkpoint, .. } = audited;
                let size = checkpoint.size;
                Finding::good(
                    LOG,
                    format!("events {events}, chains {chains}, the tree of {size} and its signature: all hold"),
                )
            }
            Err(fault) => Finding::bad(
                LOG,
                fault,
                "somebody changed the log: keep this file, and restore a backup elsewhere to compare",
            ),
        });
    }
    log.close().await;
    findings
}
