//! Arguments of statements, encoded as sqlx's SQLite driver encodes them: UUIDs as 16 bytes, timestamps as RFC 3339, booleans as 0 and 1.

use std::borrow::Cow;

use domain::Timestamp;
use rusqlite::Statement;
use rusqlite::types::Value;
use sqlx::encode::{Encode, IsNull};
use sqlx::error::BoxDynError;
use sqlx::{Arguments, Type};
use uuid::Uuid;

use super::{Direct, DirectType};

/// Arguments in the order of their numbers.
pub type Values = Vec<Value>;

/// Arguments of a statement.
#[derive(Debug, Default)]
pub struct DirectArguments(Values);

impl DirectArguments {
    pub(super) fn bind(&self, statement: &mut Statement<'_>) -> rusqlite::Result<()> {
        bind_numbered(statement, |statement, place, index| match self.0.get(index) {
            Some(value) => statement.raw_bind_parameter(place, value),
            None => Err(rusqlite::Error::InvalidParameterCount(self.0.len(), index + 1)),
        })
    }
}

/// Calls `bind` for each parameter of a statement, with its place in the statement, from 1, and the index of its argument, from 0. The
/// argument of `$3` and `?3` is the third one, that of `?` the one after the last `?`: SQLite numbers named parameters in the order of the
/// text, where `$2` may precede `$1`.
pub(in crate::pool) fn bind_numbered(
    statement: &mut Statement<'_>,
    mut bind: impl FnMut(&mut Statement<'_>, usize, usize) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let mut unnamed = 0;
    for place in 1..=statement.parameter_count() {
        let number = match statement.parameter_name(place) {
            None => {
                unnamed += 1;
                unnamed
            }
            Some(name) => match name.get(1..).and_then(|number| number.parse::<usize>().ok()) {
                Some(number) => number,
                None => return Err(rusqlite::Error::InvalidParameterName(name.to_owned())),
            },
        };
        match number.checked_sub(1) {
            Some(index) => bind(statement, place, index)?,
            None => return Err(rusqlite::Error::InvalidParameterCount(0, place)),
        }
    }
    Ok(())
}

impl Arguments for DirectArguments {
    type Database = Direct;

    fn reserve(&mut self, additional: usize, _size: usize) {
        self.0.reserve(additional);
    }

    fn add<'t, T>(&mut self, value: T) -> Result<(), BoxDynError>
    where
        T: Encode<'t, Direct> + Type<Direct>,
    {
        let before = self.0.len();
        match value.encode(&mut self.0) {
            Ok(IsNull::Yes) => self.0.push(Value::Null),
            Ok(IsNull::No) => {}
            Err(error) => {
                self.0.truncate(before);
                return Err(error);
            }
        }
        Ok(())
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

sqlx_core::impl_into_arguments_for_arguments!(DirectArguments);
sqlx_core::impl_encode_for_option!(Direct);

/// Types, and the value that SQLite stores for each.
macro_rules! encoded {
    ($($rust:ty => |$this:ident| $value:expr;)*) => {$(
        impl Encode<'_, Direct> for $rust {
            fn encode_by_ref(&self, values: &mut Values) -> Result<IsNull, BoxDynError> {
                let $this = self;
                values.push($value);
                Ok(IsNull::No)
            }
        }
    )*};
}

encoded! {
    bool => |this| Value::Integer(i64::from(*this));
    i16 => |this| Value::Integer(i64::from(*this));
    i32 => |this| Value::Integer(i64::from(*this));
    i64 => |this| Value::Integer(*this);
    f32 => |this| Value::Real(f64::from(*this));
    f64 => |this| Value::Real(*this);
    &'_ str => |this| Value::Text((*this).to_owned());
    Cow<'_, str> => |this| Value::Text(this.to_string());
    &'_ [u8] => |this| Value::Blob(this.to_vec());
    Cow<'_, [u8]> => |this| Value::Blob(this.to_vec());
    Uuid => |this| Value::Blob(this.as_bytes().to_vec());
    Timestamp => |this| Value::Text(domain::clock::stored(*this));
}

impl Encode<'_, Direct> for String {
    fn encode(self, values: &mut Values) -> Result<IsNull, BoxDynError> {
        values.push(Value::Text(self));
        Ok(IsNull::No)
    }

    fn encode_by_ref(&self, values: &mut Values) -> Result<IsNull, BoxDynError> {
        Encode::<Direct>::encode(self.clone(), values)
    }
}

impl Encode<'_, Direct> for Vec<u8> {
    fn encode(self, values: &mut Values) -> Result<IsNull, BoxDynError> {
        values.push(Value::Blob(self));
        Ok(IsNull::No)
    }

    fn encode_by_ref(&self, values: &mut Values) -> Result<IsNull, BoxDynError> {
        Encode::<Direct>::encode(self.clone(), values)
    }
}

impl<const N: usize> Encode<'_, Direct> for [u8; N] {
    fn encode_by_ref(&self, values: &mut Values) -> Result<IsNull, BoxDynError> {
        values.push(Value::Blob(self.to_vec()));
        Ok(IsNull::No)
    }
}

impl<const N: usize> Type<Direct> for [u8; N] {
    fn type_info() -> DirectType {
        DirectType::Blob
    }
}
