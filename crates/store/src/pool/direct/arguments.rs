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
use crate::pool::parameters::bind_numbered;

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
