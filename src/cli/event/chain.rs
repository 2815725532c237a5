//! The head of a chain, kept on disk, with what is being sent.
//!
//! What is about to be sent is on disk before it is sent, to the byte. So whatever dies, and whenever: the next program finds it, sends the
//! same bytes again, and the server, which counts an event once, gives the same receipt. `chain-<agent_id>.json` in the profile's folder has
//! it, and is locked as long as a [`Chain`] lives: two programs never put two events on one place.
//!
//! An input of several events is known by its digest, with how many of its events are done, so that the same command goes on in it.

use std::fs::File;

use domain::chain::{Position, Prev};
use domain::ids::{EventId, MachineUuid};
use domain::{Digest, canonical};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::cli::profile::{Folder, Machine};
use crate::cli::{Failure, terminal};

/// Inputs that are remembered half-done; the oldest goes.
const UNFINISHED_MAX: usize = 50;

/// The chain of an agent on this computer, locked.
#[derive(Debug)]
pub struct Chain {
    folder: Folder,
    name: String,
    kept: Kept,
    _lock: File,
}

/// The file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Kept {
    machine_uuid: MachineUuid,
    /// Where the next event goes; while one is pending, where that goes.
    next: Position,
    pending: Option<Pending>,
    unfinished: Vec<Unfinished>,
}

/// An event that was sealed, and of which the server has not said what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// Its id.
    pub event_id: EventId,
    /// Its type, for a person.
    pub event_type: String,
    /// Where it was read.
    pub place: Place,
    /// The hash of what is sealed.
    seal: Digest,
    /// Its bytes, as they are sent.
    pub sealed: String,
}

/// Where an event was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The input, if it is known whole.
    pub source: Option<Digest>,
    /// The line, from 1.
    pub line: u64,
    /// How many of the input's events are done when this one is.
    pub done: usize,
    /// How many it has.
    pub total: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Unfinished {
    source: Digest,
    done: usize,
}

impl Chain {
    /// Opens the chain; waits for another program that has it open.
    pub fn open(folder: &Folder, machine: &Machine, agent_id: &str) -> Result<Self, Failure> {
        let waiting = terminal::spinner("waiting for another program that sends on this chain");
        let lock = folder.lock(&format!("chain-{agent_id}"));
        waiting.finish_and_clear();
        let (lock, name) = (lock?, format!("chain-{agent_id}.json"));
        let beginning = || Kept {
            machine_uuid: machine.machine_uuid,
            next: Position::genesis(0),
            pending: None,
            unfinished: Vec::new(),
        };
        let mut kept = folder.json::<Kept>(&name)?.unwrap_or_else(beginning);
        if kept.machine_uuid != machine.machine_uuid {
            // Registered again as another computer: it has chains of its own, and goes on with what was to be sent.
            kept = Kept { pending: kept.pending.take(), unfinished: kept.unfinished, ..beginning() };
            if let Some(pending) = &mut kept.pending {
                pending.seal_again(kept.next, Some(machine))?;
            }
        }
        Ok(Self { folder: folder.clone(), name, kept, _lock: lock })
    }

    /// Where the file is, for a person.
    pub fn path(&self) -> String {
        self.folder.path().join(&self.name).display().to_string()
    }

    /// What was begun and not answered.
    pub fn pending(&self) -> Option<&Pending> {
        self.kept.pending.as_ref()
    }

    /// How many events of an input are done.
    pub fn done(&self, source: &Digest) -> usize {
        let unfinished = self.kept.unfinished.iter().find(|unfinished| unfinished.source == *source);
        unfinished.map_or(0, |unfinished| unfinished.done)
    }

    /// Seals an event for the next place, and keeps it until it is answered. `members` are its envelope without the chain's.
    pub fn put(&mut self, members: Map<String, Value>, event_id: EventId, place: Place) -> Result<(), Failure> {
        let event_type = members.get("event_type").and_then(Value::as_str).unwrap_or_default().to_owned();
        let (seal, sealed) = sealed(members, self.kept.next)?;
        self.kept.pending = Some(Pending { event_id, event_type, place, seal, sealed });
        self.keep()
    }

