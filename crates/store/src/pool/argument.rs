//! Arguments of statements: one type for all drivers.

use std::borrow::Cow;

use domain::Timestamp;
use domain::clock::stored;
use rusqlite::types::Null;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArguments, Postgres};
use sqlx::sqlite::{Sqlite, SqliteArguments};
use sqlx::{Arguments, Database, Encode, Type};
use uuid::Uuid;

use super::array::{self, Array};
use super::parameters::bind_numbered;

/// Why SQLite refuses an array.
const NO_ARRAYS: &str = "SQLite has no arrays";

/// The value of a parameter; the first one is `$1`.
#[derive(Debug, Clone)]
pub enum Argument<'a> {
    /// TEXT.
    Text(Cow<'a, str>),
    /// BLOB, BYTEA.
    Bytes(Cow<'a, [u8]>),
    /// An id: a BLOB of 16 bytes in SQLite.
    Uuid(Uuid),
    /// A point in time: RFC 3339 in SQLite.
    Time(Timestamp),
    /// BIGINT.
    Integer(i64),
    /// DOUBLE PRECISION.
    Real(f64),
    /// BOOLEAN: 0 or 1 in SQLite.
    Boolean(bool),
    /// An array of PostgreSQL; SQLite refuses it.
    Array(Array<'a>),
    /// NULL. PostgreSQL prepares a statement for parameters of certain types, so a missing value has a type as well.
    Null(Kind),
}

/// The type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Of [`Argument::Text`].
    Text,
    /// Of [`Argument::Bytes`].
    Bytes,
    /// Of [`Argument::Uuid`].
    Uuid,
    /// Of [`Argument::Time`].
    Time,
    /// Of [`Argument::Integer`].
    Integer,
    /// Of [`Argument::Real`].
    Real,
    /// Of [`Argument::Boolean`].
    Boolean,
}

/// A type whose values may be missing: `Option` of it is an argument too.
pub trait Nullable {
    /// The type of the parameter when the value is missing.
    const KIND: Kind;
}

impl<'a, T: Nullable + Into<Argument<'a>>> From<Option<T>> for Argument<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null(T::KIND), Into::into)
    }
}

impl<'a> From<&'a Option<String>> for Argument<'a> {
    fn from(text: &'a Option<String>) -> Self {
        text.as_deref().into()
    }
}

impl Nullable for &str {
    const KIND: Kind = Kind::Text;
}

impl<'a> From<&'a str> for Argument<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl<'a> From<&'a String> for Argument<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl Nullable for String {
    const KIND: Kind = Kind::Text;
}

impl From<String> for Argument<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl Nullable for Cow<'_, str> {
    const KIND: Kind = Kind::Text;
}

impl<'a> From<Cow<'a, str>> for Argument<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        Self::Text(text)
    }
}

impl Nullable for &[u8] {
    const KIND: Kind = Kind::Bytes;
}

impl<'a> From<&'a [u8]> for Argument<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(Cow::Borrowed(bytes))
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Argument<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::Bytes(Cow::Borrowed(bytes))
    }
}

impl<'a> From<&'a Vec<u8>> for Argument<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        Self::Bytes(Cow::Borrowed(bytes))
    }
}

impl Nullable for Vec<u8> {
    const KIND: Kind = Kind::Bytes;
}

impl From<Vec<u8>> for Argument<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(Cow::Owned(bytes))
    }
}

impl Nullable for Uuid {
    const KIND: Kind = Kind::Uuid;
}

impl From<Uuid> for Argument<'_> {
    fn from(id: Uuid) -> Self {
        Self::Uuid(id)
    }
}

impl Nullable for Timestamp {
    const KIND: Kind = Kind::Time;
}

impl From<Timestamp> for Argument<'_> {
    fn from(time: Timestamp) -> Self {
        Self::Time(time)
    }
}

impl Nullable for i64 {
    const KIND: Kind = Kind::Integer;
}

impl From<i64> for Argument<'_> {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl Nullable for f64 {
    const KIND: Kind = Kind::Real;
}

impl From<f64> for Argument<'_> {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

impl Nullable for bool {
    const KIND: Kind = Kind::Boolean;
}

impl From<bool> for Argument<'_> {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl Argument<'_> {
    /// Appends a unique encoding of the argument: no two lists of arguments have the same bytes.
    pub(super) fn encode_key(&self, key: &mut Vec<u8>) {
        let mut put = |kind: u8, bytes: &[u8]| {
            key.push(kind);
            key.extend_from_slice(&bytes.len().to_ne_bytes());
            key.extend_from_slice(bytes);
        };
        match self {
            Self::Text(text) => put(0, text.as_bytes()),
            Self::Bytes(bytes) => put(1, bytes),
            Self::Uuid(id) => put(2, id.as_bytes()),
            Self::Time(time) => put(3, stored(*time).as_bytes()),
            Self::Integer(number) => put(4, &number.to_ne_bytes()),
            Self::Real(number) => put(5, &number.to_bits().to_ne_bytes()),
            Self::Boolean(value) => put(6, &[u8::from(*value)]),
            Self::Array(array) => put(8, format!("{array:?}").as_bytes()),
            Self::Null(_) => put(7, &[]),
        }
    }

