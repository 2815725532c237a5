//! Errors of a database, named by the operation that failed.

use std::error::Error;
use std::fmt;

use sqlx::migrate::MigrateError;
use sqlx::postgres::PgDatabaseError;

/// A failure of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database cannot be opened.
    #[error("the database cannot be opened: {what}")]
    Open {
        /// The step that failed.
        what: String,
        /// The error of the driver or of the file system.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The server answers, and refuses this connection: role, password or name of the database are wrong.
    #[error("the database refuses the connection: {server}")]
    Refused {
        /// Host and port.
        server: String,
        /// The server's reason.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The settings of the database allow it to lose acknowledged writes: the store does not open it.
    #[error("{setting} is {found}: events that were acknowledged could be lost; it must be {needed}")]
    Unsafe {
        /// The setting, as the database names it.
        setting: &'static str,
        /// Value of the setting.
        found: String,
        /// The accepted values.
        needed: &'static str,
    },
    /// A newer version of this program created the tables.
    #[error(
        "the database has schema {found}, this program knows {known}, and migration {refusing} is not for it: run a newer version of the \
         program"
    )]
    SchemaTooNew {
        /// The newest migration of the database.
        found: i64,
        /// The newest migration of the program.
        known: i64,
        /// Number and name of the first migration that does not permit this program.
        refusing: String,
    },
    /// The tables are from an older version of this program, or there are none.
    #[error("the database has schema {found}, this program needs {known}: run its migrations {missing}")]
    SchemaTooOld {
        /// The newest migration of the database; 0 when there is none.
        found: i64,
        /// The newest migration of the program.
        known: i64,
        /// Numbers and names of the migrations that the database lacks.
        missing: String,
    },
    /// A migration failed.
    #[error("the database cannot be migrated")]
    Migrate(#[from] MigrateError),
    /// The database rejected the operation or did not answer.
    #[error("cannot {operation}")]
    Database {
        /// The operation, as a verb and its object.
        operation: FailedOperation,
        /// The error of the driver.
        #[source]
        source: sqlx::Error,
    },
    /// A row contains a value that this program never writes.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
}

/// The operation that failed: a verb and its object, in words or in snake case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedOperation(&'static str);

impl fmt::Display for FailedOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.replace('_', " "))
    }
}

/// A row with a value that this program never writes.
#[derive(Debug, thiserror::Error)]
#[error("the database is damaged: {column} cannot be read")]
pub struct Corrupt {
    /// Table and column, `machines.user_cuid`.
    pub column: &'static str,
    /// The expectation that was violated. The value itself is not shown: it may be personal data.
    #[source]
    pub source: Box<dyn Error + Send + Sync>,
}

impl Corrupt {
    /// Creates the error of `column` (`table.column`).
    pub fn new(column: &'static str, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { column, source: source.into() }
    }
}

impl StoreError {
    /// Whether the same operation may succeed later: the database is unavailable, busy, full or restarting.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Open { .. } => true,
            Self::Migrate(MigrateError::Execute(source) | MigrateError::ExecuteMigration(source, _))
            | Self::Database { source, .. } => is_unavailable(source),
            _ => false,
        }
    }

    /// Whether a row with this key exists already.
    pub fn is_unique_violation(&self) -> bool {
        self.database().is_some_and(sqlx::error::DatabaseError::is_unique_violation)
    }

    /// Whether the row refers to a missing row.
    pub fn is_foreign_key_violation(&self) -> bool {
        self.database().is_some_and(sqlx::error::DatabaseError::is_foreign_key_violation)
    }

    fn database(&self) -> Option<&(dyn sqlx::error::DatabaseError + 'static)> {
        match self {
            Self::Database { source, .. } => source.as_database_error(),
            _ => None,
        }
    }
}

