//! Converts parsed JSON to the type of a body. A fault names the member and is described in terms of JSON, not of Rust types.

use std::fmt::{self, Display};
use std::iter::Enumerate;
use std::vec;

use domain::canonical::{Malformed, MalformedReason};
use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Value, map};

use crate::error::ApiError;

/// Converts an object. Only an object becomes a struct: an array of its members in order does not.
pub(super) fn object<T: DeserializeOwned>(value: Value) -> Result<T, Misfit> {
    match value {
        Value::Object(_) => T::deserialize(Json(value)),
        other => Err(Misfit::of("an object", &other)),
    }
}

/// The first value that does not fit.
#[derive(Debug)]
pub(super) struct Misfit {
    /// Place of the value, such as `contents[3].content`; empty for the whole body.
    path: String,
    message: String,
}

impl Misfit {
    fn of(expected: &str, value: &Value) -> Self {
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
        };
        Misfit::custom(format_args!("must be {expected}, and is {kind}"))
    }

    fn within(mut self, step: &str) -> Self {
        self.path = joined(step, &self.path);
        self
    }
}

/// Prepends a step to a path.
fn joined(step: &str, path: &str) -> String {
    let dot = if path.is_empty() || path.starts_with('[') { "" } else { "." };
    format!("{step}{dot}{path}")
}

impl Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

impl std::error::Error for Misfit {}

impl Error for Misfit {
    fn custom<T: Display>(message: T) -> Self {
        // The message may quote a value, which may be as long as the body.
        Self { path: String::new(), message: domain::brief(&message.to_string()) }
    }

    fn missing_field(name: &'static str) -> Self {
        Self { path: name.to_owned(), message: "is required".to_owned() }
    }
}

impl From<Misfit> for ApiError {
    fn from(Misfit { path, message }: Misfit) -> Self {
        Self::invalid(&path, message)
    }
}

impl From<Malformed> for ApiError {
    fn from(Malformed { reason, path, detail }: Malformed) -> Self {
        let step = |step: &str| match step.parse::<usize>() {
            Ok(_) => format!("[{step}]"),
            Err(_) => step.replace("~1", "/").replace("~0", "~"),
        };
        let steps = path.strip_prefix('/').into_iter().flat_map(|steps| steps.rsplit('/').map(step));
        let path = steps.fold(String::new(), |path, step| joined(&step, &path));
        let is_twice = reason == MalformedReason::DuplicateKey;
        Self::invalid(&path, if is_twice { "must not be sent twice".to_owned() } else { detail })
    }
}

/// A value to deserialise from. A value of another kind than the type asks for is a fault here, before a visitor sees it.
struct Json(Value);

/// Methods for types that need a value of one kind.
macro_rules! only {
    ($($expected:literal, $fits:path => $($method:ident($($argument:ty),*))+;)+) => {
        $($(
            fn $method<V: Visitor<'de>>(self, $(_: $argument,)* visitor: V) -> Result<V::Value, Misfit> {
                if $fits(&self.0) { self.deserialize_any(visitor) } else { Err(Misfit::of($expected, &self.0)) }
            }
        )+)+
    };
}

fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64()
}

type Names = &'static [&'static str];

impl<'de> Deserializer<'de> for Json {
    type Error = Misfit;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(value),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(whole), _) => visitor.visit_u64(whole),
                (None, Some(whole)) => visitor.visit_i64(whole),
                (None, None) => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => visitor.visit_string(text),
            Value::Array(items) => visitor.visit_seq(Items(items.into_iter().enumerate())),
            Value::Object(members) => visitor.visit_map(Members { members: members.into_iter(), value: None }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(self, _: &'static str, _: Names, visitor: V) -> Result<V::Value, Misfit> {
        match self.0 {
            Value::String(name) => visitor.visit_enum(name.into_deserializer()),
            other => Err(Misfit::of("a string", &other)),
        }
    }

    only! {
        "a boolean", Value::is_boolean => deserialize_bool();
        "an integer", is_integer =>
            deserialize_i8() deserialize_i16() deserialize_i32() deserialize_i64() deserialize_i128()
            deserialize_u8() deserialize_u16() deserialize_u32() deserialize_u64() deserialize_u128();
        "a number", Value::is_number => deserialize_f32() deserialize_f64();
        "a string", Value::is_string =>
            deserialize_char() deserialize_str() deserialize_string() deserialize_identifier();
        "an array", Value::is_array =>
            deserialize_seq() deserialize_tuple(usize) deserialize_tuple_struct(&'static str, usize);
        "an object", Value::is_object => deserialize_map() deserialize_struct(&'static str, Names);
    }

    forward_to_deserialize_any! { bytes byte_buf unit unit_struct ignored_any }
}

struct Items(Enumerate<vec::IntoIter<Value>>);

impl<'de> SeqAccess<'de> for Items {
    type Error = Misfit;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Misfit> {
        let Some((at, item)) = self.0.next() else { return Ok(None) };
        seed.deserialize(Json(item)).map(Some).map_err(|fault| fault.within(&format!("[{at}]")))
    }
}

struct Members {
    members: map::IntoIter,
    /// The value of the member that was read last.
    value: Option<(String, Value)>,
}

impl<'de> MapAccess<'de> for Members {
    type Error = Misfit;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Misfit> {
        let Some((name, value)) = self.members.next() else { return Ok(None) };
        let key = seed.deserialize(StrDeserializer::new(&name)).map_err(|fault: Misfit| fault.within(&name));
        self.value = Some((name, value));
        key.map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Misfit> {
        let (name, value) = self.value.take().ok_or_else(|| Misfit::custom("a value without a name"))?;
        seed.deserialize(Json(value)).map_err(|fault| fault.within(&name))
    }
}
