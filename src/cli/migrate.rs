//! `attache migrate`: brings the databases to the newest schema. `serve` does so too; this is for those who want it apart.

use domain::{Chance, Clock};

use super::{Done, Failure, open_store, output};
use crate::config::Settings;
use crate::house::open_upstream;

/// Migrates both databases.
pub async fn migrate(settings: &Settings) -> Done {
    open_store(settings).await?.close().await;
    let upstream = open_upstream(settings, &Clock::system(), &Chance::system()).await.map_err(Failure::refused)?;
    upstream.close().await;
    output::say("the databases have the newest schema");
    Ok(())
}
