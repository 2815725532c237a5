//! `attache migrate`: brings the databases to the newest schema. `serve` does so too; this is for those who want it apart.

use domain::{Clock, Rng};

use super::{Done, Failure, output};
use crate::config::Settings;
use crate::installation::{self, LogStart};

/// Migrates both databases.
pub async fn migrate(settings: &Settings) -> Done {
    let opened = installation::open(settings, &Clock::system(), &Rng::system(), LogStart::Continue).await;
    let (store, upstream) = opened.map_err(Failure::caused)?;
    store.close().await;
    upstream.close().await;
    output::say("the databases have the newest schema");
    Ok(())
}
