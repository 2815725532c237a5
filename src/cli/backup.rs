//! `attache backup`: creates, verifies and restores copies of the embedded databases. A copy can be made while the server runs.
//!
//! A backup is a folder with a consistent copy of each database and a manifest with their digests. The main database is copied before the
//! log: so every event that the main database records as forwarded is in the copied log, and the log continues the checkpoint that the main
//! database contains. Events that the log accepted in between are recognised by their ids. PostgreSQL has its own tools, so it is not
//! supported here.
//!
//! A restored backup is an earlier state of the log. If the log has signed events since, its clients report a rollback, unless the restored
//! log starts a new epoch (`attache serve --new-log`).

mod content;
mod folder;

use std::path::{Path, PathBuf};

use app::config::Settings;
use app::installation::{LogRecord, Mismatch, StartRefusal};
use clap::{Args, Subcommand};
use domain::act::{ActKind, ActOutcome};
use domain::clock::date_time;
use domain::log_part::LogPart;
use domain::{Clock, Rng};
use serde_json::json;
use statistics::log::Log;
use store::{Pool, Store};

use self::content::Content;
use self::folder::{BackupFolder, LOG, MAIN_DATABASE, Manifest, Staging};
use super::acts::{Because, by_shell, record};
use super::main_database::open_store;
use commands::failure::{Done, Failure};
use commands::output;

/// Subcommands of `attache backup`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Copy the databases to a new folder; the server may be running
    Create {
        #[command(flatten)]
        because: Because,
        #[command(flatten)]
        backup: BackupArgs,
    },
    /// Verify a backup: its files, all events, all chains, the tree and its signature
    Verify(CheckedArgs),
    /// Verify a backup and install it into data.dir, which must not contain a database
    Restore {
        #[command(flatten)]
        because: Because,
        #[command(flatten)]
        backup: CheckedArgs,
    },
}

/// Options of the subcommands that verify a backup.
#[derive(Debug, Args)]
pub struct CheckedArgs {
    #[command(flatten)]
    backup: BackupArgs,
    /// Do not verify events, for a log whose archive is away
    #[arg(long)]
    without_archive: bool,
}

