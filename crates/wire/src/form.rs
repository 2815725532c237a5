//! Serialisation of values: date-times with milliseconds, secrets in the clear.

use serde::{Deserialize, Deserializer};

/// Deserialises a member that may be absent but not `null`; for `#[serde(default, deserialize_with = …)]`.
pub fn unless_absent<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// Deserialises a value, or its default if it is `null`; for `#[serde(deserialize_with = …)]`.
pub fn or_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A date-time, RFC 3339 in UTC with milliseconds; for `#[serde(with = …)]`.
pub mod moment {
    use domain::Timestamp;
    use domain::clock::date_time;
    use serde::{Deserialize, Deserializer, Serializer};

    /// Serialises in UTC.
    pub fn serialize<S: Serializer>(moment: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&date_time(*moment))
    }

    /// Deserialises from any time zone.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        Timestamp::deserialize(deserializer)
    }
}

/// A date-time or `null`.
pub mod moment_or_null {
    use domain::Timestamp;
    use domain::clock::date_time;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Serialises in UTC.
    pub fn serialize<S: Serializer>(moment: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
        moment.map(date_time).serialize(serializer)
    }

    /// Deserialises from any time zone.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
        Option::deserialize(deserializer)
    }
}

/// A secret in the clear, for the request or response that carries it.
pub mod clear {
    use domain::secret::Secret;
    use serde::{Deserialize, Deserializer, Serializer};

    /// Serialises in the clear.
    pub fn serialize<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(secret.expose())
    }

    /// Deserialises without checking the form.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
        String::deserialize(deserializer).map(Secret::presented)
    }
}

/// An optional secret in the clear.
pub mod clear_or_none {
    use domain::secret::Secret;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Serialises in the clear.
    pub fn serialize<S: Serializer>(secret: &Option<Secret>, serializer: S) -> Result<S::Ok, S::Error> {
        secret.as_ref().map(Secret::expose).serialize(serializer)
    }

    /// Deserialises without checking the form.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Secret>, D::Error> {
        Ok(Option::<String>::deserialize(deserializer)?.map(Secret::presented))
    }
}
