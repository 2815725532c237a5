//! The knowledge API, black box: every row of its tables and every limit (`docs/decisions/0009-errors-and-limits.md` and
//! `docs/decisions/0024-batches.md`).

mod answers;
mod batch;
mod cors;
mod errors;
pub mod library;
mod limited_keys;
mod mcp;
mod memories;
mod pages;
mod places;
mod search;
mod settings;
mod spaces;

use std::time::Duration;

use app::config::Settings;
/// Settings under which the tests' own web server may be fetched from, and pages are read by the real program.
pub fn closed_network(settings: &mut Settings) {
    let knowledge = &mut settings.knowledge;
    knowledge.worker = Some(env!("CARGO_BIN_EXE_attache").into());
    knowledge.fetch.allow_private = vec!["127.0.0.1/32".parse().unwrap()];
    knowledge.fetch.host_interval = Duration::ZERO;
    knowledge.fetch.retries_max = 1;
}
