//! The head of a chain, kept on disk, with what is being sent.
//!
//! What is about to be sent is on disk before it is sent, to the byte. So whatever dies, and whenever: the next program finds it, sends the
//! same bytes again, and the server, which counts an event once, gives the same receipt. `chain-<agent_id>.json` in the profile's folder has
//! it, and is locked as long as a [`Chain`] lives: two programs never put two events on one place.
//!
//! Of an input of several events the digest of those that are done is kept, and how many they are. So the same command goes on behind them,
//! also when what follows them was changed meanwhile.

use std::fs::File;

use domain::chain::{Position, Prev};
use domain::envelope::{EncodedEvent, seal};
use domain::ids::{EventId, MachineUuid};
use domain::{Digest, canonical};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::draft::{Draft, LINE_BYTES_MAX, Line};
use crate::cli::profile::{Folder, Machine};
use crate::cli::{Failure, terminal};

/// Members that say where in a chain an event is.
const OF_CHAIN: [&str; 3] = ["chain_epoch", "seq", "hash_chain"];

/// Inputs that are remembered half-done; the oldest goes.
const UNFINISHED_MAX: usize = 50;

/// The chain of an agent on this computer, locked.
#[derive(Debug)]
pub struct Chain {
    folder: Folder,
    name: String,
    kept: ChainFile,
    _lock: File,
}

/// The file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct ChainFile {
    machine_uuid: MachineUuid,
    /// Where the next event goes; while one is pending, where that goes.
    next: Position,
    pending: Option<Pending>,
    unfinished: Vec<PartialInput>,
}

/// An event that was sealed, and of which the server has not said what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// Its id.
    pub event_id: EventId,
    /// Its type, for a person.
    pub event_type: String,
    /// Where it was read.
    pub place: InputPosition,
    /// Members that nobody said: what held when it was made is in them.
    #[serde(default)]
    filled: Vec<String>,
    /// The hash of what is sealed.
    seal: Digest,
    /// Its bytes, as they are sent.
    pub sealed: String,
}

/// Where an event was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputPosition {
    /// The input up to this event, if it is known whole.
    pub source: Option<Digest>,
    /// The input up to the event before.
    #[serde(default)]
    pub before: Option<Digest>,
    /// The line, from 1.
    pub line: u64,
    /// How many of the input's events are done when this one is.
    pub done: usize,
}

/// An event but for its place in a chain.
#[derive(Debug, Clone, PartialEq)]
pub struct Completed {
    /// Its id.
    pub event_id: EventId,
    /// Its envelope without the chain's members.
    pub members: Map<String, Value>,
    /// Those of them that nobody said.
    pub filled: Vec<String>,
}

/// The first events of an input, all of which are done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct PartialInput {
    source: Digest,
    done: usize,
}

impl InputPosition {
    /// Of an event that stands alone, or in an input of which the end is not known.
    pub fn alone(line: u64) -> Self {
        Self { source: None, before: None, line, done: 0 }
    }
}

/// Of every event of an input the digest of the input up to it.
pub fn beginnings(lines: &[Line]) -> Result<Vec<Digest>, Failure> {
    let mut text = Vec::new();
    let mut next = |draft: &Draft| {
        serde_json::to_writer(&mut text, draft).map_err(Failure::refused)?;
        let digest = Digest::of(&text);
        text = digest.to_string().into_bytes();
        Ok(digest)
    };
    lines.iter().map(|line| next(&line.draft)).collect()
}

