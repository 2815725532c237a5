//! Arrays as arguments, one for each column of many rows. Only PostgreSQL supports them.

use sqlx::Arguments;
use sqlx::error::BoxDynError;
use sqlx::postgres::PgArguments;
use uuid::Uuid;

use super::argument::Argument;

/// The values of an array.
#[derive(Debug, Clone)]
pub enum Array<'a> {
    /// TEXT[].
    Text(Vec<&'a str>),
    /// BYTEA[].
    Bytes(Vec<&'a [u8]>),
    /// BYTEA[] of hashes.
    Hash(Vec<[u8; 32]>),
    /// UUID[].
    Uuid(Vec<Uuid>),
    /// UUID[] with optional elements.
    UuidOrNull(Vec<Option<Uuid>>),
    /// BIGINT[].
    Integer(Vec<i64>),
    /// BOOLEAN[].
    Boolean(Vec<bool>),
}

/// Appends an array to the arguments of a statement.
pub(super) fn add(array: &Array<'_>, arguments: &mut PgArguments) -> Result<(), BoxDynError> {
    match array {
        Array::Text(values) => arguments.add(values),
        Array::Bytes(values) => arguments.add(values),
        Array::Hash(values) => arguments.add(values),
        Array::Uuid(values) => arguments.add(values),
        Array::UuidOrNull(values) => arguments.add(values),
        Array::Integer(values) => arguments.add(values),
        Array::Boolean(values) => arguments.add(values),
    }
}

macro_rules! arrays {
    ($($kind:ident: $value:ty),*) => { $(
        impl<'a> From<Vec<$value>> for Argument<'a> {
            fn from(values: Vec<$value>) -> Self {
                Self::Array(Array::$kind(values))
            }
        }
    )* };
}

arrays! { Text: &'a str, Bytes: &'a [u8], Hash: [u8; 32], Uuid: Uuid, UuidOrNull: Option<Uuid>, Integer: i64, Boolean: bool }
