//! Reads a JSON object in one pass, as long as nothing is wrong with it: its members are compared while they are read.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{BorrowedStrDeserializer, CowStrDeserializer, MapAccessDeserializer};
use serde::de::{Deserialize, DeserializeOwned, DeserializeSeed, Deserializer, Error, MapAccess, Visitor};

/// Members that are compared with one another; an object with more takes the longer way.
const MEMBERS_MAX: usize = 16;

/// The object, if it fits and has no duplicate members. `None` does not imply a fault: the object may have too many members.
pub(super) fn read<T: DeserializeOwned>(text: &str) -> Option<T> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = deserializer.deserialize_map(Object(PhantomData)).ok()?;
    deserializer.end().ok()?;
    Some(value)
}

struct Object<T>(PhantomData<T>);

impl<'de, T: DeserializeOwned> Visitor<'de> for Object<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(Distinct { members, names: Vec::new() }))
    }
}

/// Members of which each has another name.
struct Distinct<'de, A> {
    members: A,
    names: Vec<Cow<'de, str>>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Distinct<'de, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        let Some(Name(name)) = self.members.next_key()? else { return Ok(None) };
        if self.names.len() == MEMBERS_MAX || self.names.contains(&name) {
            return Err(A::Error::custom("too many members, or one of them twice"));
        }
        let key = match &name {
            Cow::Borrowed(name) => seed.deserialize(BorrowedStrDeserializer::new(name)),
            Cow::Owned(name) => seed.deserialize(CowStrDeserializer::new(Cow::Borrowed(name))),
        };
        self.names.push(name);
        key.map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.members.next_value_seed(seed)
    }
}

/// A name, borrowed from the text unless it is written with escapes.
struct Name<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl<'de> Visitor<'de> for Text {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_str<E: Error>(self, name: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(name)))
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(name.to_owned())))
            }
        }

        deserializer.deserialize_str(Text)
    }
}
