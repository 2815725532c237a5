//! Serialised forms: date-times with milliseconds, secrets as plain text, and structures from JSON objects only.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A structure that is deserialised from an object only. By itself, `serde` also accepts an array of the members in order.
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

/// A list of such objects, or `null`; for `#[serde(deserialize_with = …)]`.
pub fn objects_or_none<'de, T, D>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let objects: Option<Vec<Object<T>>> = Option::deserialize(deserializer)?;
    Ok(objects.map(|objects| objects.into_iter().map(|Object(object)| object).collect()))
}

/// A member that may be absent but not `null`; for `#[serde(default, deserialize_with = …)]`.
pub fn unless_absent<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// The value, or its default if it is `null`; for `#[serde(deserialize_with = …)]`.
pub fn or_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A moment as RFC 3339 in UTC with milliseconds; for `#[serde(with = …)]`.
pub mod moment {
    use domain::Timestamp;
    use domain::clock::date_time;
    use serde::{Deserialize, Deserializer, Serializer};

    /// Serialises the moment in UTC with milliseconds.
    pub fn serialize<S: Serializer>(moment: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&date_time(*moment))
    }

    /// Deserialises an RFC 3339 date-time of any time zone.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        Timestamp::deserialize(deserializer)
    }
}

/// A moment or `null`; for `#[serde(with = …)]`.
pub mod moment_or_null {
    use domain::Timestamp;
    use domain::clock::date_time;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Serialises the moment in UTC with milliseconds, or `null`.
    pub fn serialize<S: Serializer>(moment: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
        moment.map(date_time).serialize(serializer)
    }

    /// Deserialises an RFC 3339 date-time of any time zone, or `null`.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
        Option::deserialize(deserializer)
    }
}

/// A secret as plain text; for `#[serde(with = …)]`.
pub mod clear {
    use domain::secret::Secret;
    use serde::{Deserialize, Deserializer, Serializer};

    /// Serialises the secret itself.
    pub fn serialize<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(secret.expose())
    }

    /// Deserialises a secret that a client presented.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
        String::deserialize(deserializer).map(Secret::presented)
    }
}

/// A secret as plain text, or `null`; for `#[serde(with = …)]`.
pub mod clear_or_none {
    use domain::secret::Secret;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Serialises the secret itself, or `null`.
    pub fn serialize<S: Serializer>(secret: &Option<Secret>, serializer: S) -> Result<S::Ok, S::Error> {
        secret.as_ref().map(Secret::expose).serialize(serializer)
    }

    /// Deserialises a secret that a client presented, or `null`.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Secret>, D::Error> {
        Ok(Option::<String>::deserialize(deserializer)?.map(Secret::presented))
    }
}