    /// The server has a receipt for what is pending: the head moves. It is on disk with the next event, or when [`Self::keep`] is asked;
    /// before that a resend gets the same receipt.
    pub fn taken(&mut self) {
        if let Some(pending) = self.kept.pending.take() {
            self.kept.next =
                Position { seq: self.kept.next.seq + 1, prev: Prev::Event(pending.seal), ..self.kept.next };
            self.count(&pending.place);
        }
    }

    /// What is pending is settled without being in the chain: the head stays.
    pub fn set_aside(&mut self) {
        if let Some(pending) = self.kept.pending.take() {
            self.count(&pending.place);
        }
    }

    /// What is pending cannot be sent at all, and is not counted as done.
    pub fn give_up(&mut self) {
        self.kept.pending = None;
    }

    /// The server expects another place than the one that is kept: what is pending is sealed anew for that one, and kept.
    pub fn move_to(&mut self, expected: Position) -> Result<(), Failure> {
        self.kept.next = expected;
        if let Some(pending) = &mut self.kept.pending {
            pending.seal_again(expected, None)?;
        }
        self.keep()
    }

    /// Where the next event goes.
    pub fn next(&self) -> Position {
        self.kept.next
    }

    /// Brings everything to disk.
    pub fn keep(&self) -> Result<(), Failure> {
        self.folder.keep_json(&self.name, &self.kept)
    }

    fn count(&mut self, place: &Place) {
        let Some(source) = place.source else { return };
        self.kept.unfinished.retain(|unfinished| unfinished.source != source);
        if place.done < place.total {
            self.kept.unfinished.push(Unfinished { source, done: place.done });
        }
        let surplus = self.kept.unfinished.len().saturating_sub(UNFINISHED_MAX);
        self.kept.unfinished.drain(..surplus);
    }
}

impl Pending {
    fn seal_again(&mut self, position: Position, machine: Option<&Machine>) -> Result<(), Failure> {
        let mut members = canonical::parse_object(self.sealed.as_bytes(), usize::MAX).map_err(Failure::refused)?;
        if let (Some(machine), Some(scope)) = (machine, members.get_mut("scope").and_then(Value::as_object_mut)) {
            scope.insert("user_id".into(), json!(machine.user_cuid));
            scope.insert("machine_id".into(), json!(machine.machine_uuid));
        }
        (self.seal, self.sealed) = sealed(members, position)?;
        Ok(())
    }
}

/// The seal of an event at a place, and its bytes.
fn sealed(mut members: Map<String, Value>, position: Position) -> Result<(Digest, String), Failure> {
    members.insert("chain_epoch".into(), json!(position.chain_epoch));
    members.insert("seq".into(), json!(position.seq));
    members.insert("hash_chain".into(), json!({ "prev": position.prev }));
    let seal = Digest::of(&canonical::canonical_bytes(&members));
    members.insert("hash_chain".into(), json!({ "prev": position.prev, "self": seal }));
    let bytes = canonical::canonical_bytes(&members);
    String::from_utf8(bytes).map(|text| (seal, text)).map_err(Failure::refused)
}

#[cfg(test)]
mod tests {
    use domain::envelope::{AgentKinds, Sealed};

    use super::*;

    #[test]
    fn what_is_sealed_opens_as_what_it_says_it_is() {
        let vectors: Value = serde_json::from_slice(include_bytes!("../../../tests/vectors/chain.json")).unwrap();
        for link in vectors["chain"].as_array().unwrap() {
            let event = link["event"].as_object().unwrap().clone();
            let position = Sealed::open(link["event"].to_string().as_bytes(), usize::MAX, &AgentKinds::new([]));
            let position = position.unwrap().envelope.position();
            let (seal, text) = sealed(event, position).unwrap();
            assert_eq!(seal.to_string(), link["self"].as_str().unwrap());
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), link["event"]);
        }
    }
}
