//! `attache doctor`: diagnoses the environment of the server and gives advice. It can run before the first start or beside a running server.

mod clock;
mod data;
mod database;
mod extraction;
mod server;
mod upstream;

use clap::Args;
use domain::Clock;
use serde::Serialize;
use serde_json::json;

use super::terminal::{BAD, GOOD, STRONG, WARNING, styled};
use super::{Done, Failure, output};
use crate::config::Settings;
use crate::server::descriptors;

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

/// Result of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Good,
    /// It works, but the operator should take notice.
    Doubtful,
    Bad,
}

/// Result of one check with its description.
#[derive(Debug, Serialize)]
struct Finding {
    about: &'static str,
    state: State,
    found: String,
    /// Advice for the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

impl Finding {
    fn good(about: &'static str, found: impl Into<String>) -> Self {
        Self { about, state: State::Good, found: found.into(), advice: None }
    }

    fn doubtful(about: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { about, state: State::Doubtful, found: found.into(), advice: Some(advice.into()) }
    }

    fn bad(about: &'static str, found: impl std::fmt::Display, advice: impl Into<String>) -> Self {
        Self { about, state: State::Bad, found: found.to_string(), advice: Some(advice.into()) }
    }

    fn line(&self) -> String {
        let mark = match self.state {
            State::Good => styled(GOOD, "✓"),
            State::Doubtful => styled(WARNING, "?"),
            State::Bad => styled(BAD, "✗"),
        };
        let advice = self.advice.as_ref().map(|advice| format!("\n{:15}{advice}", "")).unwrap_or_default();
        format!("{mark} {}{}{advice}", styled(STRONG, format!("{:13}", self.about)), self.found)
    }
}

/// Runs all checks; an error if one of them is bad.
pub async fn run(arguments: &Arguments, settings: &Settings) -> Done {
    let mut findings = data::check(settings);
    findings.push(descriptors_fit(settings));
    let mut witnesses = Vec::new();
    findings.extend(database::check(settings, arguments.deep, &mut witnesses).await);
    findings.extend(upstream::check(settings, arguments.deep, &mut witnesses).await);
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
