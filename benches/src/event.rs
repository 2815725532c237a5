//! Events with valid seals, rendered before the clock starts.

use bytes::Bytes;
use domain::envelope::AgentKinds;
use domain::{Chance, Digest, Timestamp, canonical};
use serde_json::{Map, Value, json};

use crate::plan;

/// Makes an envelope 1.1 KB long, the size that the floors are defined with.
const CONTENT_BYTES: usize = 464;
/// The sender's clock stands still: nothing depends on it, and runs with one seed are equal.
const SENT_AT_MS: i64 = 1_767_225_600_000;

/// A computer, as an event's scope and a request's credential name it.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Identity.
    pub user_cuid: String,
    /// Computer.
    pub uuid: String,
    /// Bearer secret.
    pub secret: String,
}

impl Machine {
    /// A computer that nobody has registered: good enough for the floors, and the first half of a registration.
    pub fn invent(chance: &Chance) -> Self {
        let uuid = chance.uuid_v7(Timestamp::UNIX_EPOCH).to_string();
        Self { user_cuid: chance.cuid2(), uuid, secret: format!("msk_{}", "0".repeat(43)) }
    }

    /// A request of this computer; `headers` are added to its credential.
    pub fn request(&self, method: &str, target: &str, body: &[u8]) -> Bytes {
        let credential = format!("Authorization: Bearer {}", self.secret);
        plan::request(method, target, &[&credential, "Content-Type: application/json"], body)
    }
}

/// One chain of events, growing.
#[derive(Debug)]
pub struct Chain {
    machine: Machine,
    event_type: &'static str,
    epoch: u64,
    seq: u64,
    prev: Option<Digest>,
    chance: Chance,
}

impl Chain {
    /// An empty chain.
    pub fn new(machine: &Machine, event_type: &'static str, epoch: u64, seed: u64) -> Self {
        Self { machine: machine.clone(), event_type, epoch, seq: 0, prev: None, chance: Chance::seeded(seed) }
    }

    /// The next event: its id, and the request that posts it.
    pub fn next(&mut self) -> (String, Bytes) {
        let event_id = self.chance.uuid_v7(Timestamp::UNIX_EPOCH).to_string();
        let mut event = self.describe(&event_id);
        let seal = Digest::of(&canonical::canonical_bytes(&event));
        event.insert("hash_chain".to_owned(), json!({"prev": self.prev(), "self": seal.to_string()}));
        self.prev = Some(seal);
        self.seq += 1;
        let body = Value::Object(event).to_string();
        (event_id, self.machine.request("POST", "/api/v1/events", body.as_bytes()))
    }

    fn prev(&self) -> String {
        self.prev.map_or_else(|| "GENESIS".to_owned(), |seal| seal.to_string())
    }

    /// Everything but the seal.
    fn describe(&self, event_id: &str) -> Map<String, Value> {
        let content = format!("{:016x}", self.chance.below(u64::MAX)).repeat(CONTENT_BYTES / 16);
        let event = json!({
            "schema_version": "v1",
            "event_id": event_id,
            "event_type": self.event_type,
            "lane": "memory",
            "ts_edge_ms": SENT_AT_MS,
            "consent_level": "full",
            "redacted": false,
            "chain_epoch": self.epoch,
            "seq": self.seq,
            "scope": {
                "user_id": self.machine.user_cuid,
                "machine_id": self.machine.uuid,
                "agent_id": AgentKinds::CLI,
                "project_id": "benches",
            },
            "hash_chain": {"prev": self.prev()},
            "payload": {"memory_id": event_id, "title": "a memory of the load generator", "content": content},
        });
        match event {
            Value::Object(members) => members,
            _ => Map::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::envelope::Sealed;

    use super::*;

    #[test]
    fn chains_are_sealed_linked_and_of_the_agreed_size() {
        let machine = Machine::invent(&Chance::seeded(1));
        let mut chain = Chain::new(&machine, "memory.stored", 3, 7);
        let mut prev = None;
        for seq in 0..3 {
            let (event_id, request) = chain.next();
            let body = &request[request.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4..];
            let sealed = Sealed::open(body, 262_144, &AgentKinds::new([])).unwrap();
            assert!(sealed.seal_is_right());
            assert!((1030..1110).contains(&body.len()), "{}", body.len());
            assert_eq!((sealed.envelope.seq, sealed.envelope.event_id.to_string()), (seq, event_id));
            assert_eq!(sealed.envelope.hash_chain.prev.to_string(), prev.unwrap_or_else(|| "GENESIS".to_owned()));
            prev = Some(sealed.seal.to_string());
            assert!(domain::registry::Registry::built_in().unwrap().judge(&sealed.envelope).is_ok());
        }
    }
}
