//! Statements that read a few rows through indexes.
//!
//! SQLite answers a probe on the caller's thread (`sqlite/readers.rs`). A probe sees every transaction that any process committed before it
//! started. Rows that many requests read, such as credentials, are cached until the next commit (`sqlite/kept.rs`).
//!
//! A runtime thread serves no other request during a probe. A statement may be a probe only if every table is read through an index,
//! without a scan and without a sort. [`probes!`](crate::probes) lists all probes of a crate, and a test checks the query plan of each. In
//! addition, a probe reads at most [`ROWS_MAX`] rows in place.
//!
//! In all other cases a probe is executed like any other statement: on PostgreSQL, and on SQLite if there are more rows, the file is
//! locked, or the connection fails. A failed connection is closed, and the next probe opens a new one.

use std::marker::PhantomData;

use rusqlite::Connection;
use sqlx::Error;

use super::Pool;
use super::argument::{Argument, Arguments};
use super::query::query;
use super::row::{DatabaseRow, Decoded};
use super::sqlite::error::SqliteError;
use super::sqlite::file::SqliteFile;
use super::sqlite::readers::{NotInPlace, SqliteReaders, is_temporary};

/// Maximum number of rows that a probe reads on the caller's thread.
pub const ROWS_MAX: usize = 64;

/// A statement that reads a few rows through indexes, with the type of its rows. Declared by [`probes!`](crate::probes).
#[derive(Debug)]
pub struct Probe<R> {
    sql: &'static str,
    /// Whether SQLite caches the rows in memory until the next commit of any process.
    is_kept: bool,
    rows: PhantomData<fn() -> R>,
}

impl<R> Clone for Probe<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Probe<R> {}

impl<R: DatabaseRow> Probe<R> {
    /// Creates a probe without a cache.
    pub const fn short(sql: &'static str) -> Self {
        Self { sql, is_kept: false, rows: PhantomData }
    }

    /// Creates a probe for rows that many requests read: SQLite caches them in memory until the next commit of any process.
    pub const fn kept(sql: &'static str) -> Self {
        Self { sql, is_kept: true, rows: PhantomData }
    }

    /// The SQL text, and the expected columns.
    pub const fn outline(&self) -> (&'static str, &'static [&'static str]) {
        (self.sql, R::COLUMNS)
    }
}

/// Declares all probes of a crate.
///
/// `probes! { pub(crate) short PERSON: PersonRow = "SELECT …"; pub(crate) kept SESSION: SessionRow = "SELECT …"; … }` declares constants with
/// [`Probe::short`] and [`Probe::kept`], and for tests `ALL` with their [outlines](Probe::outline). A statement returns its columns in the
/// order of the fields of the row.
#[macro_export]
macro_rules! probes {
    ($($(#[$meta:meta])* $vis:vis $kind:ident $name:ident: $row:ty = $sql:expr;)*) => {
        $($(#[$meta])* $vis const $name: $crate::pool::Probe<$row> = $crate::pool::Probe::$kind($sql);)*

        /// Every probe of this crate.
        #[cfg(test)]
        pub(crate) const ALL: &[(&str, &[&str])] = &[$($name.outline()),*];
    };
}

/// A [`Probe`] with its arguments.
#[derive(Debug)]
#[must_use]
pub struct ProbeQuery<'q, R> {
    probe: Probe<R>,
    arguments: Arguments<'q>,
}

/// Creates a query of a probe; its arguments are bound next.
pub fn probe<'q, R>(probe: Probe<R>) -> ProbeQuery<'q, R> {
    ProbeQuery { probe, arguments: Arguments::default() }
}

impl<'q, R: DatabaseRow + Clone> ProbeQuery<'q, R> {
    /// Binds the next argument: the first one is `$1`.
    pub fn bind(mut self, argument: impl Into<Argument<'q>>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Runs the probe and returns all rows.
    pub async fn fetch_all(self, on: &Pool) -> Result<Vec<R>, Error> {
        if let Pool::Sqlite { readers, .. } = on
            && let Ok(rows) = self.in_place(readers, ROWS_MAX + 1)
        {
            return rows;
        }
        query(self.probe.sql).bind_all(self.arguments).fetch_all(on).await
    }

    /// Runs the probe and returns its first row.
    pub async fn fetch_optional(self, on: &Pool) -> Result<Option<R>, Error> {
        if let Pool::Sqlite { readers, .. } = on
            && let Ok(rows) = self.in_place(readers, 1)
        {
            return rows.map(|rows| rows.into_iter().next());
        }
        query(self.probe.sql).bind_all(self.arguments).fetch_optional(on).await
    }

    /// Runs the probe to test whether probes are answered. On SQLite an error of its connection, except a lock, is returned, even if
    /// another connection might answer.
    pub async fn check(self, on: &Pool) -> Result<(), Error> {
        if let Pool::Sqlite { readers, .. } = on {
            match self.in_place(readers, 1) {
                Ok(rows) => return rows.map(drop),
                Err(NotInPlace::Failed(error)) if !is_temporary(&error) => return Err(SqliteError::from(&error).into()),
                Err(_) => {}
            }
        }
        self.fetch_optional(on).await.map(drop)
    }

    /// Runs the probe on the calling thread, for at most `rows_max` rows; without a limit if the rows are cached.
    fn in_place(&self, readers: &SqliteReaders, rows_max: usize) -> Result<Result<Vec<R>, Error>, NotInPlace> {
        let Probe { sql, is_kept, .. } = self.probe;
        let rows_max = if is_kept { ROWS_MAX + 1 } else { rows_max };
        readers.in_place(|reader| {
            let key = if is_kept { reader.kept.key(&reader.connection, sql, &self.arguments)? } else { None };
            if let Some(rows) = key.as_deref().and_then(|key| reader.kept.get(key)) {
                return Ok(Ok(rows));
            }
            let mut decoded = Decoded::default();
            reader.run(sql, &self.arguments, rows_max, &mut decoded)?;
            let Decoded(rows) = decoded;
            if let Ok(rows) = &rows {
                if rows.len() > ROWS_MAX {
                    return Err(NotInPlace::TooMany);
                }
                if let Some(key) = key {
                    reader.kept.keep(key, rows);
                }
            }
            Ok(rows)
        })
    }
}

/// Returns the first violation of the rules for probes. A sort of rows that are equal in the index is permitted.
#[doc(hidden)]
pub fn not_a_probe(file: &SqliteFile, sql: &str, columns: &[&str]) -> Option<String> {
    let explain = |connection: &Connection| -> rusqlite::Result<Vec<String>> {
        let statement = connection.prepare(sql)?;
        let names: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
        if names != columns {
            return Ok(vec![format!("columns {names:?} instead of {columns:?}")]);
        }
        let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?;
        let steps: Vec<String> = plan.raw_query().mapped(|row| row.get("detail")).collect::<Result<_, _>>()?;
        let breaks = |step: &String| {
            step.starts_with("SCAN") && step != "SCAN CONSTANT ROW" || step.contains("TEMP B-TREE FOR ORDER BY")
        };
        Ok(if steps.is_empty() { vec!["no plan".to_owned()] } else { steps.into_iter().filter(breaks).collect() })
    };
    match file.reader().and_then(|connection| explain(&connection)) {
        Ok(wrong) => wrong.into_iter().next(),
        Err(error) => Some(error.to_string()),
    }
}
