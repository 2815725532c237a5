//! Strict parsing of JSON and RFC 8785 canonicalisation (`docs/decisions/0006-events-and-chains.md`).
//!
//! Canonicalisers silently round large integers, and common parsers silently keep the last of two equal keys. Either
//! would let two different events share a hash. This parser therefore rejects every text that would lose information
//! in canonical form: a text that parses has exactly one canonical form, and that form parses to the same value.

mod writer;

use std::fmt::Write as _;

use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

/// Maximum nesting of arrays and objects; the outermost object counts as 1.
pub const DEPTH_MAX: usize = 32;

/// 2^53 − 1: doubles cannot represent every integer above it (RFC 7493, section 2.2).
pub(crate) const SAFE_INTEGER_MAX: i64 = 9_007_199_254_740_991;

/// RFC 8785 writes integers from this value on with an exponent, so that they no longer read back as integers.
const EXPONENT_FORM_MIN: f64 = 1e21;

/// Why a text was rejected. The names appear in the warning that the sender receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MalformedReason {
    /// More bytes than `events.body_bytes_max`.
    #[error("too_large")]
    TooLarge,
    /// Not UTF-8.
    #[error("not_utf8")]
    NotUtf8,
    /// Not JSON (RFC 8259), or followed by other text.
    #[error("not_json")]
    NotJson,
    /// JSON, but not an object.
    #[error("not_an_object")]
    NotAnObject,
    /// Deeper than [`DEPTH_MAX`].
    #[error("too_deep")]
    TooDeep,
    /// Two members of one object with equal keys.
    #[error("duplicate_key")]
    DuplicateKey,
    /// An integer beyond ±(2^53 − 1).
    #[error("integer_out_of_range")]
    IntegerOutOfRange,
    /// A number beyond the range of a double.
    #[error("number_out_of_range")]
    NumberOutOfRange,
    /// An escape of half a surrogate pair.
    #[error("lone_surrogate")]
    LoneSurrogate,
    /// Well-formed JSON that breaks a rule of the envelope.
    #[error("invalid_field")]
    InvalidField,
}

/// A rejected text, with reason and position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at {}: {detail}", if path.is_empty() { "/" } else { path })]
pub struct Malformed {
    /// Machine-readable reason.
    pub reason: MalformedReason,
    /// JSON Pointer (RFC 6901) to the first invalid value; empty for the whole text.
    pub path: String,
    /// Explanation for a person.
    pub detail: String,
}

impl Malformed {
    pub(crate) fn new(reason: MalformedReason, detail: impl Into<String>) -> Self {
        Self { reason, path: String::new(), detail: detail.into() }
    }

    /// Prepends a step to the path. Called only on errors, while the recursion unwinds.
    fn within(mut self, step: &str) -> Self {
        let step = step.replace('~', "~0").replace('/', "~1");
        self.path.insert_str(0, &format!("/{step}"));
        self
    }
}

/// Parses an object strictly. Whole numbers become integers, so `1.0` and `1` are the same value.
pub fn parse_object(text: &[u8], bytes_max: usize) -> Result<Map<String, Value>, Malformed> {
    if text.len() > bytes_max {
        let detail = format!("{} bytes where at most {bytes_max} are taken", text.len());
        return Err(Malformed::new(MalformedReason::TooLarge, detail));
    }
    match Parser::whole(text, Integers::Safe)? {
        Value::Object(members) => Ok(members),
        _ => Err(Malformed::new(MalformedReason::NotAnObject, "the text is JSON but not an object")),
    }
}

/// Parses a value of any kind that is not hashed. It may contain integers of any size, as JSON permits.
pub fn parse(text: &[u8]) -> Result<Value, Malformed> {
    Parser::whole(text, Integers::Any)
}

pub use writer::canonical_bytes;

/// The integers that are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Integers {
    /// Those that every double represents exactly.
    Safe,
    /// All; those beyond 64 bits become doubles.
    Any,
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    integers: Integers,
}

