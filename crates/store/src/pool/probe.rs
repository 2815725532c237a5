//! Short reads on the caller's thread.
//!
//! Passing a statement to a driver thread and back costs ten times the CPU of an index lookup in SQLite. A [`Probe`] therefore runs
//! on the calling thread, on a connection borrowed for a few microseconds. It sees every transaction that was committed before it
//! began, by any process. Rows that many requests read, such as those of credentials, are kept until the next commit
//! (`probe/kept.rs`).
//!
//! A runtime thread serves no other request during a probe. A statement may be a probe only if every table is read through an index,
//! without a scan and without a sort. [`probes!`](crate::probes) lists all probes of a crate, and a test checks the query plan of
//! each. In addition, a probe reads at most [`ROWS_MAX`] rows.
//!
//! The pool answers in all other cases: on PostgreSQL, and on SQLite when there are more rows, when the file is locked, or when the
//! connection fails. A connection that failed is closed, and the next probe opens a new one.

mod kept;
pub(super) mod readers;

use std::marker::PhantomData;

use domain::Timestamp;
use domain::clock::from_stored;
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use uuid::Uuid;

pub use self::readers::NotInPlace;
use self::readers::is_lock;
use super::argument::Argument;
use super::query::query;
use super::{DatabaseRow, DirectError, Pool, SqliteFile};

/// Maximum number of rows read on the caller's thread; with more, the pool answers.
pub const ROWS_MAX: usize = 64;

/// A statement that reads a few rows through indexes, with the type of its rows. Only [`probes!`](crate::probes) creates it.
#[derive(Debug)]
pub struct Probe<R> {
    sql: &'static str,
    rows: PhantomData<fn() -> R>,
}

impl<R> Clone for Probe<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Probe<R> {}

impl<R: Row> Probe<R> {
    #[doc(hidden)]
    pub const fn new(sql: &'static str) -> Self {
        Self { sql, rows: PhantomData }
    }

