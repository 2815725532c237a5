//! A member of any JSON type, of which only texts, numbers and flags are kept.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The value of a member; lists, objects and `null` are [`Scalar::Other`].
#[derive(Debug, Default, PartialEq)]
pub enum Scalar<'e> {
    Text(Cow<'e, str>),
    Number(f64),
    Flag(bool),
    #[default]
    Other,
}

impl Scalar<'_> {
    /// A text that is not empty.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    pub fn flag(&self) -> Option<bool> {
        match self {
            Self::Flag(flag) => Some(*flag),
            _ => None,
        }
    }

    /// A number that is not negative, rounded and at most 2^53.
    pub fn count(&self) -> Option<u64> {
        const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
        match self {
            Self::Number(number) if *number >= 0.0 => Some(self.whole(EXACT_MAX).unsigned_abs()),
            _ => None,
        }
    }

    /// A number from 0 to `max`, rounded; 0 for any other value.
    #[expect(clippy::cast_possible_truncation, reason = "the number is within the limits")]
    pub fn whole(&self, max: f64) -> i64 {
        match self {
            Self::Number(number) => number.clamp(0.0, max).round() as i64,
            _ => 0,
        }
    }
}

impl<'de: 'e, 'e> Deserialize<'de> for Scalar<'e> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

#[expect(clippy::cast_precision_loss, reason = "integers of envelopes are within ±(2^53 − 1)")]
impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Self::Value, E> {
        Ok(Scalar::Flag(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Scalar::Number(number as f64))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Scalar::Number(number as f64))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Scalar::Number(number))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Scalar::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Scalar::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Scalar::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other)
    }
}
