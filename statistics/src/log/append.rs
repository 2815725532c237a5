//! Taking events: one transaction for a whole group.

use std::collections::{BTreeMap, HashMap};

use domain::chain::{ChainKey, ChainRefusal, Head, Position, Prev};
use domain::ids::{EventId, MachineUuid, ReceiptId};
use domain::{Digest, Timestamp};
use http::StatusCode;
use serde_json::json;
use store::{in_transaction, on_reader};
use uuid::Uuid;

use super::sql::{self, Dialect, Rows};
use super::{During, Log, LogError, Source};
use crate::contract::{Outcome, Passed, Submission};
use crate::leaf::{Leaf, VERSION};
use crate::merkle;

/// How often a group is tried again that met another process on the same chains.
const ATTEMPTS_MAX: u32 = 5;

/// One event to be taken.
#[derive(Debug, Clone)]
pub struct Append {
    submission: Submission,
    receipt: ReceiptId,
    received_at: Timestamp,
}

impl Append {
    /// `receipt` is given to the event if it is new.
    pub fn new(submission: Submission, receipt: ReceiptId, received_at: Timestamp) -> Self {
        Self { submission, receipt, received_at }
    }
}

/// What became of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppendOutcome {
    /// Taken now, or earlier.
    Receipt(ReceiptId),
    /// Another event has this id: 409 `event_id_conflict`.
    EventIdConflict,
    /// It does not continue its chain: 409 or 422, with the position that would.
    Refused {
        /// Why.
        refusal: ChainRefusal,
        /// Where it claimed to stand.
        received: Position,
    },
}

impl From<AppendOutcome> for Outcome {
    fn from(outcome: AppendOutcome) -> Self {
        match outcome {
            AppendOutcome::Receipt(receipt) => Self::Receipt(receipt),
            AppendOutcome::EventIdConflict => {
                Self::PassThrough(Passed::json(StatusCode::CONFLICT, &json!({ "error": "event_id_conflict" })))
            }
            AppendOutcome::Refused { refusal, received } => {
                let status = match refusal {
                    ChainRefusal::Conflict { .. } => StatusCode::CONFLICT,
                    ChainRefusal::Broken { .. } => StatusCode::UNPROCESSABLE_ENTITY,
                };
                let body =
                    json!({ "error": refusal.to_string(), "expected": refusal.expected(), "received": received });
                Self::PassThrough(Passed::json(status, &body))
            }
        }
    }
}

/// The head of a chain key while a group is judged.
struct Standing {
    head: Option<(Head, EventId)>,
    /// How often the stored row was written.
    moves: i64,
    moved: bool,
}

/// What was read of the log before the group is judged.
struct Known {
    events: HashMap<EventId, (ReceiptId, Digest)>,
    heads: BTreeMap<(MachineUuid, String), Standing>,
}

/// What is written after.
struct Plan {
    outcomes: Vec<AppendOutcome>,
    events: (String, Vec<u8>),
    heads: (String, Vec<u8>),
    /// Rows of each.
    added: u64,
    moved: u64,
    /// Whether there is anything to write.
    any: bool,
}

impl Log {
    /// Takes a group of events; one outcome per event, in order. Either all that is new is durable when it returns, or nothing is.
    pub async fn append(&self, group: &[Append]) -> Result<Vec<AppendOutcome>, LogError> {
        let appended = self.append_group(group).await;
        self.note(&appended);
        appended
    }

    async fn append_group(&self, group: &[Append]) -> Result<Vec<AppendOutcome>, LogError> {
        let sources = self.sources(group).await?;
        let mut attempts = 1;
        loop {
            match self.try_append(group, &sources).await {
                Err(LogError::Contended) if attempts < ATTEMPTS_MAX => attempts += 1,
                Err(LogError::Sql { source: sqlx::Error::Database(error), .. })
                    if error.is_unique_violation() && attempts < ATTEMPTS_MAX =>
                {
                    // Another process took the same event a moment ago: it is known the next time.
                    attempts += 1;
                }
                done => return done,
            }
        }
    }

