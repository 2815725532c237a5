//! Reading the whole log again, from the first event to the last signed checkpoint.
//!
//! 1. Every event hashes to its seal, agrees with the columns of its row, and has the leaf hash of its row.
//! 2. Every event continues its chain, and every chain ends at its stored head.
//! 3. The leaves, in the order of their places and without a gap, yield the stored tiles and the signed root.
//! 4. The checkpoint opens under its key, and names this size and root.
//! 5. In an SQLite file the index of activity and the runs of ids contain each indexed event once ([`indexes`]).
//!
//! It takes memory for each chain, not for each event, and may run beside the living log: it reads the events that were signed when it began.

mod indexes;

use std::collections::HashMap;

use domain::Digest;
use domain::chain::{ChainRefusal, Head, Position};
use domain::ids::EventId;
use store::pool::query;
use uuid::Uuid;

use super::read::described;
use super::sql::{self, Dialect};
use super::{During, Log, LogError};
use crate::checkpoint::{Checkpoint, NoteFault, VerifierKey};
use crate::merkle;
use crate::merkle::tile::Tiles;
use crate::proof::{ProofFault, verify_event, verify_leaf};
use indexes::Indexes;

/// Number of rows of one read.
const PAGE: i64 = 500;

/// The result of an audit that found no fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audited {
    /// Number of events, including those without a place in the tree.
    pub events: u64,
    /// Number of chains, one for each agent kind on a computer.
    pub chains: u64,
    /// The signed checkpoint.
    pub checkpoint: Checkpoint,
    /// Verifier key of the checkpoint.
    pub vkey: String,
}

/// The first fault that an audit found.
#[derive(Debug, thiserror::Error)]
pub enum AuditFault {
    /// Reading the log failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The row of an event cannot be read.
    #[error("event {event}: {fault}")]
    Row {
        /// Id of the faulty event.
        event: EventId,
        /// The fault that was found.
        fault: LogError,
    },
    /// An event disagrees with its seal, its leaf or its row.
    #[error("event {event}: {fault}")]
    Event {
        /// Id of the faulty event.
        event: EventId,
        /// The fault that was found.
        fault: ProofFault,
    },
    /// An event does not continue its chain.
    #[error("event {event} does not continue its chain: expected epoch {}, seq {}, after {}", .expected.chain_epoch, .expected.seq, .expected.prev)]
    Link {
        /// Id of the faulty event.
        event: EventId,
        /// The position that continues the chain.
        expected: Position,
    },
    /// The stored head of a chain is not its last event, or one of the two is missing.
    #[error("the head of the chain of {agent_id} on {machine_id} is not its last event")]
    Head {
        /// Computer of the chain.
        machine_id: Uuid,
        /// Agent kind of the chain.
        agent_id: String,
    },
    /// Places have a gap, or fewer events have a place than were signed.
    #[error("no event has place {0} in the tree")]
    Place(u64),
    /// The stored tile disagrees with the leaves under it.
    #[error("tile {0} is not what the events under it make")]
    Tile(merkle::tile::TileId),
    /// The tree of the events is not the signed one.
    #[error("the events make the root {found}, and {signed} was signed")]
    Root {
        /// Root of the events.
        found: Digest,
        /// Signed root.
        signed: Digest,
    },
    /// A table that is written after the log has other entries than the events yield.
    #[error("{0} does not have the events that are indexed, each once")]
    Index(&'static str),
    /// The checkpoint does not open, or names another size or root than the tree.
    #[error("the checkpoint: {0}")]
    Checkpoint(String),
}

impl From<NoteFault> for AuditFault {
    fn from(fault: NoteFault) -> Self {
        Self::Checkpoint(fault.to_string())
    }
}

/// The last event of each chain.
type Heads = HashMap<(Uuid, String), (Head, EventId)>;

impl Log {
    /// Reads everything again; returns the counts, or the first fault.
    pub async fn audit(&self) -> Result<Audited, AuditFault> {
        let signed = self.signed().await?;
        let key: VerifierKey =
            signed.vkey.parse().map_err(|error| AuditFault::Checkpoint(format!("its key: {error}")))?;
        let checkpoint = key.open(&signed.checkpoint)?;
        if (checkpoint.size, checkpoint.root) != (signed.size, signed.root) {
            return Err(AuditFault::Checkpoint("it is of another tree than the one that is stored with it".to_owned()));
        }
        let before = self.heads().await?;
        let mut indexes = self.indexes().await?;
        let (events, heads, stored) = self.audit_events(&signed, &mut indexes).await?;
        reaches(&before, &heads)?;
        reaches(&stored, &self.heads().await?)?;
        indexes.compare()?;
        self.audit_tree(signed.size, signed.root).await?;
        Ok(Audited { events, chains: heads.len() as u64, checkpoint, vkey: signed.vkey })
    }

