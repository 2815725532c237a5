//! Whether both databases have the tables that this program needs, for a start that must not change
//! them.

use std::path::PathBuf;

use domain::log_part::LogPart;
use statistics::log::Log;
use store::{Pool, SchemaPlan, Store};

use super::error::OpenError;
use super::is_main_database_absent;
use super::memory::memory_settings;
use super::pair::{log_pool_if_there, refuse_memory};
use super::parts::part_pool;
use crate::config::{LogPartSettings, Settings};

/// The plan for one database.
#[derive(Debug)]
pub struct DatabasePlan {
    /// `main`, `memory`, `log`, or `log part N`.
    pub name: String,
    /// The change of its tables by a start.
    pub schema: SchemaPlan,
    /// SQLite: its file. It is copied before a migration.
    pub file: Option<PathBuf>,
}

/// The plan for all databases.
#[derive(Debug, Default)]
pub struct InstallationPlan {
    /// The available databases. The log is absent if the service is external.
    pub databases: Vec<DatabasePlan>,
    /// The unavailable parts of the log.
    pub away: Vec<LogPart>,
    /// Whether the memory has a separate database, and it is unavailable.
    pub is_memory_away: bool,
}

/// The change of the tables of all databases by a start. Changes nothing.
#[boxed]
pub async fn plan(settings: &Settings) -> Result<InstallationPlan, OpenError> {
    if is_main_database_absent(settings) {
        return Err(OpenError::Absent("the main database"));
    }
    let store = Store::open(&settings.database, &settings.data.main_database()).await?;
    let planned = plans(settings, &store).await;
    store.close().await;
    planned
}

async fn plans(settings: &Settings, store: &Store) -> Result<InstallationPlan, OpenError> {
    refuse_memory(store).await?;
    let mut plan = InstallationPlan::default();
    let file = |path: PathBuf| settings.database.url.is_none().then_some(path);
    plan.databases.push(DatabasePlan {
        name: "main".to_owned(),
        schema: store.schema_plan().await?,
        file: file(settings.data.main_database()),
    });
    match memory_plan(settings).await? {
        Some(schema) => plan.databases.push(DatabasePlan { name: "memory".to_owned(), schema, file: None }),
        None => plan.is_memory_away = settings.knowledge.database.url.is_some(),
    }
    if settings.upstream.url.is_some() {
        return Ok(plan);
    }
    let Some(log) = log_pool_if_there(settings, store).await? else { return Err(OpenError::Absent("the event log")) };
    let planned = Log::schema_plan(&log).await;
    log.close().await;
    plan.databases.push(DatabasePlan { name: "log".to_owned(), schema: planned?, file: file(settings.data.log()) });
    let (pools, away) = part_pools(settings).await?;
    plan.away = away;
    for (part, pool) in pools {
        let planned = Log::schema_plan(&pool).await;
        pool.close().await;
        plan.databases.push(DatabasePlan { name: format!("log part {part}"), schema: planned?, file: None });
    }
    Ok(plan)
}

/// The plan for a separate database of the memory; `None` if there is none, or if it is unavailable.
async fn memory_plan(settings: &Settings) -> Result<Option<SchemaPlan>, OpenError> {
    let Some(memory) = memory_settings(settings) else { return Ok(None) };
    match Store::memory_schema_plan(&memory).await {
        Err(error) if error.is_unavailable() => Ok(None),
        planned => Ok(Some(planned.map_err(OpenError::MemoryDatabase)?)),
    }
}

/// The databases of the further parts, and the unavailable parts.
async fn part_pools(settings: &Settings) -> Result<(Vec<(LogPart, Pool)>, Vec<LogPart>), OpenError> {
    let (mut pools, mut away) = (Vec::new(), Vec::new());
    for LogPartSettings { number, url, .. } in &settings.log.part {
        let part = LogPart::new(*number);
        match part_pool(settings, url).await {
            Ok(pool) => pools.push((part, pool)),
            Err(error) if error.is_unavailable() => away.push(part),
            Err(source) => return Err(OpenError::PartDatabase { part, source }),
        }
    }
    Ok((pools, away))
}

/// Refuses databases that `attache migrate` would change, except unavailable parts of the log or an unavailable memory. Creates no file.
#[boxed]
pub async fn require(settings: &Settings) -> Result<(), OpenError> {
    for DatabasePlan { name, schema, .. } in plan(settings).await?.databases {
        schema.check().map_err(|source| OpenError::Schema { name, source })?;
    }
    Ok(())
}
