//! `attache doctor`: looks at everything that the server stands on, beside it or before it runs, and says what to do about what is wrong.

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

/// How closely to look.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Read everything again too: the file of the database, every event, every chain, the tree and its signature
    #[arg(long)]
    deep: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// How something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Good,
    /// It works, and an operator should know.
    Doubtful,
    Bad,
}

/// What was found about one thing.
#[derive(Debug, Serialize)]
struct Finding {
    about: &'static str,
    state: State,
    found: String,
    /// What to do.
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

    fn told(&self) -> String {
        let mark = match self.state {
            State::Good => styled(GOOD, "✓"),
            State::Doubtful => styled(WARNING, "?"),
            State::Bad => styled(BAD, "✗"),
        };
        let advice = self.advice.as_ref().map(|advice| format!("\n{:15}{advice}", "")).unwrap_or_default();
        format!("{mark} {}{}{advice}", styled(STRONG, format!("{:13}", self.about)), self.found)
    }
}

/// Looks; what is bad ends it with 1.
pub async fn run(arguments: &Arguments, settings: &Settings) -> Done {
    let mut findings = data::look(settings);
    findings.push(descriptors_fit(settings));
    let mut witnesses = Vec::new();
    findings.extend(database::look(settings, arguments.deep, &mut witnesses).await);
    findings.extend(upstream::look(settings, arguments.deep, &mut witnesses).await);
    findings.extend(server::look(settings).await);
    findings.push(extraction::look(settings).await);
    findings.push(clock::judge(Clock::system().now(), &witnesses));
    let bad = findings.iter().filter(|finding| finding.state == State::Bad).count();
    let told = || findings.iter().map(Finding::told).collect::<Vec<_>>().join("\n");
    output::show(arguments.json, &json!({ "well": bad == 0, "findings": findings }), told);
    match bad {
        0 => Ok(()),
        1 => Err(Failure::refused("one thing is not as it must be")),
        more => Err(Failure::refused(format!("{more} things are not as they must be"))),
    }
}

/// Whether there are file descriptors for as many connections as are configured.
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