impl Chain {
    /// Opens the chain; waits for another program that has it open.
    pub fn open(folder: &Folder, machine: &Machine, agent_id: &str) -> Result<Self, Failure> {
        let waiting = terminal::spinner("waiting for another program that sends on this chain");
        let lock = folder.lock(&format!("chain-{agent_id}"));
        waiting.finish_and_clear();
        let (lock, name) = (lock?, format!("chain-{agent_id}.json"));
        let beginning = || ChainFile {
            machine_uuid: machine.machine_uuid,
            next: Position::genesis(0),
            pending: None,
            unfinished: Vec::new(),
        };
        let mut kept = folder.json::<ChainFile>(&name)?.unwrap_or_else(beginning);
        if kept.machine_uuid != machine.machine_uuid {
            // Registered again as another computer: it has chains of its own, and goes on with what was to be sent.
            kept = ChainFile { pending: kept.pending.take(), unfinished: kept.unfinished, ..beginning() };
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

    /// How many events of an input are done: of all that is remembered, what reaches farthest into it.
    pub fn done(&self, beginnings: &[Digest]) -> usize {
        let begins = |place: &&PartialInput| is_at(beginnings, place.done, place.source);
        self.kept.unfinished.iter().filter(begins).map(|place| place.done).max().unwrap_or(0)
    }

    /// Whether what is pending is of this input, and how many of its events are done with it.
    pub fn pending_of(&self, beginnings: &[Digest]) -> Option<usize> {
        let place = self.pending()?.place;
        is_at(beginnings, place.done, place.source?).then_some(place.done)
    }

    /// An input is done completely: sent once more, it is meant.
    pub fn forget(&mut self, beginnings: &[Digest]) {
        self.kept.unfinished.retain(|place| !is_at(beginnings, place.done, place.source));
    }

    /// Seals an event for the next place, and keeps it until it is answered.
    pub fn put(&mut self, event: Completed, place: InputPosition) -> Result<(), Failure> {
        let Completed { event_id, members, filled } = event;
        let event_type = members.get("event_type").and_then(Value::as_str).unwrap_or_default().to_owned();
        let (seal, sealed) = sealed(members, self.kept.next)?;
        small_enough(&sealed).map_err(|fault| Failure::refused(format!("event {event_id}: {fault}")))?;
        self.kept.pending = Some(Pending { event_id, event_type, place, filled, seal, sealed });
        self.keep()
    }

    /// The server has a receipt for what is pending: the head moves. `own`: it is of the input that is worked on. It is on disk with the next event, or when [`Self::keep`] is asked;
    /// before that a resend gets the same receipt.
    pub fn taken(&mut self, own: bool) {
        if let Some(pending) = self.kept.pending.take() {
            self.kept.next =
                Position { seq: self.kept.next.seq + 1, prev: Prev::Event(pending.seal), ..self.kept.next };
            self.count(&pending.place, own);
        }
    }

    /// What is pending is settled without being in the chain: the head stays.
    pub fn set_aside(&mut self, own: bool) {
        if let Some(pending) = self.kept.pending.take() {
            self.count(&pending.place, own);
        }
    }

    /// What is pending cannot be sent at all, and is not counted as done; that is on disk at once, or it would be in the way for ever.
    pub fn give_up(&mut self) -> Result<(), Failure> {
        self.kept.pending = None;
        self.keep()
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

    fn count(&mut self, place: &InputPosition, own: bool) {
        let Some(source) = place.source else { return };
        // An input that was changed behind the event before goes on there: of another one's event it is not known whether it was.
        let passed = place.before.filter(|_| own);
        self.kept.unfinished.retain(|known| known.source != source && Some(known.source) != passed);
        self.kept.unfinished.push(PartialInput { source, done: place.done });
        let surplus = self.kept.unfinished.len().saturating_sub(UNFINISHED_MAX);
        self.kept.unfinished.drain(..surplus);
    }
}

fn is_at(beginnings: &[Digest], done: usize, source: Digest) -> bool {
    done.checked_sub(1).and_then(|nth| beginnings.get(nth)) == Some(&source)
}

/// Whether the server reads an event, wherever in a chain it is put.
pub fn fits(event: &Completed) -> Result<(), String> {
    /// The largest number that an envelope may have.
    const FARTHEST: u64 = (1 << 53) - 1;
    let position = Position { chain_epoch: FARTHEST, seq: FARTHEST, prev: Prev::Event(Digest::of(b"")) };
    let sealed = sealed(event.members.clone(), position);
    sealed.map_err(|_| "cannot be sealed".to_owned()).and_then(|(_, sealed)| small_enough(&sealed))
}

fn small_enough(sealed: &str) -> Result<(), String> {
    if sealed.len() <= LINE_BYTES_MAX {
        return Ok(());
    }
    Err(format!("sealed it has {} bytes, more than the {LINE_BYTES_MAX} that a server reads", sealed.len()))
}

impl Pending {
    /// Whether it is this event, whatever its place in a chain, and whatever held when one of them was made.
    pub fn is(&self, event: &Completed) -> bool {
        self.says(&event.members, &event.filled)
    }

    /// Whether these members, of which nobody said those that are `filled`, are those of this event.
    pub fn says(&self, members: &Map<String, Value>, filled: &[String]) -> bool {
        let is_aside =
            |name: &String| OF_CHAIN.contains(&name.as_str()) || self.filled.contains(name) || filled.contains(name);
        // A number has one form only in canonical bytes.
        let said = |members: &Map<String, Value>| {
            let said = members.iter().filter(|(name, _)| !is_aside(name));
            canonical::canonical_bytes(&said.map(|(name, value)| (name.clone(), value.clone())).collect())
        };
        canonical::parse_object(self.sealed.as_bytes(), usize::MAX).is_ok_and(|own| said(&own) == said(members))
    }

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

/// The seal of an event at a place, and its bytes as text.
fn sealed(members: Map<String, Value>, position: Position) -> Result<(Digest, String), Failure> {
    let EncodedEvent { body, seal } = seal(members, &position);
    String::from_utf8(body).map(|text| (seal, text)).map_err(Failure::refused)
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
