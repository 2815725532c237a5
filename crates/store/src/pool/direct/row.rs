//! Rows, and the decoding of their values.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use domain::Timestamp;
use rusqlite::Statement as Prepared;
use rusqlite::types::ValueRef as Raw;
use sqlx::decode::Decode;
use sqlx::error::BoxDynError;
use sqlx::{Column, ColumnIndex, Either, Error, Row, SqlStr, Statement, Type, TypeInfo, Value, ValueRef};
use uuid::Uuid;

use super::{Direct, DirectArguments};

/// A value as SQLite stores it.
#[derive(Debug, Clone)]
pub enum DirectValue {
    /// NULL.
    Null,
    /// A whole number.
    Integer(i64),
    /// A fraction.
    Real(f64),
    /// Text: UTF-8, unless another program wrote it.
    Text(Box<[u8]>),
    /// Bytes.
    Blob(Box<[u8]>),
}

/// The storage class of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectType {
    /// NULL.
    Null,
    /// A whole number.
    Integer,
    /// A fraction.
    Real,
    /// Text.
    Text,
    /// Bytes.
    Blob,
}

/// A value of a row.
#[derive(Debug, Clone, Copy)]
pub struct DirectValueRef<'r>(&'r DirectValue);

/// A row, with the names of its columns.
#[derive(Debug)]
pub struct DirectRow {
    values: Box<[DirectValue]>,
    columns: Arc<[DirectColumn]>,
}

/// A column, by its name.
#[derive(Debug, Clone)]
pub struct DirectColumn {
    name: Box<str>,
    ordinal: usize,
}

/// The effect of a statement.
#[derive(Debug, Default)]
pub struct DirectDone {
    rows_affected: u64,
}

impl DirectDone {
    pub(super) fn new(rows_affected: u64) -> Self {
        Self { rows_affected }
    }

    /// Rows inserted, updated or deleted.
    pub fn rows_affected(&self) -> u64 {
        self.rows_affected
    }
}

impl Extend<DirectDone> for DirectDone {
    fn extend<T: IntoIterator<Item = DirectDone>>(&mut self, iter: T) {
        self.rows_affected += iter.into_iter().map(|done| done.rows_affected).sum::<u64>();
    }
}

/// Runs a statement, up to `rows_max` rows of it, or to its end when it has none.
pub(super) fn collect(
    statement: &mut Prepared<'_>,
    rows_max: usize,
    into: &mut Vec<DirectRow>,
) -> rusqlite::Result<()> {
    let width = statement.column_count();
    let names = if width == 0 { Arc::default() } else { columns(statement) };
    let mut rows = statement.raw_query();
    let mut left = rows_max;
    while let Some(row) = rows.next()? {
        if left == 0 {
            break;
        }
        left -= 1;
        let values = (0..width).map(|place| row.get_ref(place).map(DirectValue::from)).collect::<Result<_, _>>()?;
        into.push(DirectRow { values, columns: names.clone() });
        if left == 0 {
            break;
        }
    }
    Ok(())
}

pub(super) fn columns(statement: &Prepared<'_>) -> Arc<[DirectColumn]> {
    let names = statement.column_names().into_iter().enumerate();
    names.map(|(ordinal, name)| DirectColumn { name: name.into(), ordinal }).collect()
}

impl From<Raw<'_>> for DirectValue {
    fn from(value: Raw<'_>) -> Self {
        match value {
            Raw::Null => Self::Null,
            Raw::Integer(number) => Self::Integer(number),
            Raw::Real(number) => Self::Real(number),
            Raw::Text(bytes) => Self::Text(bytes.into()),
            Raw::Blob(bytes) => Self::Blob(bytes.into()),
        }
    }
}

impl DirectValue {
    fn kind(&self) -> DirectType {
        match self {
            Self::Null => DirectType::Null,
            Self::Integer(_) => DirectType::Integer,
            Self::Real(_) => DirectType::Real,
            Self::Text(_) => DirectType::Text,
            Self::Blob(_) => DirectType::Blob,
        }
    }
}

impl TypeInfo for DirectType {
    fn is_null(&self) -> bool {
        *self == Self::Null
    }

    fn name(&self) -> &str {
        match self {
            Self::Null => "NULL",
            Self::Integer => "INTEGER",
            Self::Real => "REAL",
            Self::Text => "TEXT",
            Self::Blob => "BLOB",
        }
    }
}

impl fmt::Display for DirectType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Value for DirectValue {
    type Database = Direct;

    fn as_ref(&self) -> DirectValueRef<'_> {
        DirectValueRef(self)
    }

    fn type_info(&self) -> Cow<'_, DirectType> {
        Cow::Owned(self.kind())
    }

    fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }
}

impl<'r> ValueRef<'r> for DirectValueRef<'r> {
    type Database = Direct;

    fn to_owned(&self) -> DirectValue {
        self.0.clone()
    }

    fn type_info(&self) -> Cow<'_, DirectType> {
        Cow::Owned(self.0.kind())
    }

    fn is_null(&self) -> bool {
        self.0.is_null()
    }
}

impl Column for DirectColumn {
    type Database = Direct;

    fn ordinal(&self) -> usize {
        self.ordinal
    }

    fn name(&self) -> &str {
        &self.name
    }

    /// In SQLite the type belongs to the value, not to the column.
    fn type_info(&self) -> &DirectType {
        &DirectType::Null
    }
}

