//! `attache migrate`: migrates the databases to the current schema without starting the server. `serve` also does so.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use actors::upstream::Upstream;
use app::config::{DataSettings, Settings};
use app::installation::{self, DatabasePlan, InstallationPlan, LogStart};
use clap::Args;
use domain::act::{ActKind, ActOutcome};
use domain::log_part::LogPart;
use domain::{Clock, Rng};
use serde_json::{Value, json};
use statistics::parts::Logs;
use store::{Pool, Store};

use super::acts::{Because, by_shell, record};
use commands::ending::Endings;
use commands::failure::{Done, Failure};
use commands::output;

/// Options of `attache migrate`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Print what would be migrated, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// SQLite: migrate copies of the databases, and print how long it takes. It needs space for both copies in the data folder
    #[arg(long, requires = "dry_run")]
    rehearse: bool,
    /// Print the plan as JSON
    #[arg(long, requires = "dry_run")]
    json: bool,
    #[command(flatten)]
    because: Because,
}

/// Migrates both databases, or prints the plan.
pub async fn run(arguments: Arguments, settings: &Settings) -> Done {
    if arguments.rehearse && settings.database.url.is_some() {
        return Err(Failure::refused(
            "--rehearse copies SQLite files, and database.url names PostgreSQL: restore a backup into another database, and run `attache migrate` on it",
        ));
    }
    if arguments.dry_run {
        let planned = installation::plan_schema(settings).await.map_err(Failure::caused)?;
        let InstallationPlan { databases: plans, away, is_memory_away } = planned;
        let rehearsal = if arguments.rehearse { Some(rehearse(settings).await?) } else { None };
        let shown: Vec<Value> = plans.iter().map(|plan| shown(plan, settings)).collect();
        output::show(
            arguments.json,
            &json!({ "databases": shown, "away": away, "is_memory_away": is_memory_away, "rehearsal": rehearsal.map(Rehearsal::json) }),
            || {
                let lines = plans.iter().map(|plan| text(plan, settings)).chain(rehearsal.map(Rehearsal::text));
                lines.collect::<Vec<_>>().join("\n")
            },
        );
        name_absent(&away, is_memory_away);
        return Ok(());
    }
    let (store, upstream) = migrated(settings).await?;
    let act =
        by_shell(ActKind::Migrate).to(json!({ "schema": store.schema_version() })).because(arguments.because.reason);
    let recorded = record(&store, act, ActOutcome::Applied).await;
    let away = upstream.logs().map(Logs::away).unwrap_or_default();
    let is_memory_away = !store.is_memory_open();
    upstream.close().await;
    store.close().await;
    recorded?;
    output::print("the databases have the current schema");
    name_absent(&away, is_memory_away);
    Ok(())
}

fn name_absent(parts: &[LogPart], is_memory_away: bool) {
    let parts = parts.iter().map(|part| format!("part {part} of the log"));
    for database in is_memory_away.then(|| "the memory".to_owned()).into_iter().chain(parts) {
        output::print_to_stderr(&format!(
            "{database} is away: a server migrates it when its database answers; one with --no-migrate needs another `attache migrate`"
        ));
    }
}

/// The databases, migrated.
async fn migrated(settings: &Settings) -> Result<(Store, Upstream), Failure> {
    let (clock, rng) = (Clock::system(), Rng::system());
    let opened = installation::open(settings, &clock, &rng, LogStart::Continue).await;
    let (store, service) = opened.map_err(Failure::caused)?;
    let store = installation::with_memory(store, settings, &clock).await.map_err(Failure::caused)?;
    let registry = Arc::new(settings.registry().map_err(Failure::refused)?);
    let opened = installation::with_parts(service, settings, &store, (&clock, &rng), &registry).await;
    Ok((store, opened.map_err(Failure::caused)?.0))
}

/// The duration of a migration of copies.
#[derive(Debug, Clone, Copy)]
struct Rehearsal {
    copies: Duration,
    migration: Duration,
}

impl Rehearsal {
    fn json(self) -> Value {
        json!({ "copies_ms": self.copies.as_millis(), "migration_ms": self.migration.as_millis() })
    }

    fn text(self) -> String {
        format!(
            "rehearsal: copied in {:.1} s, migrated in {:.1} s",
            self.copies.as_secs_f64(),
            self.migration.as_secs_f64()
        )
    }
}

/// The places of both databases.
const PLACES: [fn(&DataSettings) -> PathBuf; 2] = [DataSettings::main_database, DataSettings::log];

