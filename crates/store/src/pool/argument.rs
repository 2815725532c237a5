//! Arguments of statements, and their encodings for both drivers.

use std::borrow::Cow;

use domain::Timestamp;
use domain::clock::stored;
use rusqlite::types::Null;
use sqlx::Arguments as _;
use sqlx::error::BoxDynError;
use sqlx::postgres::PgArguments;
use uuid::Uuid;

use super::array::{self, Array};

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
    /// An array of PostgreSQL; SQLite rejects it.
    Array(Array<'a>),
    /// NULL. PostgreSQL prepares a statement for parameter types, so a null value has a type as well.
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

/// A type with optional values: `Option` of it is an argument too.
pub trait Nullable {
    /// The type of the parameter if the value is absent.
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

macro_rules! arguments {
    ($($type:ty => $kind:ident, $value:ident => $argument:expr;)*) => { $(
        impl<'a> From<$type> for Argument<'a> {
            fn from($value: $type) -> Self {
                Self::$kind($argument)
            }
        }

        impl<'a> Nullable for $type {
            const KIND: Kind = Kind::$kind;
        }
    )* };
}

arguments! {
    &'a str => Text, text => Cow::Borrowed(text);
    &'a String => Text, text => Cow::Borrowed(text);
    String => Text, text => Cow::Owned(text);
    Cow<'a, str> => Text, text => text;
    &'a [u8] => Bytes, bytes => Cow::Borrowed(bytes);
    &'a Vec<u8> => Bytes, bytes => Cow::Borrowed(bytes);
    Vec<u8> => Bytes, bytes => Cow::Owned(bytes);
    Uuid => Uuid, id => id;
    Timestamp => Time, time => time;
    i64 => Integer, number => number;
    f64 => Real, number => number;
    bool => Boolean, value => value;
}

impl<'a, const N: usize> From<&'a [u8; N]> for Argument<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::Bytes(Cow::Borrowed(bytes))
    }
}

impl Argument<'_> {
    /// Appends a unique encoding of the argument: different lists of arguments have different bytes.
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

    /// The argument without borrowed parts. An array loses its values, because SQLite rejects arrays.
    pub(super) fn into_owned(self) -> Argument<'static> {
        match self {
            Self::Text(text) => Argument::Text(Cow::Owned(text.into_owned())),
            Self::Bytes(bytes) => Argument::Bytes(Cow::Owned(bytes.into_owned())),
            Self::Uuid(id) => Argument::Uuid(id),
            Self::Time(time) => Argument::Time(time),
            Self::Integer(number) => Argument::Integer(number),
            Self::Real(number) => Argument::Real(number),
            Self::Boolean(value) => Argument::Boolean(value),
            Self::Array(_) => Argument::Array(Array::Integer(Vec::new())),
            Self::Null(kind) => Argument::Null(kind),
        }
    }

    /// Binds the argument to a parameter of SQLite.
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
            Self::Array(_) => Err(rusqlite::Error::ToSqlConversionFailure("SQLite has no arrays".into())),
            Self::Null(_) => statement.raw_bind_parameter(place, Null),
        }
    }
}

/// The arguments of a statement.
#[derive(Debug, Default)]
pub struct Arguments<'a> {
    values: Vec<Argument<'a>>,
    /// The text has `$1`, `$2`, … once each and in this order.
    is_in_order: bool,
}

impl<'a> Arguments<'a> {
    /// No arguments yet, for a text with `$1`, `$2`, … once each and in this order.
    pub(super) const fn in_order() -> Self {
        Self { values: Vec::new(), is_in_order: true }
    }

    /// Appends an argument, and returns its number.
    pub(super) fn push(&mut self, argument: Argument<'a>) -> usize {
        self.values.push(argument);
        self.values.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Argument<'a>> {
        self.values.iter()
    }

    pub(super) fn into_owned(self) -> Arguments<'static> {
        Arguments { values: self.values.into_iter().map(Argument::into_owned).collect(), is_in_order: self.is_in_order }
    }

    /// Binds the arguments to the parameters of a statement of SQLite.
    pub(super) fn bind(&self, statement: &mut rusqlite::Statement<'_>) -> rusqlite::Result<()> {
        let mut unnamed = 0;
        for place in 1..=statement.parameter_count() {
            let number = if self.is_in_order { place } else { number_of(statement, place, &mut unnamed)? };
            match number.checked_sub(1).and_then(|index| self.values.get(index)) {
                Some(argument) => argument.bind(statement, place)?,
                None => return Err(rusqlite::Error::InvalidParameterCount(self.values.len(), number)),
            }
        }
        Ok(())
    }

    /// The arguments in the encoding of sqlx's PostgreSQL driver.
    pub(super) fn encoded_for_postgres(&self) -> Result<PgArguments, BoxDynError> {
        let mut encoded = PgArguments::default();
        encoded.reserve(self.values.len(), 0);
        for argument in &self.values {
            match argument {
                Argument::Text(text) => encoded.add(&**text),
                Argument::Bytes(bytes) => encoded.add(&**bytes),
                Argument::Uuid(id) => encoded.add(*id),
                Argument::Time(time) => encoded.add(*time),
                Argument::Integer(number) => encoded.add(*number),
                Argument::Real(number) => encoded.add(*number),
                Argument::Boolean(value) => encoded.add(*value),
                Argument::Array(array) => array::add(array, &mut encoded),
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
}

/// The number of the argument of a parameter. `$3` and `?3` refer to the third argument, `?` to the one after the last `?`: SQLite numbers
/// named parameters in the order of the text, where `$2` may precede `$1`. It finds a name by a search from the first parameter, which
/// costs most of the binding of a statement of many rows.
fn number_of(statement: &rusqlite::Statement<'_>, place: usize, unnamed: &mut usize) -> rusqlite::Result<usize> {
    let Some(name) = statement.parameter_name(place) else {
        *unnamed += 1;
        return Ok(*unnamed);
    };
    let number = name.get(1..).and_then(|number| number.parse().ok());
    number.ok_or_else(|| rusqlite::Error::InvalidParameterName(name.to_owned()))
}
