//! `attache migrate`: migrates the databases to the current schema without starting the server. `serve` also does so.

use app::config::Settings;
use app::installation::{self, LogStart};
use domain::act::{ActKind, ActOutcome};
use domain::{Clock, Rng};
use serde_json::json;

use super::acts::{Because, by_shell, record};
use super::failure::{Done, Failure};
use super::output;

/// Migrates both databases.
pub async fn migrate(because: Because, settings: &Settings) -> Done {
    let (clock, rng) = (Clock::system(), Rng::system());
    let opened = installation::open(settings, &clock, &rng, LogStart::Continue).await;
    let (store, upstream) = opened.map_err(Failure::caused)?;
    let act = by_shell(ActKind::Migrate).to(json!({ "schema": store.schema_version() })).because(because.reason);
    let recorded = record(&store, act, ActOutcome::Applied).await;
    upstream.close().await;
    store.close().await;
    recorded?;
    output::print("the databases have the current schema");
    Ok(())
}
