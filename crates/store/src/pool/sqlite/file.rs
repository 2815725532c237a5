//! An SQLite file, and the settings of its connections.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::place::FilePlace;
use crate::pool::DatabaseSettings;
use crate::pool::settings::STATEMENTS_MAX;

/// Size in bytes to which the write-ahead log is truncated after it has grown larger.
const LOG_BYTES_MAX: &str = "67108864";

/// Page cache per connection, in KiB.
const CACHE_KIB: i64 = 16 * 1024;

/// An SQLite file, with the settings of its connections. Clones refer to the same file.
#[derive(Debug, Clone)]
pub struct SqliteFile {
    path: Arc<Path>,
    busy_timeout: Duration,
    wal_bytes: u64,
    page_bytes: u32,
    overwrites_deleted: bool,
    /// Whether it is copied before a migration.
    pub(in crate::pool) copy_before_migration: bool,
    /// `None` for a copy that no process writes to, such as a backup.
    place: Option<FilePlace>,
}

impl SqliteFile {
    pub(in crate::pool) fn new(settings: &DatabaseSettings, path: &Path, is_immutable: bool) -> Self {
        Self {
            path: path.into(),
            busy_timeout: settings.busy_timeout,
            wal_bytes: settings.wal_bytes,
            page_bytes: settings.page_bytes,
            overwrites_deleted: settings.overwrites_deleted,
            copy_before_migration: settings.copy_before_migration,
            place: (!is_immutable).then(|| FilePlace::of(path)),
        }
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Why commits are rejected: the file is not at its path any more.
    pub(in crate::pool) fn fault(&self) -> Option<String> {
        self.place.as_ref().and_then(FilePlace::fault)
    }

    /// Size of the write-ahead log in bytes.
    pub(in crate::pool) fn log_bytes(&self) -> Option<u64> {
        self.place.as_ref().map(FilePlace::log_bytes)
    }

    /// Opens a writing connection; commits are durable when they return (`synchronous=FULL`).
    pub fn writer(&self) -> rusqlite::Result<Connection> {
        let connection = self.open(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        if let Some(place) = &self.place {
            place.guard(&connection)?;
        }
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", "ON")?;
        connection.pragma_update(None, "journal_size_limit", LOG_BYTES_MAX)?;
        connection.pragma_update_and_check(None, "secure_delete", self.overwrites_deleted, |_| Ok(()))?;
        Ok(connection)
    }

    /// Opens the connection of the pool's writer and sets WAL mode. It does not wait for locks of other processes: the writer's thread
    /// does. A copy cannot be written.
    pub(in crate::pool) fn own_writer(&self) -> rusqlite::Result<Connection> {
        if self.place.is_none() {
            return self.reader();
        }
        let connection = self.writer()?;
        // Has no effect on a file with pages.
        connection.pragma_update(None, "page_size", self.page_bytes)?;
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        connection.busy_timeout(Duration::ZERO)?;
        Ok(connection)
    }

    pub(in crate::pool) fn busy_timeout(&self) -> Duration {
        self.busy_timeout
    }

    /// Size in bytes of the write-ahead log at which the pool's writer copies it into the file.
    pub(in crate::pool) fn wal_bytes(&self) -> u64 {
        self.wal_bytes
    }

    /// Opens a read-only connection.
    pub fn reader(&self) -> rusqlite::Result<Connection> {
        let is_copy = self.place.is_none();
        let flags = if is_copy { OpenFlags::SQLITE_OPEN_READ_ONLY } else { OpenFlags::SQLITE_OPEN_READ_WRITE };
        let connection = self.open(flags)?;
        connection.pragma_update(None, "query_only", "ON")?;
        Ok(connection)
    }

    /// Opens without the library's mutex, because every connection is used by one thread at a time. The file must exist, so that a missing
    /// file is an error instead of an empty database.
    fn open(&self, flags: OpenFlags) -> rusqlite::Result<Connection> {
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = if let Some(place) = &self.place {
            place.check()?;
            Connection::open_with_flags(&self.path, flags)?
        } else {
            Connection::open_with_flags(immutable_uri(&self.path), flags | OpenFlags::SQLITE_OPEN_URI)?
        };
        // Uses one plan for all values. Otherwise SQLite prepares a statement again whenever a bound value may affect the plan, such as
        // the value of `LIMIT`; this takes half of the time of a short read.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.busy_timeout(self.busy_timeout)?;
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        Ok(connection)
    }
}

/// A path as a URI filename (sqlite.org/uri.html): `%`, `?` and `#` are escaped.
fn immutable_uri(path: &Path) -> PathBuf {
    let path = path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    PathBuf::from(format!("file:{path}?immutable=1"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;

    #[tokio::test]
    async fn every_connection_has_the_settings_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("100% of it?.db");
        let pool = Pool::open(&DatabaseSettings::default(), &path, None).await.unwrap();
        let Pool::Sqlite { file, .. } = &pool else { unreachable!() };
        let writer = file.writer().unwrap();
        let read = |connection: &Connection, name: &str| -> String {
            let value = |row: &rusqlite::Row<'_>| row.get::<_, rusqlite::types::Value>(0);
            match connection.pragma_query_value(None, name, value).unwrap() {
                rusqlite::types::Value::Integer(number) => number.to_string(),
                rusqlite::types::Value::Text(text) => text,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(read(&writer, "journal_mode"), "wal");
        assert_eq!(read(&writer, "synchronous"), "2");
        assert_eq!(read(&writer, "foreign_keys"), "1");
        assert_eq!(read(&writer, "secure_delete"), "1");
        assert_eq!(read(&writer, "busy_timeout"), "5000");
        writer.execute_batch("CREATE TABLE facts (fact TEXT); INSERT INTO facts VALUES ('one')").unwrap();
        let reader = file.reader().unwrap();
        assert_eq!(reader.query_row("SELECT fact FROM facts", [], |row| row.get::<_, String>(0)).unwrap(), "one");
        assert!(reader.execute("DELETE FROM facts", []).is_err());
        let mut limited = reader.prepare("SELECT fact FROM facts LIMIT ?1").unwrap();
        for limit in 1..5 {
            assert!(limited.exists([limit]).unwrap());
        }
        assert_eq!(limited.get_status(rusqlite::StatementStatus::RePrepare), 0);
        drop(limited);
        drop((reader, writer));
        pool.close().await;

        let Pool::Sqlite { file, .. } = Pool::open_copy(&path).await.unwrap() else { unreachable!() };
        let fact = file.reader().unwrap().query_row("SELECT fact FROM facts", [], |row| row.get::<_, String>(0));
        assert_eq!(fact.unwrap(), "one");
    }
}