    /// The SQL text, and the expected columns.
    pub const fn outline(&self) -> (&'static str, &'static [&'static str]) {
        (self.sql, R::COLUMNS)
    }
}

/// Declares all probes of a crate.
///
/// `probes! { pub(crate) const SESSION: FactsRow = "SELECT …"; … }` declares a [`Probe`] for each statement, and for tests `ALL`
/// with their [outlines](Probe::outline). A statement returns its columns in the order of the fields of the row.
#[macro_export]
macro_rules! probes {
    ($($(#[$meta:meta])* $vis:vis const $name:ident: $row:ty = $sql:expr;)*) => {
        $($(#[$meta])* $vis const $name: $crate::pool::Probe<$row> = $crate::pool::Probe::new($sql);)*

        /// Every probe of this crate.
        #[cfg(test)]
        pub(crate) const ALL: &[(&str, &[&str])] = &[$($name.outline()),*];
    };
}

/// A row of a probe. Declared by [`row!`](crate::row!).
pub trait Row: DatabaseRow + Clone + Sized + 'static {
    /// The columns, in order.
    const COLUMNS: &'static [&'static str];

    #[doc(hidden)]
    fn read(row: &rusqlite::Row<'_>) -> Result<Self, NotInPlace>;
}

/// Declares a struct with a field for each column. The pool decodes columns by name, a probe by position.
#[macro_export]
macro_rules! row {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($(#[$member_meta:meta])* $member_vis:vis $member:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Clone, sqlx_macros::FromRow)]
        $vis struct $name { $($(#[$member_meta])* $member_vis $member: $type,)* }

        impl $crate::pool::Row for $name {
            const COLUMNS: &'static [&'static str] = &[$(stringify!($member)),*];

            fn read(row: &rusqlite::Row<'_>) -> Result<Self, $crate::pool::NotInPlace> {
                let mut columns = $crate::pool::Columns::of(row);
                Ok(Self { $($member: columns.next()?,)* })
            }
        }
    };
}

/// Iterates over the columns of a row.
#[doc(hidden)]
#[derive(Debug)]
pub struct Columns<'row, 'statement> {
    row: &'row rusqlite::Row<'statement>,
    place: usize,
}

impl<'row, 'statement> Columns<'row, 'statement> {
    #[doc(hidden)]
    pub fn of(row: &'row rusqlite::Row<'statement>) -> Self {
        Self { row, place: 0 }
    }

    #[doc(hidden)]
    #[expect(clippy::should_implement_trait, reason = "each column has a type of its own")]
    pub fn next<C: Column>(&mut self) -> Result<C, NotInPlace> {
        let value = self.row.get_ref(self.place)?;
        self.place += 1;
        C::read(value).ok_or(NotInPlace::Unreadable)
    }
}

/// A column value in the encoding of the pool.
pub trait Column: Sized {
    /// `None`: another encoding.
    fn read(value: ValueRef<'_>) -> Option<Self>;
}

impl<C: Column> Column for Option<C> {
    fn read(value: ValueRef<'_>) -> Option<Self> {
        if matches!(value, ValueRef::Null) { Some(None) } else { C::read(value).map(Some) }
    }
}

impl Column for String {
    fn read(value: ValueRef<'_>) -> Option<Self> {
        value.as_str().ok().map(str::to_owned)
    }
}

impl Column for Vec<u8> {
    fn read(value: ValueRef<'_>) -> Option<Self> {
        value.as_blob().ok().map(<[u8]>::to_vec)
    }
}

impl Column for i64 {
    fn read(value: ValueRef<'_>) -> Option<Self> {
        value.as_i64().ok()
    }
}

impl Column for bool {
    fn read(value: ValueRef<'_>) -> Option<Self> {
        value.as_i64().ok().map(|number| number != 0)
    }
}

impl Column for Uuid {
    fn read(value: ValueRef<'_>) -> Option<Self> {
        value.as_blob().ok().and_then(|bytes| Self::from_slice(bytes).ok())
    }
}

impl Column for Timestamp {
    fn read(value: ValueRef<'_>) -> Option<Self> {
        from_stored(value.as_str().ok()?).ok()
    }
}

impl Pool {
    /// Runs a probe and returns its first row.
    pub async fn probe_one<R: Row>(
        &self,
        probe: Probe<R>,
        arguments: &[Argument<'_>],
    ) -> Result<Option<R>, sqlx::Error> {
        if let Self::Sqlite { file, .. } = self
            && let Some(row) = file.in_place(probe.sql, arguments, first)
        {
            return Ok(row);
        }
        query(probe.sql).bind_all(arguments).fetch_optional(self).await
    }

    /// Runs a probe to test whether probes are answered. On SQLite an error of the connection is returned even if the pool would answer
    /// instead, except that of a lock.
    pub async fn try_probe<R: Row>(&self, probe: Probe<R>, arguments: &[Argument<'_>]) -> Result<(), sqlx::Error> {
        if let Self::Sqlite { file, .. } = self {
            match file.readers.run(file, |reader| reader.read(probe.sql, arguments, first::<R>)) {
                Ok(_) => return Ok(()),
                Err(NotInPlace::Failed(error)) if !is_lock(&error) => {
                    return Err(sqlx::Error::Database(Box::new(DirectError::from(&error))));
                }
                Err(_) => {}
            }
        }
        self.probe_one(probe, arguments).await.map(drop)
    }

    /// Like [`Self::probe_one`], for a row that many requests read: SQLite keeps it in memory until the next commit of any process.
    pub async fn probe_kept_one<R: Row>(
        &self,
        probe: Probe<R>,
        arguments: &[Argument<'_>],
    ) -> Result<Option<R>, sqlx::Error> {
        if let Self::Sqlite { file, .. } = self
            && let Some(row) = file.in_place_kept(probe.sql, arguments, first)
        {
            return Ok(row);
        }
        self.probe_one(probe, arguments).await
    }

    /// The same for all rows.
    pub async fn probe_kept_all<R: Row>(
        &self,
        probe: Probe<R>,
        arguments: &[Argument<'_>],
    ) -> Result<Vec<R>, sqlx::Error> {
        if let Self::Sqlite { file, .. } = self
            && let Some(rows) = file.in_place_kept(probe.sql, arguments, all)
        {
            return Ok(rows);
        }
        self.probe_all(probe, arguments).await
    }

    /// Runs a probe and returns all rows.
    pub async fn probe_all<R: Row>(&self, probe: Probe<R>, arguments: &[Argument<'_>]) -> Result<Vec<R>, sqlx::Error> {
        if let Self::Sqlite { file, .. } = self
            && let Some(rows) = file.in_place(probe.sql, arguments, all)
        {
            return Ok(rows);
        }
        query(probe.sql).bind_all(arguments).fetch_all(self).await
    }
}

fn first<R: Row>(rows: &mut rusqlite::Rows<'_>) -> Result<Option<R>, NotInPlace> {
    rows.next()?.map(R::read).transpose()
}

fn all<R: Row>(rows: &mut rusqlite::Rows<'_>) -> Result<Vec<R>, NotInPlace> {
    let mut read = Vec::new();
    while let Some(row) = rows.next()? {
        if read.len() == ROWS_MAX {
            return Err(NotInPlace::TooMany);
        }
        read.push(R::read(row)?);
    }
    Ok(read)
}

/// Returns the first violation of the rule for probes. A sort of rows that are equal in the index is allowed.
#[doc(hidden)]
pub fn not_a_probe(file: &SqliteFile, sql: &str, columns: &[&str]) -> Option<String> {
    let explain = |connection: &Connection| -> rusqlite::Result<Vec<String>> {
        let found = connection.prepare(sql)?;
        let found: Vec<String> = found.column_names().into_iter().map(str::to_owned).collect();
        if found != columns {
            return Ok(vec![format!("columns {found:?} instead of {columns:?}")]);
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
