//! SQLite: one file, one writer, several readers.

pub(super) mod connection;
pub(super) mod error;
pub(super) mod file;
mod kept;
pub(super) mod migration;
pub(super) mod place;
pub(super) mod readers;
pub(super) mod wal;
pub(super) mod writer;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::live::Live;

use self::error::SqliteError;
use self::file::SqliteFile;
use self::readers::SqliteReaders;
use self::writer::{Undo, Writer};
use super::query::{Target, scalar};
use super::{DatabaseSettings, Pool};
use crate::error::{Context, StoreError};

/// Executed before the writer is closed. The limit is the number of rows per index that `PRAGMA optimize` reads: fast, and enough to plan.
const LAST_WORDS: &str = "PRAGMA analysis_limit = 400; PRAGMA optimize";

/// Number of connections for long reads; at most as many are opened for short reads. Reads beyond them wait, and a machine with more
/// processors gains little: the pages are in memory, and one writer limits the rest.
const READERS_MAX: u32 = 4;

/// Opens the file for writing; creates it if it is absent.
pub async fn open(settings: &DatabaseSettings, path: &Path) -> Result<Pool, StoreError> {
    make_file(path)?;
    let file = SqliteFile::new(settings, path, false);
    let wait_max = Live::new(settings.acquire_timeout);
    let writer = start(&file, &wait_max)?;
    let cannot = |source: sqlx::Error| StoreError::Open { what: path.display().to_string(), source: source.into() };
    drop(writer.alone().await.map_err(cannot)?);
    check_durable(&writer).await?;
    let readers = readers_of(&file, READERS_MAX, &wait_max).await?;
    Ok(Pool::Sqlite { writer, readers, file })
}

/// Opens a file without writers as immutable, so that no write-ahead log is created next to it.
pub async fn open_copy(path: &Path) -> Result<Pool, StoreError> {
    let settings = DatabaseSettings::default();
    let file = SqliteFile::new(&settings, path, true);
    let wait_max = Live::new(settings.acquire_timeout);
    let readers = readers_of(&file, 1, &wait_max).await?;
    Ok(Pool::Sqlite { writer: start(&file, &wait_max)?, readers, file })
}

/// Opens the first reading connection.
async fn readers_of(
    file: &SqliteFile,
    readers_max: u32,
    wait_max: &Live<Duration>,
) -> Result<SqliteReaders, StoreError> {
    let readers = SqliteReaders::new(file.clone(), readers_max, wait_max.clone());
    let cannot =
        |source: sqlx::Error| StoreError::Open { what: file.path().display().to_string(), source: source.into() };
    readers.visit(|_| Ok(())).await.map_err(cannot)?;
    Ok(readers)
}

fn start(file: &SqliteFile, wait_max: &Live<Duration>) -> Result<Writer, StoreError> {
    let cannot = |source: std::io::Error| StoreError::Open { what: "a thread".to_owned(), source: source.into() };
    Writer::start(file.clone(), wait_max.clone()).map_err(cannot)
}

/// Commits a page: `PRAGMA user_version` writes the header of the file even if the number is unchanged, and needs no table.
pub async fn probe_write(writer: &Writer) -> Result<(), sqlx::Error> {
    let mut turn = writer.begin(Undo::Whole).await?;
    let probe = |connection: &rusqlite::Connection| {
        let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        connection.pragma_update(None, "user_version", version)
    };
    let written = turn.connection().and_then(|connection| connection.visit(probe));
    turn.settle(written, |()| true).await
}

/// Copies the whole write-ahead log into the file and truncates it, which removes freed text. `false` if a reader or another copy prevents
/// it.
pub async fn truncate_log(writer: &Writer) -> Result<bool, sqlx::Error> {
    let mut turn = writer.alone().await?;
    let truncate = |connection: &rusqlite::Connection| {
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0))
    };
    let is_busy = turn.connection().and_then(|connection| connection.visit_long(truncate))?;
    Ok(is_busy == 0)
}

/// `VACUUM INTO`: one read of all committed rows. The copy contains everything, including keys, so only its owner may read it; it is synced
/// to disk when this returns. It runs on a separate connection and blocks no writes.
pub async fn copy_to(original: &SqliteFile, path: &Path) -> Result<(), StoreError> {
    // `VACUUM INTO` accepts an existing empty file, which has the restricted permissions.
    make_file(path)?;
    let copied = {
        let (original, path) = (original.clone(), path.to_string_lossy().into_owned());
        tokio::task::spawn_blocking(move || original.writer()?.execute("VACUUM INTO ?1", [path]))
    };
    let copied = copied
        .await
        .map_err(|_| sqlx::Error::WorkerCrashed)
        .and_then(|copied| copied.map_err(|error| SqliteError::from(&error).into()));
    copied.context("copy the database")?;
    let cannot = |source: std::io::Error| StoreError::Open { what: path.display().to_string(), source: source.into() };
    fs::File::open(path).and_then(|file| file.sync_all()).map_err(cannot)
}