impl<'t> Parser<'t> {
    fn whole(text: &'t [u8], integers: Integers) -> Result<Value, Malformed> {
        let text = std::str::from_utf8(text).map_err(|error| {
            Malformed::new(MalformedReason::NotUtf8, format!("invalid UTF-8 after byte {}", error.valid_up_to()))
        })?;
        let mut parser = Self { text, at: 0, integers };
        let value = parser.value(1)?;
        parser.skip_space();
        if parser.at < text.len() {
            return Err(parser.not_json("nothing may follow the value"));
        }
        Ok(value)
    }

    fn value(&mut self, depth: usize) -> Result<Value, Malformed> {
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.object(depth).map(Value::Object),
            Some(b'[') => self.array(depth).map(Value::Array),
            Some(b'"') => self.string().map(Value::String),
            Some(b'-' | b'0'..=b'9') => self.number().map(Value::Number),
            Some(b't') => self.literal("true", Value::Bool(true)),
            Some(b'f') => self.literal("false", Value::Bool(false)),
            Some(b'n') => self.literal("null", Value::Null),
            Some(_) => Err(self.not_json("a value was expected")),
            None => Err(self.not_json("the text ends too early")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Map<String, Value>, Malformed> {
        self.open(depth)?;
        let mut members = Map::new();
        self.skip_space();
        if self.take(b'}') {
            return Ok(members);
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return Err(self.not_json("a key in double quotes was expected"));
            }
            let key = self.string()?;
            self.skip_space();
            if !self.take(b':') {
                return Err(self.not_json("a colon was expected"));
            }
            match members.entry(key) {
                Entry::Occupied(entry) => {
                    return Err(
                        Malformed::new(MalformedReason::DuplicateKey, "the key is repeated").within(entry.key())
                    );
                }
                Entry::Vacant(entry) => {
                    let value = self.value(depth + 1).map_err(|fault| fault.within(entry.key()))?;
                    entry.insert(value);
                }
            }
            self.skip_space();
            if self.take(b'}') {
                return Ok(members);
            }
            if !self.take(b',') {
                return Err(self.not_json("a comma or the end of the object was expected"));
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Vec<Value>, Malformed> {
        self.open(depth)?;
        let mut items = Vec::new();
        self.skip_space();
        if self.take(b']') {
            return Ok(items);
        }
        loop {
            let item = self.value(depth + 1).map_err(|fault| fault.within(&items.len().to_string()))?;
            items.push(item);
            self.skip_space();
            if self.take(b']') {
                return Ok(items);
            }
            if !self.take(b',') {
                return Err(self.not_json("a comma or the end of the array was expected"));
            }
        }
    }

    fn open(&mut self, depth: usize) -> Result<(), Malformed> {
        if depth > DEPTH_MAX {
            return Err(Malformed::new(MalformedReason::TooDeep, format!("nested deeper than {DEPTH_MAX}")));
        }
        self.at += 1;
        Ok(())
    }

    fn literal(&mut self, word: &str, value: Value) -> Result<Value, Malformed> {
        if self.rest().starts_with(word) {
            self.at += word.len();
            Ok(value)
        } else {
            Err(self.not_json("a value was expected"))
        }
    }

    fn number(&mut self) -> Result<Number, Malformed> {
        let start = self.at;
        self.take(b'-');
        let leading_zero = self.peek() == Some(b'0');
        match self.digits() {
            1 => {}
            0 => return Err(self.not_json("a number was expected")),
            _ if leading_zero => return Err(self.not_json("a number has no leading zero")),
            _ => {}
        }
        let mut integer = true;
        if self.take(b'.') {
            integer = false;
            if self.digits() == 0 {
                return Err(self.not_json("digits were expected after the point"));
            }
        }
        if self.take(b'e') || self.take(b'E') {
            integer = false;
            let _ = self.take(b'+') || self.take(b'-');
            if self.digits() == 0 {
                return Err(self.not_json("digits were expected in the exponent"));
            }
        }
        let text = &self.text[start..self.at];
        let is_accepted = |whole: i64| self.integers == Integers::Any || whole.saturating_abs() <= SAFE_INTEGER_MAX;
        let beyond = || Malformed::new(MalformedReason::IntegerOutOfRange, "an integer beyond ±(2^53−1)");
        if integer {
            match text.parse::<i64>() {
                Ok(whole) if is_accepted(whole) => return Ok(whole.into()),
                Err(_) if self.integers == Integers::Any => {}
                _ => return Err(beyond()),
            }
        }
        // Every JSON number parses; one beyond the range becomes infinite and is rejected below.
        let double: f64 = text.parse().unwrap_or(f64::INFINITY);
        if double.fract() == 0.0 && double.abs() < EXPONENT_FORM_MIN {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "below 1e21 it saturates at worst, and is then a double or refused"
            )]
            let whole = double as i64;
            if whole.saturating_abs() <= SAFE_INTEGER_MAX {
                return Ok(whole.into());
            }
            if self.integers == Integers::Safe {
                return Err(beyond());
            }
        }
        Number::from_f64(double)
            .ok_or_else(|| Malformed::new(MalformedReason::NumberOutOfRange, "a number beyond the range of a double"))
    }

    fn string(&mut self) -> Result<String, Malformed> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = self.rest();
            let plain = rest.bytes().position(|byte| byte == b'"' || byte == b'\\' || byte < 0x20);
            let Some(plain) = plain else { return Err(self.not_json("the string does not end")) };
            // The slice ends before an ASCII byte, which is a character boundary.
            out.push_str(&rest[..plain]);
            self.at += plain + 1;
            match rest.as_bytes()[plain] {
                b'"' => return Ok(out),
                b'\\' => out.push(self.escape()?),
                _ => return Err(self.not_json("a control character must be escaped")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Malformed> {
        let kind = self.peek().unwrap_or(0);
        self.at += usize::from(kind.is_ascii() && kind != 0);
        Ok(match kind {
            b'"' | b'\\' | b'/' => char::from(kind),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode_escape(),
            _ => return Err(self.not_json("an unknown escape")),
        })
    }

    fn unicode_escape(&mut self) -> Result<char, Malformed> {
        let lone = || Malformed::new(MalformedReason::LoneSurrogate, "half of a surrogate pair");
        let first = self.hex4()?;
        if !(0xD800..0xE000).contains(&first) {
            return char::from_u32(first).ok_or_else(lone);
        }
        if first >= 0xDC00 || !self.rest().starts_with("\\u") {
            return Err(lone());
        }
        self.at += 2;
        let second = self.hex4()?;
        if !(0xDC00..0xE000).contains(&second) {
            return Err(lone());
        }
        char::from_u32(0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00)).ok_or_else(lone)
    }

    fn hex4(&mut self) -> Result<u32, Malformed> {
        let digits = self.rest().get(..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let code = code.ok_or_else(|| self.not_json("four hex digits were expected"))?;
        self.at += 4;
        Ok(code)
    }

    fn digits(&mut self) -> usize {
        let count = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        self.at += count;
        count
    }

    fn skip_space(&mut self) {
        self.at += self.rest().bytes().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_match = self.peek() == Some(byte);
        self.at += usize::from(is_match);
        is_match
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn not_json(&self, expected: &str) -> Malformed {
        let mut detail = String::from(expected);
        // Writing to a `String` cannot fail.
        let _ = write!(detail, " (byte {})", self.at);
        Malformed::new(MalformedReason::NotJson, detail)
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use proptest::prelude::*;

    use super::*;
    use crate::Digest;

    const BYTES_MAX: usize = 262_144;

    fn vectors() -> Value {
        serde_json::from_slice(include_bytes!("../../../tests/vectors/canonical.json")).unwrap()
    }

    fn raw(case: &Value) -> Vec<u8> {
        match case.get("build") {
            None => BASE64_STANDARD.decode(case["raw_b64"].as_str().unwrap()).unwrap(),
            Some(build) => {
                let part = |name: &str| build[name].as_str().unwrap().to_owned();
                let count = usize::try_from(build["count"].as_u64().unwrap()).unwrap();
                (part("prefix") + &part("repeat").repeat(count) + &part("suffix")).into_bytes()
            }
        }
    }

    #[test]
    fn every_vector_has_its_canonical_bytes_or_its_fault() {
        let vectors = vectors();
        let cases = vectors["cases"].as_array().unwrap();
        assert_eq!(cases.len(), 52);
        for case in cases {
            let name = &case["name"];
            match (parse_object(&raw(case), BYTES_MAX), case["malformed"].as_str()) {
                (Ok(value), None) => {
                    let bytes = canonical_bytes(&value);
                    assert_eq!(case["canonical_length"], bytes.len(), "{name}");
                    assert_eq!(case["sha256"], Digest::of(&bytes).to_string(), "{name}");
                }
                (Err(fault), Some(reason)) => assert_eq!(fault.reason.to_string(), reason, "{name}: {fault}"),
                (outcome, expected) => panic!("{name}: {outcome:?}, expected {expected:?}"),
            }
        }
    }

    #[test]
    fn an_integer_is_out_of_range_in_any_notation() {
        for text in [
            "-9223372036854775808",
            "9007199254740992",
            "9007199254740992.0",
            "9.007199254740993e15",
            "1e16",
            "-1E20",
            "9007199254740991.5",
        ] {
            let fault = parse_object(format!(r#"{{"a":{text}}}"#).as_bytes(), BYTES_MAX).unwrap_err();
            assert_eq!(fault.reason, MalformedReason::IntegerOutOfRange, "{text}");
        }
    }

    #[test]
    fn a_value_that_is_not_hashed_may_contain_large_integers() {
        let parsed = |text: &str| parse(text.as_bytes()).unwrap();
        assert_eq!(parsed("9007199254740993"), Value::from(9_007_199_254_740_993_i64));
        assert_eq!(parsed("18446744073709551616"), Value::from(18_446_744_073_709_551_616.0));
        assert_eq!(parsed("1e20"), Value::from(1e20));
        assert_eq!(parsed("1.0"), Value::from(1));
        assert_eq!(parse(b"1e999").unwrap_err().reason, MalformedReason::NumberOutOfRange);
        assert_eq!(parse(br#"{"a":{"b":1,"b":1}}"#).unwrap_err().path, "/a/b");
    }

    #[test]
    fn a_fault_names_its_place() {
        let fault = parse_object(br#"{"a":[0,{"b/c":{"d":1,"d":2}}]}"#, BYTES_MAX).unwrap_err();
        assert_eq!(fault.to_string(), "duplicate_key at /a/1/b~1c/d: the key is repeated");
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            (-SAFE_INTEGER_MAX..=SAFE_INTEGER_MAX).prop_map(Value::from),
            any::<f64>().prop_filter_map("finite", |double| Number::from_f64(double).map(Value::Number)),
            any::<String>().prop_map(Value::String),
        ];
        leaf.prop_recursive(5, 64, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
                prop::collection::btree_map(any::<String>(), inner, 0..6).prop_map(|map| map.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn canonical_bytes_parse_back_to_themselves(value in any_json()) {
            let text = serde_json::json!({ "v": value }).to_string();
            match parse_object(text.as_bytes(), BYTES_MAX) {
                Ok(parsed) => {
                    let bytes = canonical_bytes(&parsed);
                    let again = parse_object(&bytes, BYTES_MAX).unwrap();
                    prop_assert_eq!(canonical_bytes(&again), bytes);
                    prop_assert_eq!(again, parsed);
                }
                // A random double can be an integer beyond the safe range.
                Err(fault) => prop_assert_eq!(fault.reason, MalformedReason::IntegerOutOfRange),
            }
        }

        #[test]
        fn the_writer_agrees_with_the_library(value in any_json()) {
            let members = Map::from_iter([("v".to_owned(), value)]);
            prop_assert_eq!(canonical_bytes(&members), serde_json_canonicalizer::to_vec(&members).unwrap());
        }

        #[test]
        fn accepted_text_means_the_same_to_a_common_parser(text in r#"[\[\]{}":,0-9eE.+\-\\u tfalsrn]{0,24}"#) {
            if let Ok(parsed) = parse_object(text.as_bytes(), BYTES_MAX) {
                let common: Value = serde_json::from_str(&text).unwrap();
                prop_assert_eq!(canonical_bytes(&parsed), serde_json_canonicalizer::to_vec(&common).unwrap());
            }
        }

        #[test]
        fn no_bytes_make_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = parse_object(&bytes, BYTES_MAX);
        }
    }
}
