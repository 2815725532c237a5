//! Places committed events in the tree.
//!
//! One step is one transaction: it takes the oldest events without a place, at most [`STEP`], and writes the changed tiles and the
//! signed tree. Both are derived from the log, so they survive a crash.

use std::collections::BTreeMap;

use domain::clock::stored;
use domain::recorder::Recorder;
use domain::usage::{Day, QuotaUsed};
use domain::{Digest, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, params};
use uuid::Uuid;

use super::open::Open;
use super::transaction::begin;
use super::unplaced::{Counted, Unplaced, size};
use crate::log::error::{DuringSqlite as _, LogError};
use crate::log::job::Sequenced;
use crate::log::sql::whole;
use crate::log::usage::sums::UsageSums;
use domain::checkpoint::SignerKey;
use proofs::merkle;
use proofs::merkle::tile::{TileId, Tiles};

/// Number of events of one transaction; small, because groups of senders wait for it.
const STEP: usize = 2_000;
/// A run over the events without a place, in steps.
pub struct Pass {
    left: u32,
    added: u32,
}

impl Pass {
    /// A pass over at most `events_max` events.
    pub fn new(events_max: u32) -> Self {
        Self { left: events_max, added: 0 }
    }
}

/// The signed tree and the key that signs the next one.
struct Signed {
    size: i64,
    root: Vec<u8>,
    name: String,
    seed: [u8; 32],
}

const SIGNED: &str =
    "SELECT t.size, t.root, k.name, k.seed FROM tree t CROSS JOIN log_keys k WHERE k.retired_at IS NULL";
const TILE: &str = "SELECT hashes FROM tiles WHERE level = ?1 AND place = ?2";
const TILE_PUT: &str = "INSERT INTO tiles (level, place, hashes) VALUES (?1, ?2, ?3)
    ON CONFLICT (level, place) DO UPDATE SET hashes = excluded.hashes";
const SIGN: &str = "UPDATE tree SET size = ?1, root = ?2, checkpoint = ?3, vkey = ?4, signed_at = ?5 WHERE id = 1";

impl Open {
    /// Executes one step of a pass; `Some` when the pass has ended.
    pub fn place_some(
        &mut self,
        pass: &mut Pass,
        now: Timestamp,
        spans: &UsageSums,
    ) -> Result<Option<Sequenced>, LogError> {
        // Another process may have appended events or grown the tree.
        self.fold()?;
        self.tail.advance(size(&self.db)?);
        let wanted = STEP.min(pass.left as usize);
        self.refill(wanted)?;
        let count = wanted.min(self.tail.events.len());
        if count > 0 {
            let placed = self.place(count, now, spans)?;
            pass.added += placed;
            pass.left -= placed.min(pass.left);
        }
        let is_over = pass.left == 0 || count < wanted;
        let tree_size = u64::try_from(self.tail.size).map_err(|_| LogError::Corrupt("tree.size"))?;
        Ok(is_over.then_some(Sequenced { added: pass.added, tree_size }))
    }

