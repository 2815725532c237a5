//! The state of a chain on disk: its head, and the event that is being sent.
//!
//! Each event is written to disk before it is sent. After a crash at any point the next run sends the same bytes again, and the server,
//! which records an event once, returns the same receipt. The file is `chain-<agent_id>.json` in the profile's folder. It is locked while a
//! [`LocalChain`] exists, so that two processes never send two events for the same position.
//!
//! For an input of several events the file contains a digest of the completed events and their number. The same command resumes after them,
//! even if later lines were changed.

use std::fs::File;

use domain::chain::{Position, Prev};
use domain::envelope::{EncodedEvent, seal};
use domain::ids::{EventId, MachineUuid};
use domain::{Digest, canonical};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::draft::{EventDraft, LINE_BYTES_MAX, Line};
use crate::failure::Failure;
use crate::profile_folder::{Machine, ProfileFolder};
use crate::terminal;

/// Members of an envelope that contain its position in the chain.
const OF_CHAIN: [&str; 3] = ["chain_epoch", "seq", "hash_chain"];

/// Maximum number of incomplete inputs in the file; the oldest is removed.
const UNFINISHED_MAX: usize = 50;

/// The locked chain of one agent kind on this computer.
#[derive(Debug)]
pub struct LocalChain {
    folder: ProfileFolder,
    name: String,
    kept: ChainFile,
    _lock: File,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct ChainFile {
    machine_uuid: MachineUuid,
    /// Position of the pending event, or of the next one.
    next: Position,
    pending: Option<PendingEvent>,
    unfinished: Vec<PartialInput>,
}

/// A sealed event without a response of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingEvent {
    /// Id of the event.
    pub event_id: EventId,
    /// Type of the event, for messages.
    pub event_type: String,
    /// Position in the input.
    pub place: InputPosition,
    /// Members that were filled with defaults when the event was created.
    #[serde(default)]
    filled: Vec<String>,
    /// Hash of the canonical bytes.
    seal: Digest,
    /// The request body.
    pub sealed: String,
}

/// Position of an event in its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputPosition {
    /// Digest of the input up to this event; `None` if the input's length is unknown.
    pub source: Option<Digest>,
    /// Digest of the input up to the event before.
    #[serde(default)]
    pub before: Option<Digest>,
    /// Line number, from 1.
    pub line: u64,
    /// Number of completed events of the input, including this one.
    pub done: usize,
}

/// An event without its position in a chain.
#[derive(Debug, Clone, PartialEq)]
pub struct Completed {
    /// Id of the event.
    pub event_id: EventId,
    /// Envelope without the members of the chain.
    pub members: Map<String, Value>,
    /// Names of the members that were filled with defaults.
    pub filled: Vec<String>,
}

/// The completed first events of an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct PartialInput {
    source: Digest,
    done: usize,
}

impl InputPosition {
    /// A single event, or a line of an input of unknown length.
    pub fn alone(line: u64) -> Self {
        Self { source: None, before: None, line, done: 0 }
    }
}

/// For each event of an input, the digest of the input up to it.
pub fn beginnings(lines: &[Line]) -> Result<Vec<Digest>, Failure> {
    let mut text = Vec::new();
    let mut next = |draft: &EventDraft| {
        serde_json::to_writer(&mut text, draft).map_err(Failure::caused)?;
        let digest = Digest::of(&text);
        text = digest.to_string().into_bytes();
        Ok(digest)
    };
    lines.iter().map(|line| next(&line.draft)).collect()
}

/// Id and type of the event on a chain that has no response yet. Does not wait for a process that sends on the chain.
pub fn pending_event(folder: &ProfileFolder, agent_id: &str) -> Result<Option<(EventId, String)>, Failure> {
    let chain: Option<ChainFile> = folder.json(&format!("chain-{agent_id}.json"))?;
    Ok(chain.and_then(|chain| chain.pending).map(|pending| (pending.event_id, pending.event_type)))
}

