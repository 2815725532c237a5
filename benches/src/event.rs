//! Events with valid seals, rendered before the measurement.

use bytes::Bytes;
use domain::envelope::AgentKinds;
use domain::{Clock, Digest, Rng, Timestamp, canonical};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::plan;

/// Padding for an envelope of 1.1 KB, the size that the floors are defined with.
const CONTENT_BYTES: usize = 464;
/// A constant timestamp, so that runs with one seed are identical.
const SENT_AT_MS: i64 = 1_767_225_600_000;
/// Path of event submission.
pub const TARGET: &str = "/api/v1/events";

/// A computer, with the ids for an event's scope and the credential.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Identity of the computer.
    pub user_cuid: String,
    /// Id of the computer.
    pub uuid: String,
    pub secret: String,
}

impl Machine {
    /// An unregistered computer, for the floors and for registrations.
    pub fn invent(rng: &Rng) -> Self {
        let uuid = rng.uuid_v7(Timestamp::UNIX_EPOCH).to_string();
        Self { user_cuid: rng.cuid2(), uuid, secret: format!("msk_{}", "0".repeat(43)) }
    }

    /// A request of this computer, with its credential and `headers`.
    pub fn request(&self, method: &str, target: &str, body: &[u8]) -> Bytes {
        let credential = format!("Authorization: Bearer {}", self.secret);
        plan::request(method, target, &[&credential, "Content-Type: application/json"], body)
    }
}

/// Kind of event ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ids {
    /// UUIDv7 of the sender's clock, as clients create them: nearly increasing.
    Growing,
    /// UUIDv7 with random timestamps: each is inserted between earlier ones.
    Random,
}

/// Event ids of many chains, in the order of sending.
#[derive(Debug, Clone)]
pub struct IdSource {
    ids: Ids,
    rng: Rng,
    begin_ms: i64,
}

impl IdSource {
    /// Events per millisecond of the senders' clock.
    const PER_MILLISECOND: u64 = 20;

    /// Ids of `count` events up to the time `end`: clients send events that are a few seconds old.
    pub fn until(end: Timestamp, count: u64, ids: Ids, seed: u64) -> Self {
        let begin_ms = end.timestamp_millis() - Self::milliseconds(count);
        Self { ids, rng: Rng::seeded(seed), begin_ms }
    }

    /// The range of time of `count` ids.
    fn milliseconds(count: u64) -> i64 {
        i64::try_from(count / Self::PER_MILLISECOND).unwrap_or(i64::MAX)
    }

    /// The id of the event with this approximate number.
    pub fn draw(&self, number: u64) -> Uuid {
        let moment = match self.ids {
            Ids::Growing => self.moment(number),
            Ids::Random => Timestamp::UNIX_EPOCH,
        };
        self.rng.uuid_v7(moment)
    }

    /// The receipt of that event, with the timestamp of the clock.
    pub fn receipt(&self, number: u64) -> Uuid {
        self.rng.uuid_v7(self.moment(number))
    }

    /// The senders' time of that event.
    pub fn moment(&self, number: u64) -> Timestamp {
        let moment = Timestamp::from_timestamp_millis(self.begin_ms + Self::milliseconds(number));
        moment.unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

/// Order of the members in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Members {
    /// The order of RFC 8785, so that the body is its canonical form.
    Canonical,
    /// Random, on every level.
    Shuffled,
}

#[derive(Debug, Clone)]
pub struct Event {
    pub id: Uuid,
    /// Request body.
    pub body: Vec<u8>,
}

/// A growing chain of events.
#[derive(Debug)]
pub struct Chain {
    machine: Machine,
    event_type: &'static str,
    epoch: u64,
    seq: u64,
    prev: Option<Digest>,
    /// `prev` of the last event.
    before: Option<Digest>,
    rng: Rng,
}

impl Chain {
    /// A chain without events.
    pub fn new(machine: &Machine, event_type: &'static str, epoch: u64, seed: u64) -> Self {
        let rng = Rng::seeded(seed);
        Self { machine: machine.clone(), event_type, epoch, seq: 0, prev: None, before: None, rng }
    }

    /// The computer of the chain.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Whether the chain has no events.
    pub fn is_empty(&self) -> bool {
        self.seq == 0
    }

    /// The next event with an increasing id, and its request.
    pub fn next(&mut self) -> (String, Bytes) {
        let id = self.rng.uuid_v7(Clock::system().now());
        let event = self.grow(id, Members::Canonical);
        (id.to_string(), self.machine.request("POST", TARGET, &event.body))
    }

    /// Appends the next event.
    pub fn grow(&mut self, id: Uuid, members: Members) -> Event {
        let (body, seal) = self.seal(id, self.seq, self.prev, members);
        self.before = self.prev.replace(seal);
        self.seq += 1;
        Event { id, body }
    }

    /// An event at the position of the last one, which the log rejects. Does not change the chain.
    pub fn conflict(&self, id: Uuid, members: Members) -> Event {
        let (body, _) = self.seal(id, self.seq.saturating_sub(1), self.before, members);
        Event { id, body }
    }

    fn seal(&self, id: Uuid, seq: u64, prev: Option<Digest>, members: Members) -> (Vec<u8>, Digest) {
        let prev = prev.map_or_else(|| "GENESIS".to_owned(), |seal| seal.to_string());
        let mut event = self.describe(&id.to_string(), seq, &prev);
        let seal = Digest::of(&canonical::canonical_bytes(&event));
        event.insert("hash_chain".to_owned(), json!({"prev": prev, "self": seal.to_string()}));
        let event = Value::Object(event);
        let body = match members {
            // A `Map` has its members in alphabetical order, and all texts are plain ASCII.
            Members::Canonical => event.to_string(),
            Members::Shuffled => {
                let mut text = String::with_capacity(CONTENT_BYTES * 3);
                shuffled(&event, &self.rng, &mut text);
                text
            }
        };
        (body.into_bytes(), seal)
    }

