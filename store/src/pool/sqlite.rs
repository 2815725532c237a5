//! SQLite: one file, one writer, several readers.

use std::fs;
use std::path::Path;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};

use super::{DatabaseSettings, Pool, SqliteFile};
use crate::error::{During, StoreError};

/// Rows that `PRAGMA optimize` looks at per index: enough for the planner, and closing stays quick.
const ANALYSIS_ROWS_MAX: u32 = 400;
/// The log beside the file shrinks back to this after a burst.
pub(super) const LOG_BYTES_MAX: &str = "67108864";

pub async fn open(settings: &DatabaseSettings, path: &Path) -> Result<Pool, StoreError> {
    make_file(path)?;
    let options = SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(settings.busy_timeout)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .pragma("cache_size", format!("-{}", settings.cache_kib))
        .pragma("journal_size_limit", LOG_BYTES_MAX)
        .pragma("temp_store", "MEMORY")
        .statement_cache_capacity(settings.statements_max);
    let writer = connect(settings, path, options.clone().optimize_on_close(true, ANALYSIS_ROWS_MAX), 1).await?;
    check_durable(&writer).await?;
    let reader = connect(settings, path, options.pragma("query_only", "ON"), settings.readers_max.max(1)).await?;
    Ok(Pool::Sqlite { writer, reader, file: SqliteFile::new(settings, path, false) })
}

/// A file that nobody writes to. It is opened as one that cannot change, so that no log is made beside it.
pub async fn open_copy(path: &Path) -> Result<Pool, StoreError> {
    let options = SqliteConnectOptions::new().filename(path).read_only(true).immutable(true);
    let settings = DatabaseSettings::default();
    let reader = connect(&settings, path, options, 1).await?;
    Ok(Pool::Sqlite { writer: reader.clone(), reader, file: SqliteFile::new(&settings, path, true) })
}

/// `VACUUM INTO`: one read of all that is committed. The file holds what the original holds, keys included, so only its owner may read
/// it; it is on the disk when this returns.
pub async fn copy_to(pool: &SqlitePool, path: &Path) -> Result<(), StoreError> {
    // It writes into an empty file too, which has the rights that it is to have.
    make_file(path)?;
    let name = path.to_string_lossy();
    sqlx::query("VACUUM INTO $1").bind(&*name).execute(pool).await.during("copy the database")?;
    let cannot = |source: std::io::Error| StoreError::Open { what: path.display().to_string(), source: source.into() };
    fs::File::open(path).and_then(|file| file.sync_all()).map_err(cannot)
}

/// Version, settings and size.
pub async fn describe(pool: &SqlitePool) -> Result<Vec<String>, StoreError> {
    const SQL: &str = "SELECT 'SQLite ' || sqlite_version() || ', journal_mode ' || j.journal_mode || ', synchronous ' ||
            CASE s.synchronous WHEN 2 THEN 'full' WHEN 3 THEN 'extra' ELSE s.synchronous END || ', foreign_keys ' ||
            CASE f.foreign_keys WHEN 1 THEN 'on' ELSE 'off' END || ', ' ||
            ROUND(c.page_count * z.page_size / 1e6, 1) || ' MB'
        FROM pragma_journal_mode j, pragma_synchronous s, pragma_foreign_keys f, pragma_page_count c, pragma_page_size z";
    let line: String = sqlx::query_scalar(SQL).fetch_one(pool).await.during("describe the database")?;
    Ok(vec![line])
}

/// What `PRAGMA integrity_check` and `foreign_key_check` find.
pub async fn faults(pool: &SqlitePool) -> Result<Vec<String>, StoreError> {
    const ASK: &str = "check the database";
    let lines: Vec<String> = sqlx::query_scalar("PRAGMA integrity_check").fetch_all(pool).await.during(ASK)?;
    let strays: Vec<String> = sqlx::query_scalar("SELECT DISTINCT \"table\" FROM pragma_foreign_key_check")
        .fetch_all(pool)
        .await
        .during(ASK)?;
    let strays = strays.into_iter().map(|table| format!("{table}: rows refer to others that are not there"));
    Ok(lines.into_iter().filter(|line| line != "ok").chain(strays).collect())
}

/// Makes folder and file if they are not there. The file holds keys of the server, so only its owner may read it; SQLite
/// gives the files that it makes beside it the same rights.
fn make_file(path: &Path) -> Result<(), StoreError> {
    let cannot = |what: String| move |source: std::io::Error| StoreError::Open { what, source: source.into() };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(cannot(folder.display().to_string()))?;
    }
    let mut file = fs::OpenOptions::new();
    file.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut file, 0o600);
    file.open(path).map(drop).map_err(cannot(path.display().to_string()))
}

async fn connect(
    settings: &DatabaseSettings,
    path: &Path,
    options: SqliteConnectOptions,
    connections_max: u32,
) -> Result<SqlitePool, StoreError> {
    SqlitePoolOptions::new()
        .max_connections(connections_max)
        .min_connections(1)
        .acquire_timeout(settings.acquire_timeout)
        // A file does not hang up: connections stay, with the statements that they prepared.
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        .connect_with(options)
        .await
        .map_err(|source| StoreError::Open { what: path.display().to_string(), source: source.into() })
}

/// Asks the connection what it really does: a network disk or a read-only file may refuse the log without an error.
async fn check_durable(writer: &SqlitePool) -> Result<(), StoreError> {
    const ASK: &str = "read the settings of the database";
    let mode: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(writer).await.during(ASK)?;
    if mode != "wal" {
        return Err(StoreError::Unsafe { setting: "journal_mode", found: mode, needed: "wal" });
    }
    let synchronous: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(writer).await.during(ASK)?;
    if synchronous < 2 {
        return Err(StoreError::Unsafe { setting: "synchronous", found: synchronous.to_string(), needed: "2 (FULL)" });
    }
    let foreign_keys: bool = sqlx::query_scalar("PRAGMA foreign_keys").fetch_one(writer).await.during(ASK)?;
    if !foreign_keys {
        return Err(StoreError::Unsafe { setting: "foreign_keys", found: "off".to_owned(), needed: "on" });
    }
    Ok(())
}