    async fn try_append(&self, group: &[Append], sources: &[i64]) -> Result<Vec<AppendOutcome>, LogError> {
        let (known_json, known_bytes) = event_ids(group);
        let (heads_json, heads_bytes) = head_keys(group);
        let plan: Option<Plan> = in_transaction!(
            &self.pool,
            |tx: Db| {
                // The heads first: on PostgreSQL that locks them, so whatever is read after stays true.
                let heads: Vec<sql::FoundHead> = sqlx::query_as(<Db as Dialect>::HEADS)
                    .bind(&heads_json)
                    .bind(&heads_bytes)
                    .fetch_all(&mut *tx)
                    .await?;
                let events: Vec<sql::KnownEvent> = sqlx::query_as(<Db as Dialect>::KNOWN)
                    .bind(&known_json)
                    .bind(&known_bytes)
                    .fetch_all(&mut *tx)
                    .await?;
                let plan = known(heads, events).map(|known| judge(group, sources, known));
                let plan = plan.map_err(|column| sqlx::Error::Decode(column.into()))?;
                if !plan.any {
                    return Ok(Some(plan));
                }
                let (json, bytes) = &plan.events;
                let added = sqlx::query(<Db as Dialect>::EVENTS_ADD).bind(json).bind(bytes).execute(&mut *tx).await?;
                let (json, bytes) = &plan.heads;
                let moved = sqlx::query(<Db as Dialect>::HEADS_MOVE).bind(json).bind(bytes).execute(&mut *tx).await?;
                let whole = added.rows_affected() >= plan.added && moved.rows_affected() == plan.moved;
                Ok(whole.then_some(plan))
            },
            commit if |plan: &Option<Plan>| plan.as_ref().is_some_and(|plan| plan.any)
        )
        .during("append events")?;
        plan.map(|plan| plan.outcomes).ok_or(LogError::Contended)
    }

    /// The numbers of the sources of a group; new ones are added.
    async fn sources(&self, group: &[Append]) -> Result<Vec<i64>, LogError> {
        let source = |append: &Append| -> Source {
            let event = &append.submission;
            (event.machine, event.agent_id.clone(), event.identity.as_str().to_owned(), event.lane.as_str())
        };
        let mut unknown = Rows::default();
        let mut any = false;
        for append in group {
            let (machine, agent_id, user_cuid, lane) = &source(append);
            if !self.sources.contains_key(&source(append)) {
                any = true;
                let row = sql::SourceRow { pos: unknown.pos(), agent_id, user_cuid, lane };
                unknown.push(&row, &[machine.as_uuid().as_bytes()]);
            }
        }
        if any {
            let (json, bytes) = unknown.parameters();
            in_transaction!(&self.pool, |tx: Db| {
                sqlx::query(<Db as Dialect>::SOURCES_ADD).bind(&json).bind(&bytes).execute(&mut *tx).await.map(drop)
            })
            .during("add sources")?;
            let found: Vec<sql::FoundSource> = on_reader!(&self.pool, |db: Db| {
                sqlx::query_as(<Db as Dialect>::SOURCES).bind(&json).bind(&bytes).fetch_all(db)
            })
            .during("read sources")?;
            for (id, machine, agent_id, user_cuid, lane) in found {
                let lane: domain::envelope::Lane = lane.parse().map_err(|_| LogError::Corrupt("sources.lane"))?;
                self.sources.insert((machine.into(), agent_id, user_cuid, lane.as_str()), id);
            }
        }
        let number = |append| self.sources.get(&source(append)).map(|id| *id);
        group.iter().map(number).collect::<Option<_>>().ok_or(LogError::Corrupt("sources"))
    }
}

fn event_ids(group: &[Append]) -> (String, Vec<u8>) {
    let mut rows = Rows::default();
    for append in group {
        rows.push(&rows.pos(), &[append.submission.event_id.as_uuid().as_bytes()]);
    }
    rows.parameters()
}

fn head_keys(group: &[Append]) -> (String, Vec<u8>) {
    let keys: std::collections::BTreeSet<(MachineUuid, &str)> =
        group.iter().map(|append| (append.submission.machine, append.submission.agent_id.as_str())).collect();
    let mut rows = Rows::default();
    for (machine, agent_id) in keys {
        rows.push(&sql::HeadKey { pos: rows.pos(), agent_id }, &[machine.as_uuid().as_bytes()]);
    }
    rows.parameters()
}

