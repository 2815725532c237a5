//! Whether both databases have the tables that this program needs, for a start that must not change
//! them.

use statistics::log::Log;
use store::Store;

use super::error::OpenError;
use super::is_main_database_absent;
use super::pair::log_pool_if_there;
use crate::config::Settings;

/// Refuses databases that `attache migrate` would change. Creates no file.
#[boxed]
pub async fn require(settings: &Settings) -> Result<(), OpenError> {
    if is_main_database_absent(settings) {
        return Err(OpenError::Absent("the main database"));
    }
    let store = Store::open(&settings.database, &settings.data.main_database()).await?;
    let checked = check(settings, &store).await;
    store.close().await;
    checked
}

async fn check(settings: &Settings, store: &Store) -> Result<(), OpenError> {
    store.check_schema().await?;
    if settings.upstream.url.is_some() {
        return Ok(());
    }
    let Some(log) = log_pool_if_there(settings, store).await? else { return Err(OpenError::Absent("the event log")) };
    let checked = Log::check_schema(&log).await;
    log.close().await;
    Ok(checked?)
}
