//! The event envelope (`docs/protocol/events.md#event-envelope`) and its seal.
//!
//! [`Sealed::open`] parses bytes into a typed, canonical and hashed event. The seal is `self` = SHA-256 of the RFC 8785
//! bytes of the envelope without the member `hash_chain.self`. It covers `prev`, and so the link.

mod canonical_text;
mod members;

use serde_json::{Map, Value, json};

use crate::Timestamp;
use crate::canonical::{self, Malformed, MalformedReason};
use crate::chain::Position;
use crate::consent::ConsentLevel;
use crate::digest::Digest;
use crate::ids::{EventId, MachineUuid};
pub use crate::lane::Lane;
use crate::recorder::Recorder;
pub use members::{AgentKinds, Envelope, EventScope, HashChain, ProjectId, SchemaVersion};

/// The members that could be read from an invalid event, for operators and for its sender.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartialEnvelope {
    /// `event_id`.
    pub event_id: Option<EventId>,
    /// `event_type`, if it has at most 128 bytes.
    pub event_type: Option<String>,
    /// `scope.agent_id`, if it has at most 128 bytes.
    pub agent_id: Option<String>,
    /// `scope.machine_id`.
    pub machine_uuid: Option<MachineUuid>,
}

impl PartialEnvelope {
    const TEXT_MAX: usize = 128;

    fn of(members: &Map<String, Value>) -> Self {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let short = |text: Option<String>| text.filter(|text| text.len() <= Self::TEXT_MAX);
        let scope = members.get("scope");
        let in_scope = |name| scope.and_then(|scope| scope.get(name));
        Self {
            event_id: text(members.get("event_id")).and_then(|id| id.parse().ok()),
            event_type: short(text(members.get("event_type"))),
            agent_id: short(text(in_scope("agent_id"))),
            machine_uuid: text(in_scope("machine_id")).and_then(|id| id.parse().ok()),
        }
    }
}

impl From<&Envelope> for PartialEnvelope {
    fn from(envelope: &Envelope) -> Self {
        Self {
            event_id: Some(envelope.event_id),
            event_type: Some(envelope.event_type.clone()),
            agent_id: Some(envelope.scope.agent_id.clone()),
            machine_uuid: Some(envelope.scope.machine_id),
        }
    }
}

/// A strictly parsed envelope with its canonical form and the computed seal.
#[derive(Debug, Clone, PartialEq)]
pub struct Sealed {
    /// The typed event.
    pub envelope: Envelope,
    /// RFC 8785 bytes without `hash_chain.self`: hashed, stored and used for later verification.
    pub canonical: Vec<u8>,
    /// SHA-256 of [`Self::canonical`].
    pub seal: Digest,
}

/// An encoded event, ready to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedEvent {
    /// RFC 8785 bytes of the whole event.
    pub body: Vec<u8>,
    /// `hash_chain.self`, to which the next event of the chain links.
    pub seal: Digest,
}

/// Encodes an event at a position of its chain. Replaces the position in `members`, if there is one.
pub fn seal(mut members: Map<String, Value>, position: &Position) -> EncodedEvent {
    let Position { chain_epoch, seq, prev } = position;
    members.insert("chain_epoch".into(), json!(chain_epoch));
    members.insert("seq".into(), json!(seq));
    members.insert("hash_chain".into(), json!({ "prev": prev }));
    let seal = Digest::of(&canonical::canonical_bytes(&members));
    members.insert("hash_chain".into(), json!({ "prev": prev, "self": seal }));
    EncodedEvent { body: canonical::canonical_bytes(&members), seal }
}

/// The scope of an event that the service itself reports.
pub(crate) fn report_scope(Recorder { machine, identity }: &Recorder) -> Value {
    json!({ "user_id": identity, "machine_id": machine, "agent_id": AgentKinds::CONTROL_PLANE })
}

