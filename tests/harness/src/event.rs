//! Hash-chained events of an honest sender, and forged ones.

#![expect(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a helper that cannot continue fails its test")]

use domain::{Clock, Digest, Rng, canonical};
use serde_json::{Value, json};

/// A registered computer.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The identity that it belongs to, `user_cuid`.
    pub user_cuid: String,
    /// `machine_uuid`.
    pub uuid: String,
    /// Its credential.
    pub secret: String,
}

/// A chain and its head: where the next event is appended.
#[derive(Debug, Clone)]
pub struct Chain {
    /// The computer of the chain.
    pub machine: Machine,
    /// The kind of agent, such as `codex`.
    pub agent_id: String,
    /// `chain_epoch` of the next event.
    pub epoch: u64,
    /// `seq` of the next event.
    pub seq: u64,
    /// `hash_chain.prev` of the next event: the seal of the last one, or `GENESIS`.
    pub prev: String,
    rng: Rng,
}

impl Chain {
    /// An empty chain of the kind `svc-cli`.
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

    /// An empty chain of another kind of agent.
    pub fn of_agent(machine: &Machine, agent_id: &str) -> Self {
        Self { agent_id: agent_id.into(), ..Self::new(machine) }
    }

    /// The next event; the head moves as if it were accepted.
    #[expect(clippy::should_implement_trait, reason = "a chain has no last event")]
    pub fn next(&mut self) -> Value {
        self.next_with(|_| {})
    }

    /// [`Self::next`], changed before it is sealed.
    pub fn next_with(&mut self, change: impl FnOnce(&mut Value)) -> Value {
        let event = self.peek_with(change);
        event["hash_chain"]["self"].as_str().unwrap().clone_into(&mut self.prev);
        self.seq += 1;
        event
    }

    /// The event that [`Self::next_with`] would return; the head stays.
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
            "payload": { "memory_id": "m1", "content": "a fact" },
        });
        change(&mut event);
        seal(&mut event);
        event
    }

    /// The same chain at the start of another epoch.
    #[must_use]
    pub fn at_epoch(&self, epoch: u64) -> Self {
        Self { epoch, seq: 0, prev: "GENESIS".into(), ..self.clone() }
    }

    /// Starts the next epoch; its first event follows `GENESIS`.
    pub fn begin_epoch(&mut self) {
        *self = self.at_epoch(self.epoch + 1);
    }
}

/// Sets `hash_chain.self` to the hash of the rest of the event.
pub fn seal(event: &mut Value) {
    event["hash_chain"].as_object_mut().unwrap().remove("self");
    let members = canonical::parse_object(event.to_string().as_bytes(), usize::MAX).unwrap();
    event["hash_chain"]["self"] = json!(Digest::of(&canonical::canonical_bytes(&members)));
}
