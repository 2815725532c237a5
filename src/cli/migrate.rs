//! `attache migrate`: migrates the databases to the current schema without starting the server. `serve` also does so.

use app::config::Settings;
use app::installation::{self, LogStart};
use domain::{Clock, Rng};

use super::failure::{Done, Failure};
use super::output;

/// Migrates both databases.
pub async fn migrate(settings: &Settings) -> Done {
    let opened = installation::open(settings, &Clock::system(), &Rng::system(), LogStart::Continue).await;
    let (store, upstream) = opened.map_err(Failure::caused)?;
    upstream.close().await;
    store.close().await;
    output::print("the databases have the current schema");
    Ok(())
}
