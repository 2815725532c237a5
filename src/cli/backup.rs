//! `attache backup`: a copy of everything that the embedded databases hold, made beside the living server, and the way back.
//!
//! A backup is a folder: the databases, each as it was at one moment, and a manifest with their digests. The facts are copied before the
//! log: what the facts know to be forwarded is then in the log, and what the log took in between is found there again by its id. For the same
//! reason the log continues the checkpoint that the facts remember: it was signed before the facts were copied. PostgreSQL has tools of its
//! own, and is left to them.
//!
//! A restored backup is an earlier state of the log. If the log has signed anything since, its clients report that it was rolled back, unless
//! the restored log begins an epoch (`attache serve --new-log`).

mod content;
mod folder;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use domain::clock::date_time;
use domain::{Clock, Rng};
use serde_json::json;
use statistics::log::Log;
use store::{Pool, Store};

use self::content::Content;
use self::folder::{FACTS, Folder, LOG, Manifest, Staging};
use super::{Done, Failure, output};
use crate::config::Settings;
use crate::installation::{Facts, Mismatch, StartRefusal};

/// What to do with one.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Copy the databases into a new folder, while the server runs
    Create(Which),
    /// Read a backup again: its files, every event, every chain, the tree and its signature
    Verify(Which),
    /// Put a backup, once it is verified, into data.dir, where no database may be
    Restore(Which),
}

/// Which one.
#[derive(Debug, Args)]
pub struct Which {
    /// The folder of the backup
    path: PathBuf,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Does it.
pub async fn run(command: Command, settings: &Settings) -> Done {
    match command {
        Command::Create(Which { path, json }) => create(&path, json, settings).await,
        Command::Verify(Which { path, json }) => verify(&path, json).await,
        Command::Restore(Which { path, json }) => restore(&path, json, settings).await,
    }
}

async fn create(path: &Path, json: bool, settings: &Settings) -> Done {
    embedded_only(settings, "pg_dump --format=custom --file attache.dump \"$DATABASE_URL\"")?;
    let facts = settings.data.dir.join(FACTS);
    if !facts.exists() {
        return Err(Failure::refused(format!(
            "there is no database in {}: is data.dir right?",
            settings.data.dir.display()
        )));
    }
    if settings.upstream.url.is_none() && !settings.data.dir.join(LOG).exists() {
        the_log_was_never_there(settings).await?;
    }
    let folder = Folder::begin(path)?;
    let mut names = vec![FACTS];
    // With a statistics service outside there is no log here.
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
    let shown = json!({ "path": path, "created_at": date_time(manifest.created_at), "bytes": manifest.bytes() });
    output::show(json, &shown, || {
        format!(
            "{} holds everything up to {}: {:.1} MB. It holds the server's keys too: keep it where nobody else reads it\n  next: `attache backup verify {}`",
            path.display(),
            date_time(manifest.created_at),
            megabytes(manifest.bytes()),
            path.display()
        )
    });
    Ok(())
}

/// A backup without a log that the facts remember would be one that no server starts from.
async fn the_log_was_never_there(settings: &Settings) -> Done {
    let store = Store::open(&settings.database, &settings.data.facts()).await.map_err(Failure::caused)?;
    let facts = if store.check_schema().await.is_ok() { Facts::read(&store).await.ok() } else { None };
    store.close().await;
    match facts {
        Some(facts) if facts.know_a_log() => {
            let mismatch = Mismatch::LogMissing { remembered: facts.events_min() };
            Err(Failure::caused(StartRefusal::of(settings, mismatch)))
        }
        _ => Ok(()),
    }
}

async fn verify(path: &Path, json: bool) -> Done {
    let manifest = Manifest::read(path)?;
    manifest.compare(path)?;
    let content = Content::read(path, &manifest).await?;
    output::show(json, &content.shown(&manifest), || {
        format!("{} is whole, and what it holds holds together\n{}", path.display(), content.told(&manifest))
    });
    Ok(())
}

async fn restore(path: &Path, json: bool, settings: &Settings) -> Done {
    embedded_only(settings, "pg_restore --clean --if-exists --dbname \"$DATABASE_URL\" attache.dump")?;
    let into = &settings.data.dir;
    if let Some(there) = [FACTS, LOG].into_iter().find(|name| into.join(name).exists()) {
        return Err(Failure::refused(format!(
            "there is a database in {} already ({there}): a backup replaces none. Move it away, or give another data.dir",
            into.display()
        )));
    }
    let manifest = Manifest::read(path)?;
    manifest.compare(path)?;
    let staging = Staging::copy(path, &manifest, into)?;
    bring_up_to_date(staging.place(), &manifest, settings).await?;
    let content = Content::read(staging.place(), &manifest).await?;
    staging.settle()?;
    output::show(json, &content.shown(&manifest), || {
        format!(
            "{} is restored into {}\n{}\n  next: `attache serve`; computers whose chains were longer go on where this log ends\n  \
             if the log took events after this backup was made: `attache serve --new-log` once, since its clients would report a rollback",
            path.display(),
            into.display(),
            content.told(&manifest)
        )
    });
    Ok(())
}

/// A backup of an older version gets the tables of this one.
async fn bring_up_to_date(place: &Path, manifest: &Manifest, settings: &Settings) -> Done {
    let store = Store::open(&settings.database, &place.join(FACTS)).await.map_err(Failure::caused)?;
    let migrated = store.migrate().await;
    store.close().await;
    migrated.map_err(Failure::caused)?;
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
        "database.url is set, and PostgreSQL has tools for this that know it better: {instead}\n  \
         `attache doctor --deep` reads every event, chain and signature of it again"
    )))
}

#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