/// Options of all subcommands.
#[derive(Debug, Args)]
pub struct BackupArgs {
    /// Folder of the backup
    path: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub async fn run(command: Command, settings: &Settings) -> Done {
    match command {
        Command::Create { because, backup: BackupArgs { path, json } } => create(&path, json, because, settings).await,
        Command::Verify(backup) => verify(backup, settings).await,
        Command::Restore { because, backup } => restore(backup, because, settings).await,
    }
}

async fn create(path: &Path, json: bool, because: Because, settings: &Settings) -> Done {
    embedded_only(settings, "pg_dump --format=custom --file attache.dump \"$DATABASE_URL\"")?;
    let main = settings.data.dir.join(MAIN_DATABASE);
    if !main.exists() {
        return Err(Failure::refused(format!("no database in {}: check data.dir", settings.data.dir.display())));
    }
    if settings.upstream.url.is_none() && !settings.data.dir.join(LOG).exists() {
        the_log_was_never_there(settings).await?;
    }
    let folder = BackupFolder::begin(path)?;
    // A full disk, or tables of an older version, are no reason to have no backup.
    if let Err(failure) = record_copy(because, settings).await {
        output::print_to_stderr(&format!("this copy is not on record: {}", failure.reason()));
    }
    let mut names = vec![MAIN_DATABASE];
    // With an external statistics service there is no log.
    if settings.upstream.url.is_none() && settings.data.dir.join(LOG).exists() {
        names.push(LOG);
    }
    for name in &names {
        let pool =
            Pool::open(&settings.database, &settings.data.dir.join(name), None).await.map_err(Failure::caused)?;
        let copied = pool.copy_to(&folder.place().join(name)).await;
        pool.close().await;
        copied.map_err(Failure::caused)?;
    }
    let manifest = folder.finish(&names, Clock::system().now())?;
    let value = json!({ "path": path, "created_at": date_time(manifest.created_at), "bytes": manifest.bytes() });
    output::show(json, &value, || {
        let archive = if settings.log.archive.url.is_some() { ", but for bodies in log.archive.url" } else { "" };
        format!(
            "{} contains all data up to {}{archive}: {:.1} MB. It also contains the server's keys: restrict access to it\n  next: `attache backup verify {}`",
            path.display(),
            date_time(manifest.created_at),
            megabytes(manifest.bytes()),
            path.display()
        )
    });
    Ok(())
}

/// Records the act before the copy, so that no copy leaves without a record.
async fn record_copy(because: Because, settings: &Settings) -> Done {
    let store = open_store(settings).await?;
    let recorded = record(&store, by_shell(ActKind::BackupCreate).because(because.reason), ActOutcome::Begun).await;
    store.close().await;
    recorded
}

/// Refuses if the main database has a checkpoint of a log: a server would not start from a backup without that log.
async fn the_log_was_never_there(settings: &Settings) -> Done {
    let store = Store::open(&settings.database, &settings.data.main_database()).await.map_err(Failure::caused)?;
    let record =
        if store.check_schema().await.is_ok() { LogRecord::read(&store, LogPart::FIRST).await.ok() } else { None };
    store.close().await;
    match record {
        Some(record) if record.know_a_log() => {
            let mismatch = Mismatch::LogMissing { remembered: record.events_min() };
            Err(Failure::caused(StartRefusal::of(settings, mismatch)))
        }
        _ => Ok(()),
    }
}

async fn verify(checked: CheckedArgs, settings: &Settings) -> Done {
    let CheckedArgs { backup: BackupArgs { path, json }, without_archive } = checked;
    let path = path.as_path();
    let manifest = Manifest::read(path)?;
    manifest.compare(path)?;
    let content = Content::read(path, &manifest, (settings, !without_archive)).await?;
    output::show(json, &content.shown(&manifest), || {
        format!("{} is complete and consistent\n{}", path.display(), content.text(&manifest))
    });
    Ok(())
}

async fn restore(checked: CheckedArgs, because: Because, settings: &Settings) -> Done {
    let CheckedArgs { backup: BackupArgs { path, json }, without_archive } = checked;
    let path = path.as_path();
    embedded_only(settings, "pg_restore --clean --if-exists --dbname \"$DATABASE_URL\" attache.dump")?;
    let into = &settings.data.dir;
    if let Some(there) = [MAIN_DATABASE, LOG].into_iter().find(|name| into.join(name).exists()) {
        return Err(Failure::refused(format!(
            "{} already contains a database ({there}), which is not replaced: move it, or set another data.dir",
            into.display()
        )));
    }
    let manifest = Manifest::read(path)?;
    manifest.compare(path)?;
    let staging = Staging::copy(path, &manifest, into)?;
    bring_up_to_date(staging.place(), &manifest, because, settings).await?;
    let content = Content::read(staging.place(), &manifest, (settings, !without_archive)).await?;
    staging.settle()?;
    output::show(json, &content.shown(&manifest), || {
        format!(
            "{} is restored to {}\n{}\n  next: `attache serve`; computers with longer chains continue where this log ends\n  \
             if the log accepted events after this backup was created, start once with `attache serve --new-log`: otherwise clients report a rollback",
            path.display(),
            into.display(),
            content.text(&manifest)
        )
    });
    Ok(())
}

/// Migrates the copied databases of an older version, and records the restore in the copy.
async fn bring_up_to_date(place: &Path, manifest: &Manifest, because: Because, settings: &Settings) -> Done {
    let store = Store::open(&settings.database, &place.join(MAIN_DATABASE)).await.map_err(Failure::caused)?;
    store.migrate().await.map_err(Failure::caused)?;
    let act = by_shell(ActKind::BackupRestore).because(because.reason);
    let act = act.to(json!({ "backup_created_at": date_time(manifest.created_at) }));
    // Without an id, which the next start assigns, there is no chain yet.
    let recorded = match store.installation().await.map_err(Failure::caused)? {
        Some(_) => record(&store, act, ActOutcome::Applied).await,
        None => Ok(()),
    };
    store.close().await;
    recorded?;
    if manifest.has(LOG) {
        let pool = Pool::open(&settings.database, &place.join(LOG), None).await.map_err(Failure::caused)?;
        let log = Log::open(pool, &settings.log.origin, &Clock::system(), &Rng::system()).await;
        log.map_err(Failure::caused)?.close().await;
    }
    Ok(())
}

fn embedded_only(settings: &Settings, instead: &str) -> Done {
    if settings.database.url.is_none() {
        return Ok(());
    }
    Err(Failure::refused(format!(
        "database.url is set; use PostgreSQL's own tools instead: {instead}\n  \
         `attache doctor --deep` then verifies all events, chains and signatures"
    )))
}

#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