    /// Returns the number of events, the last event of each chain, and the number of the last event whose head must be stored: an SQLite
    /// file stores the heads of indexed events.
    async fn audit_events(
        &self,
        signed: &super::read::Signed,
        indexes: &mut Indexes,
    ) -> Result<(u64, Heads, Heads), AuditFault> {
        let (mut events, mut after, mut heads, mut stored) = (0, 0, Heads::new(), Heads::new());
        loop {
            let rows: Vec<sql::AuditRow> = query(Dialect::of(&self.pool).events_after)
                .bind(after)
                .bind(PAGE)
                .fetch_all(&self.pool)
                .await
                .during("read events")?;
            let Some(last) = rows.last() else { return Ok((events, heads, stored)) };
            after = last.id;
            events += rows.len() as u64;
            for row in &rows {
                indexes.add(row);
                let event = row.proof.event_id.into();
                let proof = described(&row.proof, signed).map_err(|fault| AuditFault::Row { event, fault })?;
                let checked = verify_event(&proof).and_then(|()| verify_leaf(&proof));
                checked.map_err(|fault| AuditFault::Event { event, fault })?;
                let position =
                    Position { chain_epoch: proof.chain.chain_epoch, seq: proof.chain.seq, prev: proof.chain.prev };
                let key = (row.proof.machine_id, proof.chain.agent_id);
                let before = heads.get(&key).copied();
                Head::judge(before.as_ref().map(|(head, _)| head), &position)
                    .map_err(|refusal: ChainRefusal| AuditFault::Link { event, expected: refusal.expected() })?;
                let links_to = proof.chain.prev_event_id;
                if links_to.is_some() && links_to != before.map(|(_, id)| id) {
                    return Err(AuditFault::Link { event, expected: position });
                }
                let head = Head { chain_epoch: position.chain_epoch, seq: position.seq, self_hash: proof.self_hash };
                if row.id <= indexes.until() {
                    stored.insert(key.clone(), (head, event));
                }
                heads.insert(key, (head, event));
            }
        }
    }

    /// Builds the tree of the leaves in the order of their places, and compares it tile by tile.
    async fn audit_tree(&self, size: u64, root: Digest) -> Result<(), AuditFault> {
        let (mut tree, mut place) = (Tiles::default(), 0);
        while place < size {
            let from = i64::try_from(place).map_err(|_| LogError::Corrupt("tree.size"))?;
            let rows: Vec<(i64, Vec<u8>)> = query(Dialect::of(&self.pool).leaves_from)
                .bind(from)
                .bind(PAGE)
                .fetch_all(&self.pool)
                .await
                .during("read leaves")?;
            let wanted = usize::try_from(size - place).unwrap_or(usize::MAX);
            let mut leaves = Vec::with_capacity(rows.len());
            for ((index, hash), expected) in rows.iter().zip(place..).take(wanted) {
                if u64::try_from(*index) != Ok(expected) {
                    return Err(AuditFault::Place(expected));
                }
                leaves.push(Digest::try_from(&hash[..]).map_err(|_| LogError::Corrupt("events.leaf_hash"))?);
            }
            if leaves.is_empty() {
                return Err(AuditFault::Place(place));
            }
            let touched = tree.append(place, &leaves).map_err(LogError::from)?;
            place += leaves.len() as u64;
            let stored = self.tiles(touched.iter().copied()).await?;
            if let Some(wrong) = touched.into_iter().find(|id| !stored.bytes(*id).starts_with(&tree.bytes(*id))) {
                return Err(AuditFault::Tile(wrong));
            }
            tree.keep_edge(place);
        }
        let found = merkle::root(&mut tree, size).map_err(LogError::from)?;
        if found == root { Ok(()) } else { Err(AuditFault::Root { found, signed: root }) }
    }

    async fn heads(&self) -> Result<Heads, AuditFault> {
        let rows: Vec<sql::FoundHead> = query(sql::HEADS_ALL).fetch_all(&self.pool).await.during("read the heads")?;
        let corrupt = |_| LogError::Corrupt("chain_heads");
        let heads = rows.into_iter().map(|(machine, agent, epoch, seq, seal, event, _)| {
            let head = Head {
                chain_epoch: u64::try_from(epoch).map_err(corrupt)?,
                seq: u64::try_from(seq).map_err(corrupt)?,
                self_hash: Digest::try_from(&seal[..]).map_err(|_| LogError::Corrupt("chain_heads.self"))?,
            };
            Ok(((machine, agent), (head, event.into())))
        });
        Ok(heads.collect::<Result<_, LogError>>()?)
    }
}

/// Whether every chain of an earlier look is there in a later one, and ends there or behind. A log without writers looks the same
/// in both, so its heads are its last events.
fn reaches(earlier: &Heads, later: &Heads) -> Result<(), AuditFault> {
    for (key, (head, id)) in earlier {
        let agrees = later.get(key).is_some_and(|(known, known_id)| {
            let is_ahead = (known.chain_epoch, known.seq) > (head.chain_epoch, head.seq);
            is_ahead || (known == head && known_id == id)
        });
        if !agrees {
            return Err(AuditFault::Head { machine_id: key.0, agent_id: key.1.clone() });
        }
    }
    Ok(())
}