    /// Binds the argument to a statement of SQLite, in the encoding of sqlx's driver.
    fn bind(&self, statement: &mut rusqlite::Statement<'_>, place: usize) -> rusqlite::Result<()> {
        match self {
            Self::Text(text) => statement.raw_bind_parameter(place, &**text),
            Self::Bytes(bytes) => statement.raw_bind_parameter(place, &**bytes),
            Self::Uuid(id) => statement.raw_bind_parameter(place, &id.as_bytes()[..]),
            // SQLite compares times as text.
            Self::Time(time) => statement.raw_bind_parameter(place, stored(*time)),
            Self::Integer(number) => statement.raw_bind_parameter(place, number),
            Self::Real(number) => statement.raw_bind_parameter(place, number),
            Self::Boolean(value) => statement.raw_bind_parameter(place, value),
            Self::Array(_) => Err(rusqlite::Error::ToSqlConversionFailure(NO_ARRAYS.into())),
            Self::Null(_) => statement.raw_bind_parameter(place, Null),
        }
    }
}

/// Binds the arguments to the parameters of a statement of SQLite.
pub(super) fn bind_arguments(
    statement: &mut rusqlite::Statement<'_>,
    arguments: &[Argument<'_>],
) -> rusqlite::Result<()> {
    bind_numbered(statement, |statement, place, index| match arguments.get(index) {
        Some(argument) => argument.bind(statement, place),
        None => Err(rusqlite::Error::InvalidParameterCount(arguments.len(), index + 1)),
    })
}

/// The arguments in the encoding of sqlx's driver of SQLite.
pub(super) fn encoded_for_sqlite(arguments: &[Argument<'_>]) -> Result<SqliteArguments, BoxDynError> {
    encoded::<Sqlite>(arguments, |_, _| Err(NO_ARRAYS.into()))
}

/// The arguments in the encoding of sqlx's driver of PostgreSQL.
pub(super) fn encoded_for_postgres(arguments: &[Argument<'_>]) -> Result<PgArguments, BoxDynError> {
    encoded::<Postgres>(arguments, array::add)
}

fn encoded<DB>(
    arguments: &[Argument<'_>],
    add_array: fn(&Array<'_>, &mut DB::Arguments) -> Result<(), BoxDynError>,
) -> Result<DB::Arguments, BoxDynError>
where
    DB: Database,
    for<'t> &'t str: Encode<'t, DB> + Type<DB>,
    for<'t> &'t [u8]: Encode<'t, DB> + Type<DB>,
    for<'t> Uuid: Encode<'t, DB> + Type<DB>,
    for<'t> Timestamp: Encode<'t, DB> + Type<DB>,
    for<'t> i64: Encode<'t, DB> + Type<DB>,
    for<'t> f64: Encode<'t, DB> + Type<DB>,
    for<'t> bool: Encode<'t, DB> + Type<DB>,
    for<'t> Option<String>: Encode<'t, DB>,
    for<'t> Option<Vec<u8>>: Encode<'t, DB>,
    for<'t> Option<Uuid>: Encode<'t, DB>,
    for<'t> Option<Timestamp>: Encode<'t, DB>,
    for<'t> Option<i64>: Encode<'t, DB>,
    for<'t> Option<f64>: Encode<'t, DB>,
    for<'t> Option<bool>: Encode<'t, DB>,
    String: Type<DB>,
    Vec<u8>: Type<DB>,
{
    let mut encoded = DB::Arguments::default();
    encoded.reserve(arguments.len(), 0);
    for argument in arguments {
        match argument {
            Argument::Text(text) => encoded.add(&**text),
            Argument::Bytes(bytes) => encoded.add(&**bytes),
            Argument::Uuid(id) => encoded.add(*id),
            Argument::Time(time) => encoded.add(*time),
            Argument::Integer(number) => encoded.add(*number),
            Argument::Real(number) => encoded.add(*number),
            Argument::Boolean(value) => encoded.add(*value),
            Argument::Array(array) => add_array(array, &mut encoded),
            Argument::Null(Kind::Text) => encoded.add(None::<String>),
            Argument::Null(Kind::Bytes) => encoded.add(None::<Vec<u8>>),
            Argument::Null(Kind::Uuid) => encoded.add(None::<Uuid>),
            Argument::Null(Kind::Time) => encoded.add(None::<Timestamp>),
            Argument::Null(Kind::Integer) => encoded.add(None::<i64>),
            Argument::Null(Kind::Real) => encoded.add(None::<f64>),
            Argument::Null(Kind::Boolean) => encoded.add(None::<bool>),
        }?;
    }
    Ok(encoded)
}
