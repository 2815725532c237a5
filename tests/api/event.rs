//! Hash-chained events as an honest sender makes them, and a way to make dishonest ones.

use domain::{Clock, Digest, Rng, canonical};
use serde_json::{Value, json};

/// A computer and its secret.
#[derive(Debug, Clone)]
pub struct Machine {
    pub user_cuid: String,
    pub uuid: String,
    pub secret: String,
}

/// One chain, growing.
#[derive(Debug, Clone)]
pub struct Chain {
    pub machine: Machine,
    pub agent_id: String,
    pub epoch: u64,
    pub seq: u64,
    pub prev: String,
    rng: Rng,
}

impl Chain {
    pub fn new(machine: &Machine) -> Self {
        Self {
            machine: machine.clone(),
            agent_id: "svc-cli".into(),
            epoch: 0,
            seq: 0,
            prev: "GENESIS".into(),
            rng: Rng::system(),
        }
    }

    pub fn of_agent(machine: &Machine, agent_id: &str) -> Self {
        Self { agent_id: agent_id.into(), ..Self::new(machine) }
    }

    /// The next event, with the chain moved on as if it were taken.
    pub fn next(&mut self) -> Value {
        self.next_with(|_| {})
    }

    /// The next event, changed before it is sealed.
    pub fn next_with(&mut self, change: impl FnOnce(&mut Value)) -> Value {
        let event = self.peek_with(change);
        event["hash_chain"]["self"].as_str().unwrap().clone_into(&mut self.prev);
        self.seq += 1;
        event
    }

    /// What [`Self::next_with`] would give, with the chain left where it is.
    pub fn peek_with(&self, change: impl FnOnce(&mut Value)) -> Value {
        let now = Clock::system().now();
        let mut event = json!({
            "schema_version": "v1",
            "event_id": self.rng.uuid_v7(now).to_string(),
            "event_type": "memory.stored",
            "lane": "memory",
            "ts_edge_ms": now.timestamp_millis(),
            "consent_level": "full",
            "redacted": false,
            "chain_epoch": self.epoch,
            "seq": self.seq,
            "scope": {
                "user_id": self.machine.user_cuid,
                "machine_id": self.machine.uuid,
                "agent_id": self.agent_id,
            },
            "hash_chain": { "prev": self.prev },
            "payload": { "memory_id": "m1", "content": "what was learned" },
        });
        change(&mut event);
        seal(&mut event);
        event
    }

    /// Begins the next epoch.
    pub fn begin_epoch(&mut self) {
        self.epoch += 1;
        self.seq = 0;
        self.prev = "GENESIS".into();
    }
}

/// Writes the seal that the event as it stands has.
pub fn seal(event: &mut Value) {
    event["hash_chain"].as_object_mut().unwrap().remove("self");
    let members = canonical::parse_object(event.to_string().as_bytes(), usize::MAX).unwrap();
    event["hash_chain"]["self"] = json!(Digest::of(&canonical::canonical_bytes(&members)));
}
