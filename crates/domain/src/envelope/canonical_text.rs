//! Parses an envelope whose text is already canonical, in one pass.
//!
//! Senders that follow the protocol send RFC 8785. The canonical bytes of such a body are the body without the member
//! `hash_chain.self`, and only the payload has to become a value. [`open`] accepts only texts without escapes or
//! fractions and with ASCII keys in strict order. Every other text, valid or not, is left to [`super::Sealed::open`],
//! which also reports the fault.

use std::ops::Range;
use std::str::FromStr;

use serde::Deserialize;
use serde::de::IntoDeserializer as _;
use serde::de::value::Error as ValueError;
use serde_json::{Map, Value};

use super::{AgentKinds, Envelope, EventScope, HashChain, ProjectId, SchemaVersion};
use crate::canonical::{DEPTH_MAX, SAFE_INTEGER_MAX};

/// The envelope and its canonical bytes; `None` if the text needs the general parser.
pub fn open(body: &[u8], bytes_max: usize, agents: &AgentKinds) -> Option<(Envelope, Vec<u8>)> {
    if body.len() > bytes_max {
        return None;
    }
    let mut reader = TextReader { text: std::str::from_utf8(body).ok()?, at: 0 };
    let (envelope, seal_member) = reader.envelope(agents)?;
    if reader.at < body.len() {
        return None;
    }
    let mut canonical = Vec::with_capacity(body.len() - seal_member.len());
    canonical.extend_from_slice(&body[..seal_member.start]);
    canonical.extend_from_slice(&body[seal_member.end..]);
    Some((envelope, canonical))
}

