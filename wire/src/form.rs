//! How values are written: date-times with milliseconds, secrets in the clear, objects as nothing else.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// What has to be written as an object: a list of its members in their order would be taken for it otherwise.
#[derive(Debug)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members(PhantomData))
    }
}

struct Members<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(members)).map(Object)
    }
}

/// A list of such objects, or none; for `#[serde(deserialize_with = …)]`.
pub fn objects_or_none<'de, T, D>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let objects: Option<Vec<Object<T>>> = Option::deserialize(deserializer)?;
    Ok(objects.map(|objects| objects.into_iter().map(|Object(object)| object).collect()))
}

/// A member that may be left out and must not be `null`; for `#[serde(default, deserialize_with = …)]`.
pub fn unless_absent<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// What is there, or what it is when nothing is, `null` being nothing; for `#[serde(deserialize_with = …)]`.
pub fn or_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A moment, RFC 3339 in UTC with milliseconds; for `#[serde(with = …)]`.
pub mod moment {
    use domain::Timestamp;
    use domain::clock::date_time;
    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes it.
    pub fn serialize<S: Serializer>(moment: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&date_time(*moment))
    }

    /// Reads it, in whatever zone it was written.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        Timestamp::deserialize(deserializer)
    }
}

/// A moment or `null`.
pub mod moment_or_null {
    use domain::Timestamp;
    use domain::clock::date_time;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes it.
    pub fn serialize<S: Serializer>(moment: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
        moment.map(date_time).serialize(serializer)
    }

    /// Reads it, in whatever zone it was written.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
        Option::deserialize(deserializer)
    }
}

/// A secret in the clear.
pub mod clear {
    use domain::secret::Secret;
    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes it.
    pub fn serialize<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(secret.expose())
    }

    /// Reads it.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
        String::deserialize(deserializer).map(Secret::presented)
    }
}

/// A secret in the clear, or none.
pub mod clear_or_none {
    use domain::secret::Secret;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes it.
    pub fn serialize<S: Serializer>(secret: &Option<Secret>, serializer: S) -> Result<S::Ok, S::Error> {
        secret.as_ref().map(Secret::expose).serialize(serializer)
    }

    /// Reads it.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Secret>, D::Error> {
        Ok(Option::<String>::deserialize(deserializer)?.map(Secret::presented))
    }
}