    /// Reads the oldest events without a place, at most `count`, if none are in memory.
    fn refill(&mut self, count: usize) -> Result<(), LogError> {
        type Row = (i64, [u8; 32], i64, [u8; 16], String, String, String);
        const ASK: &str = "read events without a place";
        const UNPLACED: &str = "SELECT e.id, e.leaf_hash, e.received_at_ms, s.machine_id, s.user_cuid, s.lane,
                e.event_type
            FROM events e JOIN sources s ON s.id = e.source_id WHERE e.id > ?1 AND e.id <= ?2 ORDER BY e.id LIMIT ?3";
        if !self.tail.events.is_empty() {
            return Ok(());
        }
        let mut statement = self.db.prepare_cached(UNPLACED).during(ASK)?;
        let rows = statement
            .query_map((self.tail.size, self.applied, i64::try_from(count).unwrap_or(i64::MAX)), |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?))
            });
        let rows: Vec<Row> = rows.and_then(Iterator::collect).during(ASK)?;
        for (number, leaf, received_at_ms, machine, identity, lane, event_type) in rows {
            let counted = Counted::stored(Uuid::from_bytes(machine).into(), &identity, &lane, &event_type)?;
            let missing = self.tail.next();
            if !self.tail.push(number, Unplaced { received_at_ms, leaf: Digest::from(leaf), counted }) {
                return Err(LogError::Gap(missing));
            }
        }
        Ok(())
    }

    /// Places `count` events; returns the number of placed events, which is 0 if another process has grown the tree.
    fn place(&mut self, count: usize, now: Timestamp, spans: &UsageSums) -> Result<u32, LogError> {
        let Self { db, tail, .. } = self;
        let transaction = begin(db)?;
        let signed = signed(&transaction)?;
        if signed.size != tail.size {
            transaction.rollback().during("leave the tree to another process")?;
            return Ok(0);
        }
        let events = &tail.events.make_contiguous()[..count];
        let grown = grow(&transaction, &signed, events, now)?;
        transaction.commit().during("store the grown tree")?;
        spans.add(signed.size.unsigned_abs(), grown.unsigned_abs(), sums(events));
        tail.advance(grown);
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }
}

fn signed(db: &Connection) -> Result<Signed, LogError> {
    const ASK: &str = "read the signed tree";
    db.prepare_cached(SIGNED)
        .during(ASK)?
        .query_row([], |row| Ok(Signed { size: row.get(0)?, root: row.get(1)?, name: row.get(2)?, seed: row.get(3)? }))
        .during(ASK)
}

/// Appends the leaves to the stored tree, after a check that it is the signed one, and signs the result; returns its size.
fn grow(db: &Connection, signed: &Signed, events: &[Unplaced], now: Timestamp) -> Result<i64, LogError> {
    const PUT: &str = "store tiles of the tree";
    const SIGN_TREE: &str = "sign the grown tree";
    let size = signed.size.unsigned_abs();
    let mut names = Tiles::needed(|tree| merkle::root(tree, size))?;
    names.extend(Tiles::edge(size));
    let mut tiles = Tiles::default();
    for name in names {
        if let Some(hashes) = tile(db, name)? {
            tiles.insert(name, &hashes);
        }
    }
    if merkle::root(&mut tiles, size)?.as_bytes()[..] != signed.root {
        return Err(LogError::Inconsistent);
    }
    let leaves: Vec<Digest> = events.iter().map(|event| event.leaf).collect();
    let touched = tiles.append(size, &leaves)?;
    let grown = size + leaves.len() as u64;
    let root = merkle::root(&mut tiles, grown)?;
    for name in touched {
        let place = whole(name.index)?;
        db.prepare_cached(TILE_PUT).during(PUT)?.execute((name.level, place, tiles.bytes(name))).during(PUT)?;
    }
    let key = SignerKey::from_seed(&signed.name, &signed.seed)?;
    let checkpoint = key.sign(grown, root);
    let grown = whole(grown)?;
    db.prepare_cached(SIGN)
        .during(SIGN_TREE)?
        .execute(params![grown, root.as_bytes(), checkpoint, key.verifier().to_string(), stored(now)])
        .during(SIGN_TREE)?;
    Ok(grown)
}

fn tile(db: &Connection, name: TileId) -> Result<Option<Vec<u8>>, LogError> {
    const ASK: &str = "read a tile";
    let place = whole(name.index)?;
    db.prepare_cached(TILE).during(ASK)?.query_row((name.level, place), |row| row.get(0)).optional().during(ASK)
}

/// The usage that the events add to each computer and day.
fn sums(events: &[Unplaced]) -> Vec<(Recorder, Day, QuotaUsed)> {
    let mut sums: BTreeMap<(&Recorder, i64), QuotaUsed> = BTreeMap::new();
    for event in events {
        let Some(Counted { recorder, used }) = &event.counted else { continue };
        *sums.entry((&**recorder, event.received_at_ms / Day::MILLISECONDS)).or_default() += *used;
    }
    sums.into_iter().map(|((recorder, day), used)| (recorder.clone(), Day::from(day), used)).collect()
}