/// A position in the text. Every method returns `None` if the text is not canonical or does not continue as expected.
struct TextReader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> TextReader<'t> {
    /// The envelope, and the range of `,"self":"…"`.
    fn envelope(&mut self, agents: &AgentKinds) -> Option<(Envelope, Range<usize>)> {
        self.eat("{\"chain_epoch\":")?;
        let chain_epoch = u64::try_from(self.integer()?).ok()?;
        self.eat(",\"consent_level\":")?;
        let consent_level = self.named()?;
        self.eat(",\"event_id\":")?;
        let event_id = self.parsed()?;
        self.eat(",\"event_type\":")?;
        let event_type = self.string()?.to_owned();
        self.eat(",\"hash_chain\":{\"prev\":")?;
        let prev = self.parsed()?;
        let start = self.at;
        self.eat(",\"self\":")?;
        let self_hash = self.parsed()?;
        let seal_member = start..self.at;
        self.eat("},\"lane\":")?;
        let lane = self.named()?;
        self.eat(",\"payload\":")?;
        let payload = self.object(2)?;
        self.eat(",\"redacted\":")?;
        let redacted = self.bool()?;
        self.eat(",\"schema_version\":\"v1\",\"scope\":{\"agent_id\":")?;
        let agent_id = self.string().filter(|agent| agents.contains(agent))?.to_owned();
        self.eat(",\"machine_id\":")?;
        let machine_id = self.parsed()?;
        let project_id = match self.eat(",\"project_id\":") {
            Some(()) => Some(ProjectId::try_from(self.string()?.to_owned()).ok()?),
            None => None,
        };
        let session_uuid = match self.eat(",\"session_uuid\":") {
            Some(()) => Some(self.parsed()?),
            None => None,
        };
        let user_account_id = match self.eat(",\"user_account_id\":") {
            Some(()) => Some(self.parsed()?),
            None => None,
        };
        self.eat(",\"user_id\":")?;
        let user_id = self.parsed()?;
        self.eat("},\"seq\":")?;
        let seq = u64::try_from(self.integer()?).ok()?;
        self.eat(",\"ts_edge_ms\":")?;
        let ts_edge_ms = self.integer()?;
        self.eat("}")?;
        let scope = EventScope { user_id, machine_id, user_account_id, agent_id, project_id, session_uuid };
        let envelope = Envelope {
            schema_version: SchemaVersion::V1,
            event_id,
            event_type,
            lane,
            ts_edge_ms,
            consent_level,
            redacted,
            chain_epoch,
            seq,
            scope,
            hash_chain: HashChain { prev, self_hash },
            payload,
        };
        Some((envelope, seal_member))
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        Some(match self.peek()? {
            b'"' => Value::String(self.string()?.to_owned()),
            b'{' => Value::Object(self.object(depth)?),
            b'[' => Value::Array(self.array(depth)?),
            b't' | b'f' => Value::Bool(self.bool()?),
            b'n' => self.eat("null").map(|()| Value::Null)?,
            _ => Value::Number(self.integer()?.into()),
        })
    }

    fn object(&mut self, depth: usize) -> Option<Map<String, Value>> {
        self.open(b'{', depth)?;
        let mut members = Map::new();
        if self.eat("}").is_some() {
            return Some(members);
        }
        let mut last: Option<&str> = None;
        loop {
            let key = self.string()?;
            // The byte order of ASCII keys equals their order by UTF-16 code units.
            if !key.is_ascii() || last.is_some_and(|last| last >= key) {
                return None;
            }
            last = Some(key);
            self.eat(":")?;
            let value = self.value(depth + 1)?;
            members.insert(key.to_owned(), value);
            match self.next()? {
                b',' => {}
                b'}' => return Some(members),
                _ => return None,
            }
        }
    }

    fn array(&mut self, depth: usize) -> Option<Vec<Value>> {
        self.open(b'[', depth)?;
        let mut items = Vec::new();
        if self.eat("]").is_some() {
            return Some(items);
        }
        loop {
            items.push(self.value(depth + 1)?);
            match self.next()? {
                b',' => {}
                b']' => return Some(items),
                _ => return None,
            }
        }
    }

    fn open(&mut self, bracket: u8, depth: usize) -> Option<()> {
        (depth <= DEPTH_MAX && self.next()? == bracket).then_some(())
    }

    fn bool(&mut self) -> Option<bool> {
        self.eat("true").map(|()| true).or_else(|| self.eat("false").map(|()| false))
    }

    /// Reads a string without escapes.
    fn string(&mut self) -> Option<&'t str> {
        self.eat("\"")?;
        let rest = self.text.get(self.at..)?;
        let length = rest.bytes().position(|byte| byte == b'"' || byte == b'\\' || byte < 0x20)?;
        let string = rest.get(..length)?;
        self.at += length;
        self.eat("\"")?;
        Some(string)
    }

    fn parsed<T: FromStr>(&mut self) -> Option<T> {
        self.string()?.parse().ok()
    }

    /// Reads a variant of an enum by its serde name.
    fn named<T: Deserialize<'t>>(&mut self) -> Option<T> {
        let name: serde::de::value::BorrowedStrDeserializer<'t, ValueError> =
            serde::de::value::BorrowedStrDeserializer::new(self.string()?);
        T::deserialize(name.into_deserializer()).ok()
    }

    /// Reads an integer within ±(2^53 − 1) in the format of RFC 8785.
    fn integer(&mut self) -> Option<i64> {
        let rest = self.text.get(self.at..)?;
        let length = rest.bytes().position(|byte| !matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9'))?;
        let written = rest.get(..length)?;
        let digits = written.strip_prefix('-').unwrap_or(written);
        let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        if !is_plain || (digits.starts_with('0') && written.len() > 1) {
            return None;
        }
        let whole: i64 = written.parse().ok()?;
        self.at += length;
        (whole.saturating_abs() <= SAFE_INTEGER_MAX).then_some(whole)
    }

    fn eat(&mut self, expected: &str) -> Option<()> {
        self.text.as_bytes().get(self.at..)?.starts_with(expected.as_bytes()).then(|| self.at += expected.len())
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::canonical;
    use crate::envelope::Sealed;

    const BYTES_MAX: usize = 262_144;

    fn agents() -> AgentKinds {
        AgentKinds::new(["codex".to_owned()])
    }

    fn envelope(payload: &Value, optional: u8) -> Map<String, Value> {
        let mut envelope = json!({
            "schema_version": "v1", "event_id": "019b76da-a800-7000-8000-000000000001", "event_type": "memory.stored",
            "lane": "memory", "ts_edge_ms": 1_767_225_600_000_i64, "consent_level": "full", "redacted": false,
            "chain_epoch": 0, "seq": 0,
            "scope": {
                "user_id": "tz4a98xxat96iws9zmbrgj3a", "machine_id": "019b76da-a800-7000-8000-000000000002",
                "agent_id": "svc-cli",
            },
            "hash_chain": { "prev": "GENESIS", "self": "0".repeat(64) },
            "payload": payload,
        });
        let scope = &mut envelope["scope"];
        if optional & 1 > 0 {
            scope["project_id"] = json!("a project");
        }
        if optional & 2 > 0 {
            scope["session_uuid"] = json!("019b76da-a800-7000-8000-000000000003");
        }
        envelope.as_object().cloned().unwrap()
    }

    fn sealed(text: &[u8]) -> Option<Sealed> {
        let (envelope, canonical) = open(text, BYTES_MAX, &agents())?;
        Some(Sealed { envelope, seal: crate::Digest::of(&canonical), canonical })
    }

    #[test]
    fn a_canonical_envelope_is_read_in_one_pass() {
        for optional in 0..4 {
            let text = canonical::canonical_bytes(&envelope(&json!({ "a": [1, true, null, "ü"], "b": {} }), optional));
            let read = sealed(&text).unwrap();
            assert_eq!(read, Sealed::open_any(&text, BYTES_MAX, &agents()).unwrap());
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            prop_oneof![any::<i64>(), Just(i64::MIN), Just(i64::MAX)].prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[a-z\"\\\\é\\n]{0,6}".prop_map(Value::String),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                prop::collection::btree_map("[a-zé\u{1f600}\u{e000}]{0,4}", inner, 0..4)
                    .prop_map(|map| map.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn one_pass_reads_the_same_as_the_tree_parser(
            payload in any_json(), optional in 0_u8..4, spoil in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
        ) {
            let payload = json!({ "v": payload });
            let mut text = canonical::canonical_bytes(&envelope(&payload, optional));
            if let Some((at, byte)) = spoil {
                let at = at.index(text.len());
                text[at] = byte;
            }
            if let Some(read) = sealed(&text) {
                prop_assert_eq!(Ok(read), Sealed::open_any(&text, BYTES_MAX, &agents()));
            }
        }

        #[test]
        fn plain_payloads_need_no_second_reading(keys in prop::collection::btree_map("[a-z]{1,5}", -9_i64..9, 0..5)) {
            let text = canonical::canonical_bytes(&envelope(&json!(keys), 0));
            prop_assert!(open(&text, BYTES_MAX, &agents()).is_some());
        }
    }
}
