//! The connections to one database.

use super::postgres::PostgresPool;
use super::sqlite::file::SqliteFile;
use super::sqlite::readers::SqliteReaders;
use super::sqlite::writer::Writer;

/// Connections to one database.
#[derive(Debug, Clone)]
pub enum Pool {
    /// An SQLite file.
    Sqlite {
        /// The only connection that writes. Concurrent writes share commits.
        writer: Writer,
        /// Read-only connections.
        readers: SqliteReaders,
        /// Opens connections that a thread owns.
        file: SqliteFile,
    },
    /// Connections to a PostgreSQL server.
    Postgres(PostgresPool),
}

impl Pool {
    /// Whether the database is PostgreSQL, for code that depends on the dialect.
    pub fn is_postgres(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// Closes the connections when they are returned. Does nothing on SQLite: a file does not change its role.
    pub(crate) fn renew(&self) {
        if let Self::Postgres(pool) = self {
            pool.renew();
        }
    }

    /// The same connections for another schema; closing this pool closes them. `None` for SQLite, which has one file per schema.
    #[must_use]
    pub fn in_schema(&self, schema: &'static str) -> Option<Self> {
        match self {
            Self::Sqlite { .. } => None,
            Self::Postgres(pool) => Some(Self::Postgres(pool.in_schema(schema))),
        }
    }

    /// The schema that this pool was opened for; `None` is the default of the server, and always so on SQLite.
    pub fn schema(&self) -> Option<&'static str> {
        match self {
            Self::Sqlite { .. } => None,
            Self::Postgres(pool) => pool.schema,
        }
    }
}