/// Migrates copies of the SQLite databases, in a folder on the same disk.
async fn rehearse(settings: &Settings) -> Result<Rehearsal, Failure> {
    let mut endings = Endings::watch()?;
    let needed = PLACES.iter().map(|place| std::fs::metadata(place(&settings.data)).map_or(0, |file| file.len())).sum();
    let disk = rustix::fs::statvfs(&settings.data.dir).map_err(Failure::caused)?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free < needed {
        let [needed, free] = [needed, free].map(domain::thousands);
        return Err(Failure::refused(format!("the copies need {needed} bytes in data.dir, and {free} are free")));
    }
    let folder = tempfile::Builder::new().prefix("rehearsal-").tempdir_in(&settings.data.dir);
    let folder = folder.map_err(Failure::caused)?;
    tokio::select! {
        rehearsed = rehearse_in(settings, folder.path()) => rehearsed,
        _ = endings.next() => Err(Failure::refused("interrupted: the copies are removed")),
    }
}

async fn rehearse_in(settings: &Settings, folder: &Path) -> Result<Rehearsal, Failure> {
    let mut rehearsed = settings.clone();
    rehearsed.data.dir = folder.to_owned();
    rehearsed.database.copy_before_migration = false;
    let began = Instant::now();
    for place in PLACES {
        let file = place(&settings.data);
        if file.exists() {
            let pool = Pool::open(&settings.database, &file, None).await.map_err(Failure::caused)?;
            let done = pool.copy_to(&place(&rehearsed.data)).await;
            pool.close().await;
            done.map_err(Failure::caused)?;
        }
    }
    let copies = began.elapsed();
    let began = Instant::now();
    let (store, upstream) = migrated(&rehearsed).await?;
    let migration = began.elapsed();
    upstream.close().await;
    store.close().await;
    Ok(Rehearsal { copies, migration })
}

/// The file that is copied first, and its size in bytes.
fn copied<'p>(plan: &'p DatabasePlan, settings: &Settings) -> Option<(&'p Path, u64)> {
    let file = plan.file.as_deref().filter(|_| settings.database.copy_before_migration && plan.schema.found > 0)?;
    Some((file, std::fs::metadata(file).map_or(0, |found| found.len())))
}

fn shown(plan: &DatabasePlan, settings: &Settings) -> Value {
    let DatabasePlan { name, schema, .. } = plan;
    json!({
        "database": name,
        "schema": schema.found,
        "known": schema.known,
        "missing": schema.missing,
        "older_servers_may_stay": schema.older_may_stay,
        "copied_bytes": copied(plan, settings).filter(|_| !schema.missing.is_empty()).map(|(_, bytes)| bytes),
    })
}

/// One line about the schema; if migrations are missing, one about the copy and one about servers of the version before.
fn text(plan: &DatabasePlan, settings: &Settings) -> String {
    let DatabasePlan { name, schema, .. } = plan;
    if schema.missing.is_empty() {
        return format!("{name}: schema {}, nothing to migrate", schema.found);
    }
    let mut lines =
        vec![format!("{name}: schema {}, would be {}: {}", schema.found, schema.known, schema.missing.join(", "))];
    if let Some((file, bytes)) = copied(plan, settings) {
        let size = domain::thousands(bytes);
        lines.push(format!("  {} ({size} bytes) is copied to {0}.schema-{} first", file.display(), schema.found));
    }
    lines.push(if schema.older_may_stay {
        format!("  servers of schema {} may run until they are replaced", schema.found)
    } else {
        format!("  servers of schema {} must have stopped", schema.found)
    });
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use store::SchemaPlan;

    use super::*;

    #[test]
    fn a_plan_names_migrations_copy_and_servers() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("attache.db");
        std::fs::write(&file, [0; 1234]).unwrap();
        let plan = |found, missing: &[&str], older_may_stay| DatabasePlan {
            name: "main".to_owned(),
            schema: SchemaPlan {
                found,
                known: 3,
                missing: missing.iter().map(|&name| name.to_owned()).collect(),
                older_may_stay,
            },
            file: Some(file.clone()),
        };
        let mut settings = Settings::default();
        assert_eq!(text(&plan(3, &[], true), &settings), "main: schema 3, nothing to migrate");
        assert_eq!(
            text(&plan(1, &["2 (a)", "3 (b)"], false), &settings),
            format!(
                "main: schema 1, would be 3: 2 (a), 3 (b)\n  {0} (1,234 bytes) is copied to {0}.schema-1 first\n  servers of schema 1 must have stopped",
                file.display()
            )
        );
        assert_eq!(shown(&plan(1, &["2 (a)"], true), &settings)["copied_bytes"], 1234);
        settings.database.copy_before_migration = false;
        let expected = "main: schema 1, would be 3: 2 (a)\n  servers of schema 1 may run until they are replaced";
        assert_eq!(text(&plan(1, &["2 (a)"], true), &settings), expected);
        assert_eq!(shown(&plan(1, &["2 (a)"], true), &settings)["copied_bytes"], Value::Null);
    }
}