impl LocalChain {
    /// Opens and locks the chain; waits while another process holds the lock.
    pub fn open(folder: &ProfileFolder, machine: &Machine, agent_id: &str) -> Result<Self, Failure> {
        let waiting = terminal::spinner("waiting for another process that sends on this chain");
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
            // The computer was registered again under a new id: its chain restarts at the first position, with the pending event sealed
            // again.
            kept = ChainFile { pending: kept.pending.take(), unfinished: kept.unfinished, ..beginning() };
            if let Some(pending) = &mut kept.pending {
                pending.seal_again(kept.next, Some(machine))?;
            }
        }
        Ok(Self { folder: folder.clone(), name, kept, _lock: lock })
    }

    /// Path of the file, for messages.
    pub fn path(&self) -> String {
        self.folder.path().join(&self.name).display().to_string()
    }

    /// The event without a response, if there is one.
    pub fn pending(&self) -> Option<&PendingEvent> {
        self.kept.pending.as_ref()
    }

    /// Number of completed events of an input: the maximum of the stored entries that match its prefixes.
    pub fn done(&self, beginnings: &[Digest]) -> usize {
        let begins = |place: &&PartialInput| is_at(beginnings, place.done, place.source);
        self.kept.unfinished.iter().filter(begins).map(|place| place.done).max().unwrap_or(0)
    }

    /// If the pending event belongs to this input: the number of completed events including it.
    pub fn pending_of(&self, beginnings: &[Digest]) -> Option<usize> {
        let place = self.pending()?.place;
        is_at(beginnings, place.done, place.source?).then_some(place.done)
    }

    /// Removes a completed input, so that sending it again sends new events.
    pub fn forget(&mut self, beginnings: &[Digest]) {
        self.kept.unfinished.retain(|place| !is_at(beginnings, place.done, place.source));
    }

    /// Seals an event for the next position and stores it until the server has responded.
    pub fn put(&mut self, event: Completed, place: InputPosition) -> Result<(), Failure> {
        let Completed { event_id, members, filled } = event;
        let event_type = members.get("event_type").and_then(Value::as_str).unwrap_or_default().to_owned();
        let (seal, sealed) = sealed(members, self.kept.next)?;
        small_enough(&sealed).map_err(|fault| Failure::refused(format!("event {event_id}: {fault}")))?;
        self.kept.pending = Some(PendingEvent { event_id, event_type, place, filled, seal, sealed });
        self.keep()
    }

    /// Advances the head after a receipt for the pending event. `own`: whether it belongs to the current input.
    ///
    /// The change is written with the next event or by [`Self::keep`]; after a crash before that, a resend returns the same receipt.
    pub fn taken(&mut self, own: bool) {
        if let Some(pending) = self.kept.pending.take() {
            self.kept.next =
                Position { seq: self.kept.next.seq + 1, prev: Prev::Event(pending.seal), ..self.kept.next };
            self.count(&pending.place, own);
        }
    }

    /// Removes the pending event, which is settled without being part of the chain; the head does not change.
    pub fn set_aside(&mut self, own: bool) {
        if let Some(pending) = self.kept.pending.take() {
            self.count(&pending.place, own);
        }
    }

    /// Drops the pending event without counting it as completed, and writes the file immediately: otherwise the event would block the
    /// chain.
    pub fn give_up(&mut self) -> Result<(), Failure> {
        self.kept.pending = None;
        self.keep()
    }

    /// Moves the head to the position that the server expects, and seals the pending event again for it.
    pub fn move_to(&mut self, expected: Position) -> Result<(), Failure> {
        self.kept.next = expected;
        if let Some(pending) = &mut self.kept.pending {
            pending.seal_again(expected, None)?;
        }
        self.keep()
    }

    /// Position of the next event.
    pub fn next(&self) -> Position {
        self.kept.next
    }

    /// Writes the file.
    pub fn keep(&self) -> Result<(), Failure> {
        self.folder.write_json(&self.name, &self.kept)
    }

    fn count(&mut self, place: &InputPosition, own: bool) {
        let Some(source) = place.source else { return };
        // An input that was changed after `before` replaces the entry of its unchanged part. For an event of another input this is unknown.
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

/// Checks that an event is small enough at any position of a chain.
pub fn fits(event: &Completed) -> Result<(), String> {
    /// Largest number in an envelope.
    const FARTHEST: u64 = (1 << 53) - 1;
    let position = Position { chain_epoch: FARTHEST, seq: FARTHEST, prev: Prev::Event(Digest::of(b"")) };
    let sealed = sealed(event.members.clone(), position);
    sealed.map_err(|_| "cannot be sealed".to_owned()).and_then(|(_, sealed)| small_enough(&sealed))
}

fn small_enough(sealed: &str) -> Result<(), String> {
    if sealed.len() <= LINE_BYTES_MAX {
        return Ok(());
    }
    Err(format!("the sealed event has {} bytes; the maximum is {LINE_BYTES_MAX}", sealed.len()))
}

impl PendingEvent {
    /// Whether this is the same event, regardless of its position and of members filled with defaults.
    pub fn is(&self, event: &Completed) -> bool {
        self.says(&event.members, &event.filled)
    }

    /// Whether `members` equal those of this event, except position and members in `filled`.
    pub fn says(&self, members: &Map<String, Value>, filled: &[String]) -> bool {
        let is_aside =
            |name: &String| OF_CHAIN.contains(&name.as_str()) || self.filled.contains(name) || filled.contains(name);
        // Numbers have a unique form only in canonical bytes.
        let said = |members: &Map<String, Value>| {
            let said = members.iter().filter(|(name, _)| !is_aside(name));
            canonical::canonical_bytes(&said.map(|(name, value)| (name.clone(), value.clone())).collect())
        };
        canonical::parse_object(self.sealed.as_bytes(), usize::MAX).is_ok_and(|own| said(&own) == said(members))
    }

    fn seal_again(&mut self, position: Position, machine: Option<&Machine>) -> Result<(), Failure> {
        let mut members = canonical::parse_object(self.sealed.as_bytes(), usize::MAX).map_err(Failure::caused)?;
        if let (Some(machine), Some(scope)) = (machine, members.get_mut("scope").and_then(Value::as_object_mut)) {
            scope.insert("user_id".into(), json!(machine.user_cuid));
            scope.insert("machine_id".into(), json!(machine.machine_uuid));
        }
        (self.seal, self.sealed) = sealed(members, position)?;
        Ok(())
    }
}

/// Seal and body of an event at a position.
fn sealed(members: Map<String, Value>, position: Position) -> Result<(Digest, String), Failure> {
    let EncodedEvent { body, seal } = seal(members, &position);
    String::from_utf8(body).map(|text| (seal, text)).map_err(Failure::caused)
}

#[cfg(test)]
mod tests {
    use domain::envelope::{AgentKinds, Sealed};

    use super::*;

    #[test]
    fn a_sealed_event_parses_to_the_same_members() {
        let vectors: Value = serde_json::from_slice(include_bytes!("../../../../tests/vectors/chain.json")).unwrap();
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
