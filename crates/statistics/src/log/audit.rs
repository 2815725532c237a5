//! Reading the whole log again, from the first event to the last signed checkpoint.
//!
//! 1. Every event hashes to its seal and agrees with the columns and the leaf hash of its row.
//! 2. Every event continues its chain, in the order of the tree, and every chain ends at its stored head.
//! 3. The leaves, in the order of their places and without a gap, yield the stored tiles and the signed root.
//! 4. The checkpoint opens under its key, and names this size and root.
//! 5. In an SQLite file the index of activity and the runs of ids contain each indexed event once ([`indexes`]).
//!
//! It uses memory per chain, not per event, and may run while the log is in use: it reads the events that were signed when it started.

mod events;
mod fault;
mod indexes;

use std::collections::HashMap;

use domain::Digest;
use domain::chain::{ChainRefusal, Head, Position};
use domain::ids::EventId;
use store::pool::query;
use uuid::Uuid;

use super::archive::MissingBody;
use super::error::{During, LogError};
use super::handle::Log;
use super::read::described;
use super::sql::{self, AuditRow, Dialect};
use super::tree_cache::cache::Signed;
use domain::checkpoint::VerifierKey;
use events::EventPages;
pub use fault::{AuditFault, Audited};
use indexes::Indexes;
use proofs::merkle;
use proofs::merkle::tile::Tiles;
use proofs::proof::{verify_event, verify_leaf};

/// Number of rows of one read.
const PAGE: i64 = 500;

/// The last event of each chain.
type Heads = HashMap<(Uuid, String), (Head, EventId)>;

impl Log {
    /// Reads everything again; returns the counts, or the first fault.
    #[boxed]
    pub async fn audit(&self) -> Result<Audited, AuditFault> {
        let signed = self.signed().await?;
        let key: VerifierKey =
            signed.vkey.parse().map_err(|error| AuditFault::Checkpoint(format!("its key: {error}")))?;
        let checkpoint = key.open(&signed.checkpoint)?;
        if (checkpoint.size, checkpoint.root) != (signed.size, signed.root) {
            return Err(AuditFault::Checkpoint("it is of another tree than the one that is stored with it".to_owned()));
        }
        let earlier_heads = self.heads().await?;
        let mut indexes = self.indexes().await?;
        let (events, heads, stored) = self.audit_events(&signed, &mut indexes).await?;
        reaches(&earlier_heads, &heads)?;
        reaches(&stored, &self.heads().await?)?;
        indexes.compare()?;
        self.audit_tree(signed.size, signed.root).await?;
        Ok(Audited { events, chains: heads.len() as u64, checkpoint, vkey: signed.vkey })
    }

    /// Returns the number of events, the last event of each chain, and the number of the last event whose head must be stored: an SQLite
    /// file stores the heads of indexed events.
    async fn audit_events(&self, signed: &Signed, indexes: &mut Indexes) -> Result<(u64, Heads, Heads), AuditFault> {
        let (mut events, mut pages, mut heads, mut stored) = (0, EventPages::default(), Heads::new(), Heads::new());
        loop {
            let mut rows = self.next_page(&mut pages).await?;
            if rows.is_empty() {
                return Ok((events, heads, stored));
            }
            events += rows.len() as u64;
            let bodies = rows.iter_mut().filter_map(|AuditRow { proof, .. }| {
                Some(MissingBody { place: proof.leaf_index?, seal: &proof.self_hash, body: &mut proof.canonical })
            });
            self.fill(bodies).await?;
            for row in &rows {
                indexes.add(row);
                let event = row.proof.event_id.into();
                let proof = described(&row.proof, signed).map_err(|fault| AuditFault::Row { event, fault })?;
                let checked = verify_event(&proof).and_then(|()| verify_leaf(&proof));
                checked.map_err(|fault| AuditFault::Event { event, fault })?;
                let position =
                    Position { chain_epoch: proof.chain.chain_epoch, seq: proof.chain.seq, prev: proof.chain.prev };
                let key = (row.proof.machine_id, proof.chain.agent_id);
                let previous = heads.get(&key).copied();
                Head::judge(previous.as_ref().map(|(head, _)| head), &position)
                    .map_err(|refusal: ChainRefusal| AuditFault::Link { event, expected: refusal.expected() })?;
                let links_to = proof.chain.prev_event_id;
                if links_to.is_some() && links_to != previous.map(|(_, id)| id) {
                    return Err(AuditFault::Link { event, expected: position });
                }
                let head = Head { chain_epoch: position.chain_epoch, seq: position.seq, self_hash: proof.self_hash };
                if row.id <= indexes.until {
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
        let computed_root = merkle::root(&mut tree, size).map_err(LogError::from)?;
        if computed_root == root { Ok(()) } else { Err(AuditFault::Root { found: computed_root, signed: root }) }
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

/// Whether every chain of an earlier read exists in a later one, with the same or a later head.
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
