//! A parsed payload: an object, possibly cut at its end.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

/// Maximum number of bytes that are read. If a payload is longer, the members before the cut are used.
pub const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;

/// The members of a payload.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Payload {
    /// The members that could be read.
    pub members: Map<String, Value>,
    /// Whether the payload was longer, or is not complete JSON.
    pub is_cut: bool,
}

impl Payload {
    /// Reads an object up to its end, to the first syntax error, or to [`PAYLOAD_BYTES_MAX`]. Any other value has no members.
    pub fn read(bytes: &[u8]) -> Self {
        let is_long = bytes.len() > PAYLOAD_BYTES_MAX;
        let bytes = bytes.get(..PAYLOAD_BYTES_MAX).unwrap_or(bytes);
        let mut members = Map::new();
        let mut reader = serde_json::Deserializer::from_slice(bytes);
        let read = Collect(&mut members).deserialize(&mut reader).and_then(|()| reader.end());
        Self { members, is_cut: is_long || read.is_err() }
    }
}

/// Collects members until the first syntax error.
struct Collect<'m>(&'m mut Map<String, Value>);

impl<'de> DeserializeSeed<'de> for Collect<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Collect<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some((name, value)) = map.next_entry::<String, Value>()? {
            self.0.insert(name, value);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_members_before_a_cut_or_a_mistake_are_read() {
        let names = |text: &str| {
            let payload = Payload::read(text.as_bytes());
            (payload.members.keys().cloned().collect::<Vec<_>>().join(","), payload.is_cut)
        };
        assert_eq!(names(r#"{"a":1,"b":{"c":[2]}}"#), ("a,b".into(), false));
        assert_eq!(names(r#"{"a":1,"b":"begin"#), ("a".into(), true));
        assert_eq!(names(r#"{"a":1,"b":{"c":"begin"#), ("a".into(), true));
        assert_eq!(names(r#"{"a":1} more"#), ("a".into(), true));
        for text in ["", "[1]", "null", "nonsense", "\u{0}"] {
            assert_eq!(names(text), (String::new(), true), "{text}");
        }
    }

    #[test]
    fn a_long_payload_is_cut_at_the_limit() {
        let text = format!(r#"{{"session_id":"s","prompt":"{}","late":1}}"#, "x".repeat(PAYLOAD_BYTES_MAX));
        let payload = Payload::read(text.as_bytes());
        assert!(payload.is_cut);
        assert_eq!(payload.members.keys().collect::<Vec<_>>(), ["session_id"]);
    }

    #[test]
    fn deep_nesting_is_a_mistake_and_no_overflow() {
        let text = format!(r#"{{"a":1,"b":{}"#, "[".repeat(100_000));
        assert_eq!(Payload::read(text.as_bytes()).members.len(), 1);
    }
}
