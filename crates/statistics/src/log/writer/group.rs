//! One group of events: one transaction.

use std::sync::Arc;

use domain::Digest;
use domain::chain::{Head, Position, Prev};
use domain::ids::{EventId, ReceiptId};
use rusqlite::{Connection, OptionalExtension as _, params};
use uuid::Uuid;

use super::chains::{ChainHead, Chains};
use super::ids::Ids;
use super::open::Open;
use super::progress::reached;
use super::transaction::begin;
use super::unplaced::{Counted, Unplaced, UnplacedEvents};
use crate::log::error::{DuringSqlite as _, LogError};
use crate::log::job::{Append, AppendOutcome};
use crate::log::recent::{Recorded, UnindexedEvents};
use crate::log::sql::whole;

const ADD: &str =
    "INSERT INTO events (event_id, receipt_id, source_id, event_type, ts_edge_ms, consent_level, redacted,
        chain_epoch, seq, self, prev_event_id, received_at_ms, leaf_hash, canonical)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
const KNOWN: &str = "SELECT receipt_id, self FROM events WHERE id = ?1 AND event_id = ?2";
/// The value changes when another connection has committed.
const VERSION: &str = "PRAGMA data_version";
/// Events after a number, with the columns that the writer keeps in memory.
const NEWER: &str = "SELECT e.id, e.event_id, s.machine_id, s.agent_id, s.user_cuid, s.lane, e.source_id, e.event_type,
        e.chain_epoch, e.seq, e.self, e.received_at_ms, e.leaf_hash
    FROM events e JOIN sources s ON s.id = e.source_id WHERE e.id > ?1 ORDER BY e.id";

/// The result of one event of a committed group.
pub type Outcome = Result<AppendOutcome, Arc<LogError>>;

/// The outcome of a committed group.
pub struct Committed {
    /// One outcome for each event, in order.
    pub outcomes: Vec<Outcome>,
    /// Whether the group contained a new event. Otherwise it wrote nothing, and its success does not show that the file accepts writes.
    pub has_written: bool,
}

impl Open {
    /// Appends a group. After an error no event of the group is committed, and the memory may be ahead of the log, so the caller drops it.
    pub fn append(&mut self, group: &[Append]) -> Result<Committed, LogError> {
        domain::failpoint!("append.before");
        let transaction = begin(&mut self.db)?;
        let Self { chains, tail, recent, ids, .. } = self;
        let mut view = View { db: &transaction, chains, tail, recent, ids };
        view.fold(&mut self.applied, &mut self.indexed, &mut self.version)?;
        let previous = self.applied;
        let mut outcomes = Vec::with_capacity(group.len());
        for event in group {
            outcomes.push(match view.take(event) {
                Ok(taken) => {
                    self.applied = taken.id.unwrap_or(self.applied);
                    Ok(taken.outcome)
                }
                Err(error) if !error.is_unavailable() => Err(Arc::new(error)),
                Err(error) => return Err(error),
            });
        }
        // Without new events the commit writes nothing.
        transaction.commit().during("commit events")?;
        self.chains.shrink(self.indexed);
        domain::failpoint!("append.after");
        Ok(Committed { outcomes, has_written: self.applied > previous })
    }

    /// Reads the events that other processes appended, and the progress of their indexing.
    pub fn fold(&mut self) -> Result<(), LogError> {
        const ASK: &str = "look at the log";
        let snapshot = self.db.transaction().during(ASK)?;
        let Self { chains, tail, recent, ids, .. } = self;
        let mut view = View { db: &snapshot, chains, tail, recent, ids };
        view.fold(&mut self.applied, &mut self.indexed, &mut self.version)?;
        snapshot.commit().during(ASK)
    }
}

/// The log within a transaction.
struct View<'o> {
    db: &'o Connection,
    chains: &'o mut Chains,
    tail: &'o mut UnplacedEvents,
    recent: &'o UnindexedEvents,
    ids: &'o mut Ids,
}

struct Taken {
    outcome: AppendOutcome,
    /// Number of the row, if the event is new.
    id: Option<i64>,
}

