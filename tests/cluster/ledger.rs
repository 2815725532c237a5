//! All sent and acknowledged events, recorded outside of the servers.

use std::collections::{BTreeMap, BTreeSet};

use harness::event::Machine;
use serde_json::Value;

/// An event that was sent.
#[derive(Debug, Clone)]
pub struct Sent {
    pub machine: usize,
    pub agent_id: String,
    pub seq: u64,
    pub prev: String,
    /// `hash_chain.self`.
    pub seal: String,
    /// The receipt id of its 202.
    pub receipt: Option<String>,
}

/// All events by id. A contradiction between two acknowledgements fails the test immediately.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    pub machines: Vec<Machine>,
    pub events: BTreeMap<String, Sent>,
    /// Ids of events that were acknowledged as held.
    pub held: BTreeSet<String>,
}

impl Ledger {
    /// Records an event before it is sent for the first time.
    pub fn sends(&mut self, machine: usize, event: &Value) {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let sent = Sent {
            machine,
            agent_id: text(&event["scope"]["agent_id"]),
            seq: event["seq"].as_u64().unwrap(),
            prev: text(&event["hash_chain"]["prev"]),
            seal: text(&event["hash_chain"]["self"]),
            receipt: None,
        };
        assert!(self.events.insert(text(&event["event_id"]), sent).is_none(), "an event id is not new");
    }

    /// Records an acknowledgement; each one of the same event has the same receipt.
    pub fn acknowledged(&mut self, id: &str, receipt: &str) {
        let first = self.events.get_mut(id).unwrap().receipt.get_or_insert_with(|| receipt.to_owned());
        assert_eq!(first, receipt, "{id} was acknowledged twice, with two receipts");
    }
}
