//! Errors of SQLite, by its result codes.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use rusqlite::ffi;
use sqlx::error::{DatabaseError, ErrorKind};

use super::place::REFUSED;

/// The error of a statement. Arguments that do not match the statement are not a database error.
pub(super) fn driver_error(error: &rusqlite::Error) -> sqlx::Error {
    match error.sqlite_error() {
        None => sqlx::Error::InvalidArgument(error.to_string()),
        Some(_) => SqliteError::from(error).into(),
    }
}

/// An error of SQLite. Every member of a group gets a clone.
#[derive(Debug, Clone)]
pub struct SqliteError {
    /// <https://www.sqlite.org/rescode.html>, extended.
    code: i32,
    message: Arc<str>,
}

impl SqliteError {
    /// The transaction ended without `COMMIT`.
    pub(in crate::pool) fn rolled_back() -> Self {
        Self { code: ffi::SQLITE_ABORT_ROLLBACK, message: "the transaction was rolled back by the database".into() }
    }

    /// The error for the other members of a group: retryable if one member caused it, for example by a violated constraint.
    pub(in crate::pool) fn for_other_members(&self) -> Self {
        if self.is_file_error() || self.is_busy() {
            return self.clone();
        }
        let message = format!("the transaction was rolled back because of another member: {}", self.message);
        Self { code: ffi::SQLITE_ABORT_ROLLBACK, message: message.into() }
    }

    /// Whether the file, the disk or the memory failed, so that the connection must be closed.
    pub(in crate::pool) fn is_file_error(&self) -> bool {
        matches!(
            self.primary(),
            ffi::SQLITE_NOMEM
                | ffi::SQLITE_READONLY
                | ffi::SQLITE_IOERR
                | ffi::SQLITE_CORRUPT
                | ffi::SQLITE_FULL
                | ffi::SQLITE_CANTOPEN
                | ffi::SQLITE_PROTOCOL
                | ffi::SQLITE_NOTADB
        )
    }

    /// Whether another connection holds the lock.
    pub(in crate::pool) fn is_busy(&self) -> bool {
        self.primary() == ffi::SQLITE_BUSY
    }

    fn primary(&self) -> i32 {
        self.code & 0xff
    }
}

impl From<&rusqlite::Error> for SqliteError {
    fn from(error: &rusqlite::Error) -> Self {
        match error {
            rusqlite::Error::SqliteFailure(failure, _)
                if failure.extended_code == ffi::SQLITE_CONSTRAINT_COMMITHOOK =>
            {
                Self { code: ffi::SQLITE_READONLY_DBMOVED, message: REFUSED.into() }
            }
            rusqlite::Error::SqliteFailure(failure, message) => Self {
                code: failure.extended_code,
                message: match message {
                    Some(message) => message.as_str().into(),
                    None => ffi::code_to_str(failure.extended_code).into(),
                },
            },
            other => Self {
                code: other.sqlite_error().map_or(ffi::SQLITE_ERROR, |failure| failure.extended_code),
                message: other.to_string().into(),
            },
        }
    }
}

impl fmt::Display for SqliteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "(code: {}) {}", self.code, self.message)
    }
}

impl StdError for SqliteError {}

impl DatabaseError for SqliteError {
    fn message(&self) -> &str {
        &self.message
    }

    fn code(&self) -> Option<Cow<'_, str>> {
        Some(self.code.to_string().into())
    }

    fn as_error(&self) -> &(dyn StdError + Send + Sync + 'static) {
        self
    }

    fn as_error_mut(&mut self) -> &mut (dyn StdError + Send + Sync + 'static) {
        self
    }

    fn into_error(self: Box<Self>) -> Box<dyn StdError + Send + Sync + 'static> {
        self
    }

    fn kind(&self) -> ErrorKind {
        match self.code {
            ffi::SQLITE_CONSTRAINT_UNIQUE | ffi::SQLITE_CONSTRAINT_PRIMARYKEY => ErrorKind::UniqueViolation,
            ffi::SQLITE_CONSTRAINT_FOREIGNKEY => ErrorKind::ForeignKeyViolation,
            ffi::SQLITE_CONSTRAINT_NOTNULL => ErrorKind::NotNullViolation,
            ffi::SQLITE_CONSTRAINT_CHECK => ErrorKind::CheckViolation,
            _ => ErrorKind::Other,
        }
    }
}