/// Adds the name of the operation to an error of the driver. [`During`](crate::During) also measures it.
pub trait Context<T> {
    /// `operation` is a verb and its object: "attach the machine".
    fn context(self, operation: &'static str) -> Result<T, StoreError>;
}

impl<T> Context<T> for Result<T, sqlx::Error> {
    fn context(self, operation: &'static str) -> Result<T, StoreError> {
        self.map_err(|error| match error {
            sqlx::Error::Decode(source) => match source.downcast::<Corrupt>() {
                Ok(corrupt) => StoreError::Corrupt(*corrupt),
                Err(source) => {
                    StoreError::Database { operation: FailedOperation(operation), source: sqlx::Error::Decode(source) }
                }
            },
            source => StoreError::Database { operation: FailedOperation(operation), source },
        })
    }
}

/// Passes a corrupt row through a transaction with `?`; [`Context`] restores the error.
impl From<Corrupt> for sqlx::Error {
    fn from(corrupt: Corrupt) -> Self {
        Self::Decode(Box::new(corrupt))
    }
}

/// Whether a driver's error is caused by the state of the database and not by the statement.
pub fn is_unavailable(error: &sqlx::Error) -> bool {
    use sqlx::Error as E;
    match error {
        E::Io(_) | E::Tls(_) | E::Protocol(_) | E::PoolTimedOut | E::PoolClosed | E::WorkerCrashed | E::BeginFailed => {
            true
        }
        E::Database(error) => {
            let code = error.code();
            let code = code.as_deref().unwrap_or_default();
            let is_postgres = error.try_downcast_ref::<PgDatabaseError>().is_some();
            if is_postgres { postgres_is_unavailable(code) } else { sqlite_is_unavailable(code) }
        }
        _ => false,
    }
}

/// <https://www.sqlite.org/rescode.html>; the primary code is the low byte of the extended one.
fn sqlite_is_unavailable(code: &str) -> bool {
    const ABORT: u32 = 4;
    const BUSY: u32 = 5;
    const LOCKED: u32 = 6;
    const NO_MEMORY: u32 = 7;
    const READ_ONLY: u32 = 8;
    const IO: u32 = 10;
    const FULL: u32 = 13;
    const CANNOT_OPEN: u32 = 14;
    code.parse::<u32>().is_ok_and(|code| {
        matches!(code & 0xff, ABORT | BUSY | LOCKED | NO_MEMORY | READ_ONLY | IO | FULL | CANNOT_OPEN)
    })
}

/// <https://www.postgresql.org/docs/current/errcodes-appendix.html>
fn postgres_is_unavailable(code: &str) -> bool {
    const CLASSES: [&str; 4] = [
        "08", // connection
        "40", // deadlock, serialisation failure
        "53", // no disk, no memory, too many connections
        "58", // system error
    ];
    const CODES: [&str; 8] = [
        "25006", // read-only transaction: a standby after a fail-over
        "25P03", // idle in transaction too long
        "55P03", // lock not available
        "57014", // statement time-out
        "57P01", // administrator's shutdown
        "57P02", // crash of the server
        "57P03", // starting up
        "57P05", // idle session time-out
    ];
    CLASSES.iter().any(|class| code.starts_with(class)) || CODES.contains(&code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_is_away_busy_or_full_is_unavailable() {
        for code in ["4", "5", "6", "7", "10", "13", "14", "261", "516", "517", "778"] {
            assert!(sqlite_is_unavailable(code), "{code}");
        }
        for code in ["", "1", "11", "19", "2067", "1555"] {
            assert!(!sqlite_is_unavailable(code), "{code}");
        }
        for code in ["08006", "40001", "40P01", "53300", "57P01", "57014"] {
            assert!(postgres_is_unavailable(code), "{code}");
        }
        for code in ["", "23505", "42P01", "22P02"] {
            assert!(!postgres_is_unavailable(code), "{code}");
        }
    }

    #[test]
    fn an_error_names_the_operation_and_keeps_its_source() {
        let error = Err::<(), _>(sqlx::Error::PoolTimedOut).context("attach the machine").unwrap_err();
        assert_eq!(error.to_string(), "cannot attach the machine");
        assert!(error.is_unavailable() && !error.is_unique_violation());
        assert!(Error::source(&error).is_some());
    }

    #[test]
    fn damage_inside_a_transaction_is_still_named() {
        let inside: Result<(), sqlx::Error> = Err(Corrupt::new("machines.user_cuid", "expected a CUID2").into());
        assert!(matches!(
            inside.context("hold events"),
            Err(StoreError::Corrupt(Corrupt { column: "machines.user_cuid", .. }))
        ));
    }
}