impl View<'_> {
    /// Judges one event, and adds it if its id is new and it continues its chain.
    fn take(&mut self, append: &Append) -> Result<Taken, LogError> {
        const ASK: &str = "add an event";
        let event = append.submission();
        let number = self.chains.of(self.db, event.machine, &event.agent_id)?;
        if let Some(known) = self.known(event.event_id, event.seal)? {
            return Ok(Taken { outcome: known, id: None });
        }
        let chain = self.chains.get(number).ok_or(LogError::Corrupt("chains in memory"))?;
        let head = chain.head.map(|tip| tip.head);
        if let Err(refusal) = Head::judge(head.as_ref(), &event.position) {
            let outcome = AppendOutcome::Refused { refusal, received: event.position };
            return Ok(Taken { outcome, id: None });
        }
        let previous = chain.head.map(|tip| tip.event_id).filter(|_| event.position.prev != Prev::Genesis);
        let source = chain.source(self.db, append)?;
        let (source_id, recorder) = (source.id, Arc::clone(&source.recorder));
        let leaf = append.leaf_hash();
        let Position { chain_epoch, seq, .. } = event.position;
        let received_at_ms = append.received_at().timestamp_millis();
        self.db
            .prepare_cached(ADD)
            .during(ASK)?
            .execute(params![
                event.event_id.as_uuid().as_bytes(),
                append.receipt().as_uuid().as_bytes(),
                source_id,
                event.event_type,
                event.ts_edge_ms,
                event.consent_level.as_str(),
                event.redacted,
                whole(chain_epoch)?,
                whole(seq)?,
                event.seal.as_bytes(),
                previous.map(|id| id.as_uuid()).as_ref().map(Uuid::as_bytes),
                received_at_ms,
                leaf.as_bytes(),
                &event.canonical[..],
            ])
            .during(ASK)?;
        let id = self.db.last_insert_rowid();
        let recent = Recorded { event_id: event.event_id, source_id, received_at_ms };
        self.recent.push(id, recent);
        let head = Head { chain_epoch, seq, self_hash: event.seal };
        chain.head = Some(ChainHead { head, event_id: event.event_id, id });
        let counted = Counted::of(recorder, event.lane, &event.event_type);
        self.tail.push(id, Unplaced { received_at_ms, leaf, counted });
        Ok(Taken { outcome: AppendOutcome::Receipt(append.receipt()), id: Some(id) })
    }

    /// The outcome of an event that was appended before: its receipt, or a conflict if another event has its id.
    fn known(&self, event_id: EventId, seal: Digest) -> Result<Option<AppendOutcome>, LogError> {
        const ASK: &str = "look for an event";
        let number = match self.recent.number(event_id) {
            Some(number) => Some(number),
            None => self.ids.find(self.db, event_id)?,
        };
        let Some(number) = number else { return Ok(None) };
        let stored: Option<([u8; 16], [u8; 32])> = self
            .db
            .prepare_cached(KNOWN)
            .during(ASK)?
            .query_row((number, event_id.as_uuid().as_bytes()), |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
            .during(ASK)?;
        Ok(stored.map(|(receipt, known)| {
            if Digest::from(known) == seal {
                AppendOutcome::Receipt(ReceiptId::from(Uuid::from_bytes(receipt)))
            } else {
                AppendOutcome::EventIdConflict
            }
        }))
    }

    /// Reads the commits of other connections since `version`: events after `applied`, and indexes beyond `indexed`.
    fn fold(&mut self, applied: &mut i64, indexed: &mut i64, version: &mut i64) -> Result<(), LogError> {
        const ASK: &str = "look for changes of another process";
        let now = self.db.prepare_cached(VERSION).during(ASK)?.query_row([], |row| row.get(0)).during(ASK)?;
        if *version == now {
            return Ok(());
        }
        *applied = self.fold_events(*applied)?;
        let reached = reached(self.db)?;
        if reached != *indexed {
            *indexed = reached;
            self.recent.advance(reached);
        }
        self.ids.reload(self.db)?;
        *version = now;
        Ok(())
    }

    /// Reads the events after `applied` into the memory; returns the number of the newest.
    fn fold_events(&mut self, applied: i64) -> Result<i64, LogError> {
        const ASK: &str = "read events of another process";
        let mut newest = applied;
        let mut statement = self.db.prepare_cached(NEWER).during(ASK)?;
        let mut rows = statement.query([applied]).during(ASK)?;
        while let Some(row) = rows.next().during(ASK)? {
            let read = || -> rusqlite::Result<Newer> {
                Ok(Newer {
                    id: row.get(0)?,
                    event_id: row.get(1)?,
                    machine: row.get(2)?,
                    agent_id: row.get(3)?,
                    identity: row.get(4)?,
                    lane: row.get(5)?,
                    source_id: row.get(6)?,
                    event_type: row.get(7)?,
                    chain_epoch: row.get(8)?,
                    seq: row.get(9)?,
                    self_hash: row.get(10)?,
                    received_at_ms: row.get(11)?,
                    leaf: row.get(12)?,
                })
            };
            let event = read().during(ASK)?;
            newest = event.id;
            self.note(&event)?;
        }
        Ok(newest)
    }

    fn note(&mut self, event: &Newer) -> Result<(), LogError> {
        let number =
            |value: i64| u64::try_from(value).map_err(|_| LogError::Corrupt("events.seq or events.chain_epoch"));
        let machine = Uuid::from_bytes(event.machine).into();
        let chain = self.chains.of(self.db, machine, &event.agent_id)?;
        let head = Head {
            chain_epoch: number(event.chain_epoch)?,
            seq: number(event.seq)?,
            self_hash: Digest::from(event.self_hash),
        };
        let state = self.chains.get(chain).ok_or(LogError::Corrupt("chains in memory"))?;
        state.head = Some(ChainHead { head, event_id: Uuid::from_bytes(event.event_id).into(), id: event.id });
        let counted = Counted::stored(machine, &event.identity, &event.lane, &event.event_type)?;
        let recent = Recorded {
            event_id: Uuid::from_bytes(event.event_id).into(),
            source_id: event.source_id,
            received_at_ms: event.received_at_ms,
        };
        self.recent.push(event.id, recent);
        let unplaced = Unplaced { received_at_ms: event.received_at_ms, leaf: Digest::from(event.leaf), counted };
        self.tail.push(event.id, unplaced);
        Ok(())
    }
}

/// A row of [`NEWER`].
struct Newer {
    id: i64,
    event_id: [u8; 16],
    machine: [u8; 16],
    agent_id: String,
    identity: String,
    lane: String,
    source_id: i64,
    event_type: String,
    chain_epoch: i64,
    seq: i64,
    self_hash: [u8; 32],
    received_at_ms: i64,
    leaf: [u8; 32],
}