impl Row for DirectRow {
    type Database = Direct;

    fn columns(&self) -> &[DirectColumn] {
        &self.columns
    }

    fn try_get_raw<I: ColumnIndex<Self>>(&self, index: I) -> Result<DirectValueRef<'_>, Error> {
        let index = index.index(self)?;
        let outside = Error::ColumnIndexOutOfBounds { index, len: self.values.len() };
        self.values.get(index).map(DirectValueRef).ok_or(outside)
    }
}

sqlx_core::impl_column_index_for_row!(DirectRow);
sqlx_core::impl_column_index_for_statement!(DirectStatement);

impl ColumnIndex<DirectRow> for &'_ str {
    fn index(&self, row: &DirectRow) -> Result<usize, Error> {
        named(&row.columns, self)
    }
}

impl ColumnIndex<DirectStatement> for &'_ str {
    fn index(&self, statement: &DirectStatement) -> Result<usize, Error> {
        named(&statement.columns, self)
    }
}

fn named(columns: &[DirectColumn], name: &str) -> Result<usize, Error> {
    let found = columns.iter().position(|column| &*column.name == name);
    found.ok_or_else(|| Error::ColumnNotFound(name.to_owned()))
}

/// The text of a statement that the connection keeps prepared.
#[derive(Debug, Clone)]
pub struct DirectStatement {
    sql: SqlStr,
    parameters: usize,
    columns: Arc<[DirectColumn]>,
}

impl DirectStatement {
    pub(super) fn new(sql: SqlStr, parameters: usize, columns: Arc<[DirectColumn]>) -> Self {
        Self { sql, parameters, columns }
    }
}

impl Statement for DirectStatement {
    type Database = Direct;

    fn into_sql(self) -> SqlStr {
        self.sql
    }

    fn sql(&self) -> &SqlStr {
        &self.sql
    }

    fn parameters(&self) -> Option<Either<&[DirectType], usize>> {
        Some(Either::Right(self.parameters))
    }

    fn columns(&self) -> &[DirectColumn] {
        &self.columns
    }

    sqlx_core::impl_statement_query!(DirectArguments);
}

/// Types, the storage classes that hold them, and how they are decoded.
macro_rules! decoded {
    ($($rust:ty => $kind:ident $(| $also:ident)*, |$value:ident| $read:expr;)*) => {$(
        impl Type<Direct> for $rust {
            fn type_info() -> DirectType {
                DirectType::$kind
            }

            fn compatible(kind: &DirectType) -> bool {
                matches!(kind, DirectType::$kind $(| DirectType::$also)*)
            }
        }

        impl<'r> Decode<'r, Direct> for $rust {
            fn decode($value: DirectValueRef<'r>) -> Result<Self, BoxDynError> {
                $read
            }
        }
    )*};
}

decoded! {
    bool => Integer, |value| Ok(integer(value)? != 0);
    i16 => Integer, |value| Ok(integer(value)?.try_into()?);
    i32 => Integer, |value| Ok(integer(value)?.try_into()?);
    i64 => Integer, |value| integer(value);
    f64 => Real, |value| match value.0 {
        DirectValue::Real(number) => Ok(*number),
        other => Err(unexpected(other, DirectType::Real)),
    };
    String => Text, |value| text(value).map(str::to_owned);
    Vec<u8> => Blob | Text, |value| bytes(value).map(<[u8]>::to_vec);
    Uuid => Blob, |value| Ok(Uuid::from_slice(bytes(value)?)?);
    Timestamp => Text, |value| Ok(domain::clock::from_stored(text(value)?)?);
}

impl Type<Direct> for f32 {
    fn type_info() -> DirectType {
        DirectType::Real
    }
}

impl Type<Direct> for str {
    fn type_info() -> DirectType {
        DirectType::Text
    }
}

impl Type<Direct> for [u8] {
    fn type_info() -> DirectType {
        DirectType::Blob
    }

    fn compatible(kind: &DirectType) -> bool {
        <Vec<u8> as Type<Direct>>::compatible(kind)
    }
}

impl<'r> Decode<'r, Direct> for &'r str {
    fn decode(value: DirectValueRef<'r>) -> Result<Self, BoxDynError> {
        text(value)
    }
}

impl<'r> Decode<'r, Direct> for &'r [u8] {
    fn decode(value: DirectValueRef<'r>) -> Result<Self, BoxDynError> {
        bytes(value)
    }
}

fn integer(value: DirectValueRef<'_>) -> Result<i64, BoxDynError> {
    match value.0 {
        DirectValue::Integer(number) => Ok(*number),
        other => Err(unexpected(other, DirectType::Integer)),
    }
}

fn text(value: DirectValueRef<'_>) -> Result<&str, BoxDynError> {
    match value.0 {
        DirectValue::Text(bytes) => Ok(str::from_utf8(bytes)?),
        other => Err(unexpected(other, DirectType::Text)),
    }
}

fn bytes(value: DirectValueRef<'_>) -> Result<&[u8], BoxDynError> {
    match value.0 {
        DirectValue::Blob(bytes) | DirectValue::Text(bytes) => Ok(bytes),
        other => Err(unexpected(other, DirectType::Blob)),
    }
}

/// The value is not part of the message: it may be personal data.
fn unexpected(found: &DirectValue, expected: DirectType) -> BoxDynError {
    format!("expected {expected}, found {}", found.kind()).into()
}
