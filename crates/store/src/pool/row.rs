//! Rows, and the decoding of their columns from the rows of both drivers.

use std::any::Any;

use domain::Timestamp;
use domain::clock::from_stored;
use rusqlite::types::ValueRef;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgRow, Postgres};
use sqlx::{Decode, Error, Type};
use uuid::Uuid;

/// A row that can be decoded from both databases. [`row!`](crate::row!) declares one; a tuple of columns is one too.
pub trait DatabaseRow: Send + Sized + 'static {
    /// The columns, in order. A tuple has no names.
    const COLUMNS: &'static [&'static str];

    /// Decodes the columns of a row.
    fn read(columns: &mut Columns<'_>) -> Result<Self, Error>;
}

/// Declares a struct with a field for each column. Columns are matched by name, in any order: `id: i64` is the column `id`, `self_hash as
/// "self": Vec<u8>` the column `self`. A field may be another row, with columns of the same statement.
#[macro_export]
macro_rules! row {
    (@column $member:ident) => { stringify!($member) };
    (@column $member:ident $column:literal) => { $column };
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[$member_meta:meta])* $member_vis:vis $member:ident $(as $column:literal)?: $type:ty,)*
    }) => {
        $(#[$meta])*
        $vis struct $name { $($(#[$member_meta])* $member_vis $member: $type,)* }

        impl $crate::pool::DatabaseRow for $name {
            const COLUMNS: &'static [&'static str] = &[$($crate::row!(@column $member $($column)?)),*];

            fn read(columns: &mut $crate::pool::Columns<'_>) -> Result<Self, sqlx::Error> {
                Ok(Self { $($member: columns.get($crate::row!(@column $member $($column)?))?,)* })
            }
        }

        impl $crate::pool::Member for $name {
            fn read(columns: &mut $crate::pool::Columns<'_>, _name: &str) -> Result<Self, sqlx::Error> {
                $crate::pool::DatabaseRow::read(columns)
            }
        }
    };
}

/// The columns of a row of either driver.
#[derive(Debug)]
pub struct Columns<'r> {
    row: DriverRow<'r>,
    /// Index of the next column, if columns are read in order: SQLite finds a column by comparing names.
    next: usize,
}

#[derive(Debug, Clone, Copy)]
enum DriverRow<'r> {
    Sqlite(&'r rusqlite::Row<'r>),
    Postgres(&'r PgRow),
}

impl<'r> Columns<'r> {
    pub(super) fn of_sqlite(row: &'r rusqlite::Row<'r>) -> Self {
        Self { row: DriverRow::Sqlite(row), next: 0 }
    }

    pub(super) fn of_postgres(row: &'r PgRow) -> Self {
        Self { row: DriverRow::Postgres(row), next: 0 }
    }

    /// Decodes a member of a row: the column of this name, or a row.
    pub fn get<M: Member>(&mut self, name: &str) -> Result<M, Error> {
        M::read(self, name)
    }

    fn named<C: Column>(&mut self, name: &str) -> Result<C, Error> {
        match self.row {
            DriverRow::Postgres(row) => sqlx::Row::try_get(row, name),
            DriverRow::Sqlite(row) => {
                let place = place(row, name, self.next)?;
                self.next = place + 1;
                decoded(row, place)
            }
        }
    }

    fn at<C: Column>(&self, place: usize) -> Result<C, Error> {
        match self.row {
            DriverRow::Postgres(row) => sqlx::Row::try_get(row, place),
            DriverRow::Sqlite(row) => decoded(row, place),
        }
    }
}

fn place(row: &rusqlite::Row<'_>, name: &str, expected: usize) -> Result<usize, Error> {
    let statement = row.as_ref();
    if statement.column_name(expected).is_ok_and(|column| column == name) {
        return Ok(expected);
    }
    statement.column_index(name).map_err(|_| Error::ColumnNotFound(name.to_owned()))
}

fn decoded<C: Column>(row: &rusqlite::Row<'_>, place: usize) -> Result<C, Error> {
    let len = row.as_ref().column_count();
    let value = row.get_ref(place).map_err(|_| Error::ColumnIndexOutOfBounds { index: place, len })?;
    C::of_sqlite(value).map_err(|source| {
        let index = row.as_ref().column_name(place).map_or_else(|_| place.to_string(), str::to_owned);
        Error::ColumnDecode { index, source }
    })
}

/// A member of a row: a column, or a row.
pub trait Member: Sized {
    #[doc(hidden)]
    fn read(columns: &mut Columns<'_>, name: &str) -> Result<Self, Error>;
}

impl<C: Column> Member for C {
    fn read(columns: &mut Columns<'_>, name: &str) -> Result<Self, Error> {
        columns.named(name)
    }
}

/// A value of a column. [`Argument`](super::Argument) encodes it.
pub trait Column: for<'r> Decode<'r, Postgres> + Type<Postgres> {
    /// Decodes a value of SQLite.
    fn of_sqlite(value: ValueRef<'_>) -> Result<Self, BoxDynError>;
}

impl<C: Column> Column for Option<C> {
    fn of_sqlite(value: ValueRef<'_>) -> Result<Self, BoxDynError> {
        if matches!(value, ValueRef::Null) { Ok(None) } else { C::of_sqlite(value).map(Some) }
    }
}

/// The message contains no value, which may be personal data.
macro_rules! columns {
    ($($type:ty: $value:pat => $decoded:expr;)*) => { $(
        impl Column for $type {
            fn of_sqlite(value: ValueRef<'_>) -> Result<Self, BoxDynError> {
                match value {
                    $value => Ok($decoded),
                    other => Err(format!("{} cannot be decoded from {}", stringify!($type), other.data_type()).into()),
                }
            }
        }
    )* };
}

columns! {
    bool: ValueRef::Integer(number) => number != 0;
    i32: ValueRef::Integer(number) => number.try_into()?;
    i64: ValueRef::Integer(number) => number;
    f64: ValueRef::Real(number) => number;
    String: ValueRef::Text(text) => str::from_utf8(text)?.to_owned();
    Vec<u8>: ValueRef::Blob(bytes) | ValueRef::Text(bytes) => bytes.to_vec();
    Uuid: ValueRef::Blob(bytes) => Self::from_slice(bytes)?;
    Timestamp: ValueRef::Text(text) => from_stored(str::from_utf8(text)?)?;
}

macro_rules! tuples {
    ($($($column:ident $place:literal)*;)*) => { $(
        impl<$($column: Column + Send + 'static),*> DatabaseRow for ($($column,)*) {
            const COLUMNS: &'static [&'static str] = &[];

            fn read(columns: &mut Columns<'_>) -> Result<Self, Error> {
                Ok(($(columns.at::<$column>($place)?,)*))
            }
        }
    )* };
}

tuples! {
    A 0;
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 D 3;
    A 0 B 1 C 2 D 3 E 4;
    A 0 B 1 C 2 D 3 E 4 F 5;
    A 0 B 1 C 2 D 3 E 4 F 5 G 6;
    A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7;
    A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8;
}

/// Decodes rows while their statement runs. A trait object, so that the code that runs a statement is compiled once.
pub(super) trait Decoder: Any + Send {
    fn take(&mut self, columns: &mut Columns<'_>);
}

/// The decoded rows, or the first error. An error does not end the statement, which may write.
pub(super) struct Decoded<R>(pub(super) Result<Vec<R>, Error>);

impl<R> Default for Decoded<R> {
    fn default() -> Self {
        Self(Ok(Vec::new()))
    }
}

impl<R: DatabaseRow> Decoder for Decoded<R> {
    fn take(&mut self, columns: &mut Columns<'_>) {
        if let Ok(rows) = &mut self.0 {
            match R::read(columns) {
                Ok(row) => rows.push(row),
                Err(error) => self.0 = Err(error),
            }
        }
    }
}

/// Discards rows if only the number of changes is needed.
pub(super) struct Ignored;

impl Decoder for Ignored {
    fn take(&mut self, _columns: &mut Columns<'_>) {}
}
