//! How values are written: date-times with milliseconds, secrets in the clear.

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
