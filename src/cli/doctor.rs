//! `attache doctor`: diagnoses the environment of the server and gives advice. It can run before the first start or while the server runs.

mod archive;
mod clock;
mod data;
mod database;
mod extraction;
mod finding;
mod main_database;
mod memory;
mod memory_database;
mod nodes;
mod replication;
mod server;
mod upstream;

use app::config::Settings;
use clap::Args;
use domain::Clock;
use serde_json::json;

use self::finding::{Finding, State};
use self::main_database::MainDatabase;
pub use self::server::health;
use crate::server::descriptors;
use commands::failure::{Done, Failure};
use commands::output;

/// Options of `attache doctor`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Also read and verify all data: database files, events, chains, the tree and its signature
    #[arg(long)]
    deep: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs all checks; an error if a check is bad.
pub async fn run(arguments: &Arguments, settings: &Settings) -> Done {
    let mut findings = data::check(settings);
    findings.push(descriptors_fit(settings));
    let (mut witnesses, mut of_log) = (Vec::new(), Vec::new());
    let main = MainDatabase::of(settings);
    // Concurrently: each may wait for a database that does not respond.
    let (database, upstream) = tokio::join!(
        database::check((settings, &main), arguments.deep, &mut witnesses),
        upstream::check((settings, &main), arguments.deep, &mut of_log)
    );
    main.close().await;
    findings.extend(database);
    findings.extend(upstream);
    witnesses.extend(of_log);
    findings.extend(server::check(settings).await);
    findings.push(extraction::check(settings).await);
    findings.push(clock::judge(Clock::system().now(), &witnesses));
    let bad = findings.iter().filter(|finding| finding.state == State::Bad).count();
    let text = || findings.iter().map(Finding::line).collect::<Vec<_>>().join("\n");
    output::show(arguments.json, &json!({ "well": bad == 0, "findings": findings }), text);
    match bad {
        0 => Ok(()),
        1 => Err(Failure::refused("1 problem found")),
        more => Err(Failure::refused(format!("{more} problems found"))),
    }
}

/// Checks that the limit of file descriptors suffices for `http.connections_max`.
fn descriptors_fit(settings: &Settings) -> Finding {
    const DESCRIPTORS: &str = "descriptors";
    match descriptors::warning(&settings.http) {
        None => Finding::good(DESCRIPTORS, format!("enough for {} connections", settings.http.connections_max)),
        Some(warning) => {
            let (found, advice) = warning.split_once(": ").unwrap_or((&warning, ""));
            Finding::doubtful(DESCRIPTORS, found, advice)
        }
    }
}
