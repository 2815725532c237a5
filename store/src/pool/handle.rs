//! The connections to one database.

use sqlx::postgres::PgPool;
use sqlx::sqlite::SqlitePool;

use super::file::SqliteFile;
use super::writer::Writer;

/// Connections to one database.
#[derive(Debug, Clone)]
pub enum Pool {
    /// An SQLite file.
    Sqlite {
        /// The one connection that writes. Concurrent writes share commits.
        writer: Writer,
        /// Connections that cannot write.
        reader: SqlitePool,
        /// Opens connections that a thread owns.
        file: SqliteFile,
    },
    /// Connections to a PostgreSQL server.
    Postgres(PgPool),
}

impl Pool {
    /// Whether the database is PostgreSQL, for the few places where the dialects truly differ.
    pub fn is_postgres(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }
}