/// The members of an event that the service itself reports about a change: lane `security`, no content. The caller adds a place in a
/// chain with [`seal`].
pub(crate) fn report(id: EventId, event_type: &str, at: Timestamp, scope: Value, payload: Value) -> Map<String, Value> {
    let members = [
        ("schema_version", json!("v1")),
        ("event_id", json!(id)),
        ("event_type", json!(event_type)),
        ("lane", json!(Lane::Security)),
        ("ts_edge_ms", json!(at.timestamp_millis())),
        ("consent_level", json!(ConsentLevel::MetadataOnly)),
        ("redacted", json!(false)),
        ("scope", scope),
        ("payload", payload),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A body that is not an envelope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct Unreadable {
    /// Reason and position.
    pub fault: Malformed,
    /// The members that could be read.
    pub outline: Box<PartialEnvelope>,
}

impl Sealed {
    /// Parses one envelope. Does not check the seal: see [`Self::seal_is_right`].
    pub fn open(body: &[u8], bytes_max: usize, agents: &AgentKinds) -> Result<Self, Unreadable> {
        match canonical_text::open(body, bytes_max, agents) {
            Some((envelope, canonical)) => Ok(Self { envelope, seal: Digest::of(&canonical), canonical }),
            None => Self::open_any(body, bytes_max, agents),
        }
    }

    /// Parses an event that the service itself reported.
    pub fn open_report(body: &[u8]) -> Result<Self, Unreadable> {
        const BYTES_MAX: usize = 65_536;
        Self::open(body, BYTES_MAX, &AgentKinds::new([]))
    }

    /// Parses a text that need not be canonical.
    fn open_any(body: &[u8], bytes_max: usize, agents: &AgentKinds) -> Result<Self, Unreadable> {
        let unnamed = |fault| Unreadable { fault, outline: Box::default() };
        let mut members = canonical::parse_object(body, bytes_max).map_err(unnamed)?;
        let claimed = members.get_mut("hash_chain").and_then(|chain| chain.as_object_mut()?.remove("self"));
        let canonical = canonical::canonical_bytes(&members);
        if let (Some(claimed), Some(chain)) = (claimed, members.get_mut("hash_chain").and_then(Value::as_object_mut)) {
            chain.insert("self".into(), claimed);
        }
        let outline = Box::new(PartialEnvelope::of(&members));
        match typed(members, agents) {
            Ok(envelope) => Ok(Self { envelope, seal: Digest::of(&canonical), canonical }),
            Err(fault) => Err(Unreadable { fault, outline }),
        }
    }

    /// Whether the sender's `hash_chain.self` equals the computed seal.
    pub fn seal_is_right(&self) -> bool {
        self.envelope.hash_chain.self_hash == self.seal
    }
}

fn typed(members: Map<String, Value>, agents: &AgentKinds) -> Result<Envelope, Malformed> {
    let value = Value::Object(members);
    let envelope: Envelope = serde_path_to_error::deserialize(value).map_err(|error| {
        let path = pointer(error.path());
        invalid(&path, &error.inner().to_string())
    })?;
    let agent = &envelope.scope.agent_id;
    if !agents.contains(agent) {
        return Err(invalid("/scope/agent_id", &format!("expected one of {}", agents.names().join(", "))));
    }
    // The strict parser limits integers to ±(2^53−1), so that `seq` + 1 cannot overflow.
    Ok(envelope)
}

fn invalid(path: &str, detail: &str) -> Malformed {
    const DETAIL_CHARACTERS_MAX: usize = 300;
    let detail = detail.chars().take(DETAIL_CHARACTERS_MAX).collect();
    Malformed { reason: MalformedReason::InvalidField, path: path.to_owned(), detail }
}

/// Converts a path of `serde_path_to_error` to a JSON Pointer (RFC 6901).
pub fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let step = |segment: &Segment| match segment {
        Segment::Seq { index } => format!("/{index}"),
        Segment::Map { key } => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
        Segment::Enum { variant } => format!("/{variant}"),
        Segment::Unknown => String::new(),
    };
    path.iter().map(step).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const BYTES_MAX: usize = 262_144;

    fn agents() -> AgentKinds {
        AgentKinds::new(["codex".to_owned()])
    }

    fn vectors(file: &str) -> Value {
        let bytes: &[u8] = match file {
            "chain.json" => include_bytes!("../../../tests/vectors/chain.json"),
            "canonical.json" => include_bytes!("../../../tests/vectors/canonical.json"),
            other => panic!("{other}"),
        };
        serde_json::from_slice(bytes).unwrap()
    }

    fn open(value: &Value) -> Result<Sealed, Unreadable> {
        Sealed::open(value.to_string().as_bytes(), BYTES_MAX, &agents())
    }

    #[test]
    fn every_event_of_the_vectors_has_its_canonical_bytes_and_its_seal() {
        let vectors = vectors("chain.json");
        for link in vectors["chain"].as_array().unwrap() {
            let sealed = open(&link["event"]).unwrap();
            assert_eq!(sealed.canonical, link["canonical"].as_str().unwrap().as_bytes());
            assert_eq!(sealed.seal.to_string(), link["self"].as_str().unwrap());
            assert!(sealed.seal_is_right());
        }
        for variant in vectors["variants"].as_array().unwrap() {
            let held = variant["reason"] == "hash_mismatch";
            assert_eq!(open(&variant["event"]).unwrap().seal_is_right(), !held, "{}", variant["name"]);
        }
    }

    #[test]
    fn two_spellings_of_one_event_have_one_seal() {
        let vector = &vectors("canonical.json")["envelope"];
        for raw in vector["raws"].as_array().unwrap() {
            let sealed = Sealed::open(raw.as_str().unwrap().as_bytes(), BYTES_MAX, &agents()).unwrap();
            assert_eq!(sealed.canonical, vector["canonical"].as_str().unwrap().as_bytes());
            assert_eq!(sealed.seal.to_string(), vector["self"].as_str().unwrap());
        }
    }

    #[test]
    fn each_member_that_breaks_its_rule_is_named() {
        let good = vectors("chain.json")["chain"][1]["event"].clone();
        assert!(open(&good).is_ok());
        let faults = [
            ("/schema_version", json!("v2")),
            ("/event_id", json!("019B76DA-A800-7A67-8A14-94A3F41B0634")),
            ("/event_type", json!(1)),
            ("/lane", json!("dream")),
            ("/ts_edge_ms", json!(1.5)),
            ("/consent_level", json!("none")),
            ("/redacted", json!("no")),
            ("/chain_epoch", json!(-1)),
            ("/seq", json!("0")),
            ("/scope/user_id", json!("NOT A CUID")),
            ("/scope/machine_id", json!("019b76da-a800-4a67-8a14-94a3f41b0634")),
            ("/scope/user_account_id", json!(null)),
            ("/scope/agent_id", json!("stranger")),
            ("/scope/project_id", json!("")),
            ("/scope/session_uuid", json!("x")),
            ("/hash_chain/prev", json!("genesis")),
            ("/hash_chain/self", json!("ABC")),
            ("/payload", json!([])),
        ];
        for (path, value) in faults {
            let mut event = good.clone();
            match event.pointer_mut(path) {
                Some(place) => *place = value,
                None => event["scope"][path.rsplit('/').next().unwrap()] = value,
            }
            let unreadable = open(&event).unwrap_err();
            assert_eq!(unreadable.fault.path, path, "{}", unreadable.fault);
        }
    }

    #[test]
    fn required_members_must_be_present_and_no_others() {
        let good = vectors("chain.json")["chain"][0]["event"].clone();
        for name in good.as_object().unwrap().keys() {
            let mut event = good.clone();
            event.as_object_mut().unwrap().remove(name);
            assert!(open(&event).unwrap_err().fault.detail.contains(name), "{name}");
        }
        for place in ["", "/scope", "/hash_chain"] {
            let mut event = good.clone();
            event.pointer_mut(place).unwrap()["extra"] = json!(1);
            assert_eq!(open(&event).unwrap_err().fault.path, format!("{place}/extra"));
        }
    }

    #[test]
    fn what_can_be_named_of_an_unreadable_event_is_named() {
        let mut event = vectors("chain.json")["chain"][0]["event"].clone();
        event["seq"] = json!("first");
        event["event_type"] = json!("x".repeat(200));
        let outline = open(&event).unwrap_err().outline;
        assert_eq!(outline.event_id.map(|id| id.to_string()).as_deref(), event["event_id"].as_str());
        assert_eq!(outline.agent_id.as_deref(), Some("svc-cli"));
        assert_eq!(outline.event_type, None);
    }
}
