//! Whether both databases have the tables that this program needs, for a start that must not change
//! them.

use std::path::PathBuf;

use statistics::log::Log;
use store::{SchemaPlan, Store};

use super::error::OpenError;
use super::is_main_database_absent;
use super::pair::log_pool_if_there;
use super::parts::part_pool;
use crate::config::Settings;

/// The plan for one database.
#[derive(Debug)]
pub struct DatabasePlan {
    /// `main`, `log`, or `log part N`.
    pub name: String,
    /// The change of its tables by a start.
    pub schema: SchemaPlan,
    /// SQLite: its file. It is copied before a migration.
    pub file: Option<PathBuf>,
}

/// The change of the tables of all databases by a start. Changes nothing; the log is absent if the service is external.
#[boxed]
pub async fn plan(settings: &Settings) -> Result<Vec<DatabasePlan>, OpenError> {
    if is_main_database_absent(settings) {
        return Err(OpenError::Absent("the main database"));
    }
    let store = Store::open(&settings.database, &settings.data.main_database()).await?;
    let planned = plans(settings, &store).await;
    store.close().await;
    planned
}

async fn plans(settings: &Settings, store: &Store) -> Result<Vec<DatabasePlan>, OpenError> {
    let file = |path: PathBuf| settings.database.url.is_none().then_some(path);
    let main = DatabasePlan {
        name: "main".to_owned(),
        schema: store.schema_plan().await?,
        file: file(settings.data.main_database()),
    };
    if settings.upstream.url.is_some() {
        return Ok(vec![main]);
    }
    let Some(log) = log_pool_if_there(settings, store).await? else { return Err(OpenError::Absent("the event log")) };
    let planned = Log::schema_plan(&log).await;
    log.close().await;
    let mut plans =
        vec![main, DatabasePlan { name: "log".to_owned(), schema: planned?, file: file(settings.data.log()) }];
    for part in &settings.log.part {
        let pool = part_pool(settings, &part.url).await?;
        let planned = Log::schema_plan(&pool).await;
        pool.close().await;
        plans.push(DatabasePlan { name: format!("log part {}", part.number), schema: planned?, file: None });
    }
    Ok(plans)
}

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