fn known(heads: Vec<sql::FoundHead>, events: Vec<sql::KnownEvent>) -> Result<Known, &'static str> {
    let number = |value: i64| u64::try_from(value).map_err(|_| "chain_heads.seq or chain_heads.chain_epoch");
    let digest = |bytes: &[u8]| Digest::try_from(bytes).map_err(|_| "self");
    let head = |(machine, agent_id, epoch, seq, self_hash, event_id, moves): sql::FoundHead| {
        let head = Head { chain_epoch: number(epoch)?, seq: number(seq)?, self_hash: digest(&self_hash)? };
        let standing = Standing { head: Some((head, event_id.into())), moves, moved: false };
        Ok(((machine.into(), agent_id), standing))
    };
    let event = |(event_id, receipt, self_hash): (Uuid, Uuid, Vec<u8>)| {
        Ok((event_id.into(), (receipt.into(), digest(&self_hash)?)))
    };
    Ok(Known {
        heads: heads.into_iter().map(head).collect::<Result<_, &str>>()?,
        events: events.into_iter().map(event).collect::<Result<_, &str>>()?,
    })
}

/// Judges the events of a group one after the other, as if each were taken before the next comes.
fn judge(group: &[Append], sources: &[i64], mut known: Known) -> Plan {
    let mut outcomes = Vec::with_capacity(group.len());
    let mut events = Rows::default();
    let mut added = 0;
    for (append, source_id) in group.iter().zip(sources) {
        let event = &append.submission;
        if let Some((receipt, seal)) = known.events.get(&event.event_id) {
            let same = *seal == event.seal;
            outcomes.push(if same { AppendOutcome::Receipt(*receipt) } else { AppendOutcome::EventIdConflict });
            continue;
        }
        let ChainKey { machine_id, agent_id } = event.chain_key();
        let standing =
            known.heads.entry((machine_id, agent_id)).or_insert(Standing { head: None, moves: 0, moved: false });
        let head = standing.head.as_ref().map(|(head, _)| head);
        if let Err(refusal) = Head::judge(head, &event.position) {
            outcomes.push(AppendOutcome::Refused { refusal, received: event.position });
            continue;
        }
        let before = standing.head.as_ref().map(|(_, event_id)| *event_id);
        let begins = event.position.prev == Prev::Genesis;
        push_event(&mut events, append, *source_id, before.filter(|_| !begins));
        let Position { chain_epoch, seq, .. } = event.position;
        standing.head = Some((Head { chain_epoch, seq, self_hash: event.seal }, event.event_id));
        standing.moved = true;
        known.events.insert(event.event_id, (append.receipt, event.seal));
        outcomes.push(AppendOutcome::Receipt(append.receipt));
        added += 1;
    }
    let mut heads = Rows::default();
    let mut moved = 0;
    for ((machine, agent_id), standing) in &known.heads {
        let (true, Some((head, event_id))) = (standing.moved, &standing.head) else { continue };
        let row = sql::HeadRow {
            pos: heads.pos(),
            agent_id,
            chain_epoch: head.chain_epoch,
            seq: head.seq,
            moves: standing.moves + 1,
        };
        heads.push(&row, &[machine.as_uuid().as_bytes(), head.self_hash.as_bytes(), event_id.as_uuid().as_bytes()]);
        moved += 1;
    }
    Plan { outcomes, events: events.parameters(), heads: heads.parameters(), added, moved, any: added > 0 }
}

fn push_event(rows: &mut Rows, append: &Append, source_id: i64, before: Option<EventId>) {
    let event = &append.submission;
    let received_at_ms = append.received_at.timestamp_millis();
    let Position { chain_epoch, seq, prev } = event.position;
    let leaf = Leaf {
        agent_id: event.agent_id.as_str().into(),
        chain_epoch,
        event_id: event.event_id,
        machine_id: event.machine,
        prev,
        receipt_id: append.receipt,
        received_at_ms,
        self_hash: event.seal,
        seq,
        v: VERSION,
    };
    let row = sql::EventRow {
        pos: rows.pos(),
        len: event.canonical.len(),
        source_id,
        event_type: &event.event_type,
        ts_edge_ms: event.ts_edge_ms,
        consent_level: event.consent_level.as_str(),
        redacted: event.redacted,
        chain_epoch,
        seq,
        begins: before.is_none(),
        received_at_ms,
    };
    let before = before.map_or(Uuid::nil(), |event_id| event_id.as_uuid());
    rows.push(
        &row,
        &[
            event.event_id.as_uuid().as_bytes(),
            append.receipt.as_uuid().as_bytes(),
            event.seal.as_bytes(),
            merkle::leaf_hash(&leaf.bytes()).as_bytes(),
            before.as_bytes(),
            &event.canonical,
        ],
    );
}