/// Version, settings and size.
pub async fn describe(writer: &Writer) -> Result<Vec<String>, StoreError> {
    const SQL: &str = "SELECT 'SQLite ' || sqlite_version() || ', journal_mode ' || j.journal_mode || ', synchronous ' ||
            CASE s.synchronous WHEN 2 THEN 'full' WHEN 3 THEN 'extra' ELSE s.synchronous END || ', foreign_keys ' ||
            CASE f.foreign_keys WHEN 1 THEN 'on' ELSE 'off' END || ', ' ||
            ROUND(c.page_count * z.page_size / 1e6, 1) || ' MB'
        FROM pragma_journal_mode j, pragma_synchronous s, pragma_foreign_keys f, pragma_page_count c, pragma_page_size z";
    Ok(vec![asked(writer, SQL).await.context("describe the database")?])
}

/// Reads one text value on the writer's connection, outside a transaction.
async fn asked(writer: &Writer, sql: &'static str) -> Result<String, sqlx::Error> {
    let mut turn = writer.alone().await?;
    scalar(sql).fetch_one(turn.connection()?).await
}

/// Updates SQLite's statistics and closes the writer.
pub async fn close(writer: &Writer) {
    writer.close(LAST_WORDS).await;
}

/// Faults reported by `PRAGMA integrity_check` and `foreign_key_check`.
pub async fn faults(readers: &SqliteReaders) -> Result<Vec<String>, StoreError> {
    const ASK: &str = "check the database";
    let lines: Vec<String> =
        scalar("PRAGMA integrity_check").fetch_all(Target::SqliteReader(readers)).await.context(ASK)?;
    let strays: Vec<String> = scalar("SELECT DISTINCT \"table\" FROM pragma_foreign_key_check")
        .fetch_all(Target::SqliteReader(readers))
        .await
        .context(ASK)?;
    let strays = strays.into_iter().map(|table| format!("{table}: rows refer to others that are not there"));
    Ok(lines.into_iter().filter(|line| line != "ok").chain(strays).collect())
}

/// Creates folder and file if they are absent. The file contains keys of the server, so only its owner may read it; SQLite creates its
/// other files with the same permissions.
fn make_file(path: &Path) -> Result<(), StoreError> {
    let cannot = |what: String| move |source: std::io::Error| StoreError::Open { what, source: source.into() };
    if let Some(folder) = path.parent() {
        make_private_folder(folder).map_err(cannot(folder.display().to_string()))?;
    }
    let mut file = fs::OpenOptions::new();
    file.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut file, 0o600);
    file.open(path).map(drop).map_err(cannot(path.display().to_string()))
}

/// Creates a folder that only its owner may list, if it is absent; parents get the usual permissions. Existing permissions are not changed.
fn make_private_folder(folder: &Path) -> std::io::Result<()> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    if let Some(above) = folder.parent() {
        fs::create_dir_all(above)?;
    }
    let mut private = fs::DirBuilder::new();
    // Another process may create it at the same time.
    private.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut private, 0o700);
    private.create(folder)
}

/// Renames a closed file and the files next to it: `statistics.db` to `statistics-20260101T000000Z.db`.
pub fn set_file_aside(path: &Path, mark: &str) -> Result<String, StoreError> {
    let cannot = |source: std::io::Error| StoreError::Open { what: path.display().to_string(), source: source.into() };
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let aside = path.with_file_name(format!("{stem}-{mark}.db"));
    let with_suffix = |path: &Path, suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    for suffix in ["-wal", "-shm", ""] {
        match fs::rename(with_suffix(path, suffix), with_suffix(&aside, suffix)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(cannot(error)),
            _ => {}
        }
    }
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(cannot)?;
    }
    Ok(aside.display().to_string())
}

/// Checks the effective settings of the connection: a network file system or a read-only file may ignore WAL mode without an error.
async fn check_durable(writer: &Writer) -> Result<(), StoreError> {
    const NEEDED: [(&str, &str, &[&str], &str); 3] = [
        ("journal_mode", "SELECT journal_mode FROM pragma_journal_mode", &["wal"], "wal"),
        ("synchronous", "SELECT CAST(synchronous AS TEXT) FROM pragma_synchronous", &["2", "3"], "2 (FULL)"),
        ("foreign_keys", "SELECT CAST(foreign_keys AS TEXT) FROM pragma_foreign_keys", &["1"], "1 (ON)"),
    ];
    for (setting, sql, good, needed) in NEEDED {
        let value = asked(writer, sql).await.context("read the settings of the database")?;
        if !good.contains(&value.as_str()) {
            return Err(StoreError::Unsafe { setting, found: value, needed });
        }
    }
    Ok(())
}