    /// The members without the seal.
    fn describe(&self, event_id: &str, seq: u64, prev: &str) -> Map<String, Value> {
        let content = format!("{:016x}", self.rng.below(u64::MAX)).repeat(CONTENT_BYTES / 16);
        let event = json!({
            "schema_version": "v1",
            "event_id": event_id,
            "event_type": self.event_type,
            "lane": "memory",
            "ts_edge_ms": SENT_AT_MS,
            "consent_level": "full",
            "redacted": false,
            "chain_epoch": self.epoch,
            "seq": seq,
            "scope": {
                "user_id": self.machine.user_cuid,
                "machine_id": self.machine.uuid,
                "agent_id": AgentKinds::CLI,
                "project_id": "benches",
            },
            "hash_chain": {"prev": prev},
            "payload": {"memory_id": event_id, "title": "a memory of the load generator", "content": content},
        });
        match event {
            Value::Object(members) => members,
            _ => Map::new(),
        }
    }
}

/// Writes a value with randomly ordered members.
fn shuffled(value: &Value, rng: &Rng, text: &mut String) {
    let Value::Object(members) = value else {
        text.push_str(&value.to_string());
        return;
    };
    let mut members: Vec<(&String, &Value)> = members.iter().collect();
    for last in (1..members.len()).rev() {
        let other = rng.below(last as u64 + 1);
        members.swap(last, usize::try_from(other).unwrap_or(last));
    }
    text.push('{');
    for (place, (name, value)) in members.into_iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        text.push_str(&Value::from(name.as_str()).to_string());
        text.push(':');
        shuffled(value, rng, text);
    }
    text.push('}');
}

#[cfg(test)]
mod tests {
    use domain::envelope::Sealed;

    use super::*;

    fn id(seed: u64) -> Uuid {
        Rng::seeded(seed).uuid_v7(Timestamp::UNIX_EPOCH)
    }

    fn open(body: &[u8]) -> Sealed {
        Sealed::open(body, 262_144, &AgentKinds::new([])).unwrap()
    }

    #[test]
    fn chains_are_sealed_linked_and_of_the_agreed_size() {
        let machine = Machine::invent(&Rng::seeded(1));
        let mut chain = Chain::new(&machine, "memory.stored", 3, 7);
        let mut prev = None;
        for seq in 0..3 {
            let (event_id, request) = chain.next();
            let body = &request[request.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4..];
            let sealed = open(body);
            assert!(sealed.seal_is_right());
            assert_eq!(body.len() - sealed.canonical.len(), r#","self":"""#.len() + 64, "canonical but for the seal");
            assert!((1030..1110).contains(&body.len()), "{}", body.len());
            assert_eq!((sealed.envelope.seq, sealed.envelope.event_id.to_string()), (seq, event_id));
            assert_eq!(sealed.envelope.hash_chain.prev.to_string(), prev.unwrap_or_else(|| "GENESIS".to_owned()));
            prev = Some(sealed.seal.to_string());
            assert!(domain::registry::Registry::built_in().unwrap().judge(&sealed.envelope).is_ok());
        }
    }

    #[test]
    fn shuffled_members_have_the_same_seal() {
        let machine = Machine::invent(&Rng::seeded(1));
        let mut chain = Chain::new(&machine, "memory.stored", 0, 7);
        let event = chain.grow(id(1), Members::Shuffled);
        let sealed = open(&event.body);
        assert!(sealed.seal_is_right());
        let canonical: Value = serde_json::from_slice(&event.body).unwrap();
        assert_ne!(event.body, canonical.to_string().into_bytes());
    }

    #[test]
    fn a_conflict_claims_the_place_of_the_last_event_and_moves_nothing() {
        let machine = Machine::invent(&Rng::seeded(1));
        let mut chain = Chain::new(&machine, "memory.stored", 0, 7);
        let first = open(&chain.grow(id(1), Members::Canonical).body);
        let second = open(&chain.grow(id(2), Members::Canonical).body);
        let conflict = open(&chain.conflict(id(3), Members::Canonical).body);
        assert!(conflict.seal_is_right());
        assert_eq!(conflict.envelope.seq, second.envelope.seq);
        assert_eq!(conflict.envelope.hash_chain.prev.to_string(), first.seal.to_string());
        let third = open(&chain.grow(id(4), Members::Canonical).body);
        assert_eq!(third.envelope.hash_chain.prev.to_string(), second.seal.to_string());
    }

    #[test]
    fn ids_grow_with_the_clock_or_fall_anywhere() {
        let now = Clock::system().now();
        let drawn = |ids| -> Vec<Uuid> {
            let source = IdSource::until(now, 1000 * IdSource::PER_MILLISECOND, ids, 1);
            (0..1000).map(|number| source.draw(number * IdSource::PER_MILLISECOND)).collect()
        };
        let growing = drawn(Ids::Growing);
        assert!(growing.is_sorted());
        let (seconds, _) = growing[999].get_timestamp().unwrap().to_unix();
        assert!(seconds.abs_diff(now.timestamp().unsigned_abs()) <= 1, "the last one is of now");
        let random = drawn(Ids::Random);
        let falls = random.windows(2).filter(|pair| pair[0] > pair[1]).count();
        assert!((300..700).contains(&falls), "{falls}");
    }
}
