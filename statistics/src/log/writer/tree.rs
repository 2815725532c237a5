//! Events get their places in the tree behind the commits that took them.
//!
//! One step is one transaction: it takes the oldest events without a place, at most [`STEP`], writes their rows of `activity`, the heads
//! of their chains, the tiles that grew and the signed tree. All of these are functions of the log, so a crash loses none of them: what
//! the tree does not hold yet is read again when the file is opened.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use domain::ids::UserCuid;
use domain::usage::{Day, Used};
use domain::{Digest, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::super::sequence::Sequenced;
use super::super::usage::Spans;
use super::super::{DuringSqlite as _, LogError};
use super::Open;
use super::chains::ChainNumber;
use super::group::{begin, whole};
use crate::checkpoint::SignerKey;
use crate::merkle;
use crate::merkle::tile::{TileId, Tiles};

/// Events of one transaction: it keeps the groups of senders waiting, so it is short.
const STEP: usize = 1_000;

/// An event without a place, and what is to be written of it.
pub struct Unplaced {
    pub id: i64,
    pub chain: ChainNumber,
    pub source_id: i64,
    pub received_at_ms: i64,
    pub leaf: Digest,
    pub counted: Option<Counted>,
}

/// What an event adds to the usage of an identity.
pub struct Counted {
    identity: Arc<UserCuid>,
    used: Used,
}

impl Counted {
    /// `None` for an event that does not count.
    pub fn of(identity: Arc<UserCuid>, lane: domain::envelope::Lane, event_type: &str) -> Option<Self> {
        let used = Used::by(lane, event_type);
        (!used.is_nothing()).then_some(Self { identity, used })
    }
}

/// The events behind the signed tree, in the order of their rows. A row's number is one more than its place, since rows have no gap.
pub struct Tail {
    /// Leaves of the signed tree.
    size: i64,
    events: VecDeque<Unplaced>,
}

impl Tail {
    /// Behind a tree of `size` leaves.
    pub fn from(size: i64) -> Self {
        Self { size, events: VecDeque::new() }
    }

    /// The newest event that has a place.
    pub fn placed(&self) -> i64 {
        self.size
    }

    /// Adds the next event.
    pub fn push(&mut self, event: Unplaced) {
        self.events.push_back(event);
    }

    /// The tree has `size` leaves now.
    fn advance(&mut self, size: i64) {
        self.size = size;
        while self.events.front().is_some_and(|event| event.id <= size) {
            self.events.pop_front();
        }
    }
}

/// A run over the events without a place, in steps.
pub struct Pass {
    left: u32,
    added: u32,
}

impl Pass {
    /// Over at most `events_max` events.
    pub fn new(events_max: u32) -> Self {
        Self { left: events_max, added: 0 }
    }

    /// Events that have got their places in it.
    pub fn added(&self) -> u32 {
        self.added
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
const ACTIVITY: &str = "INSERT OR IGNORE INTO activity (source_id, received_at_ms, id) VALUES (?1, ?2, ?3)";
const HEAD: &str = "INSERT INTO chain_heads (machine_id, agent_id, chain_epoch, seq, self, event_id, moves)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1)
    ON CONFLICT (machine_id, agent_id) DO UPDATE SET chain_epoch = excluded.chain_epoch, seq = excluded.seq,
        self = excluded.self, event_id = excluded.event_id, moves = moves + 1";
const TILE: &str = "SELECT hashes FROM tiles WHERE level = ?1 AND place = ?2";
const TILE_PUT: &str = "INSERT INTO tiles (level, place, hashes) VALUES (?1, ?2, ?3)
    ON CONFLICT (level, place) DO UPDATE SET hashes = excluded.hashes";
const SIGN: &str = "UPDATE tree SET size = ?1, root = ?2, checkpoint = ?3, vkey = ?4, signed_at = ?5 WHERE id = 1";

/// Leaves of the signed tree.
pub fn size(db: &Connection) -> Result<i64, LogError> {
    const ASK: &str = "read the size of the tree";
    let size = db.query_row("SELECT size FROM tree WHERE id = 1", [], |row| row.get(0)).optional().during(ASK)?;
    Ok(size.unwrap_or(0))
}

impl Open {
    /// One step of a pass; `Some` when the pass has ended.
    pub fn place_some(
        &mut self,
        pass: &mut Pass,
        now: Timestamp,
        spans: &Spans,
    ) -> Result<Option<Sequenced>, LogError> {
        // Another process may have appended, or grown the tree.
        self.fold()?;
        self.tail.advance(size(&self.db)?);
        let count = self.tail.events.len().min(STEP).min(pass.left as usize);
        if count > 0 {
            let before = self.tail.size;
            self.place(count, now, spans)?;
            // None of them, if another process has grown the tree at this moment.
            let added = u32::try_from(self.tail.size - before).unwrap_or(u32::MAX);
            pass.added += added;
            pass.left -= added.min(pass.left);
        }
        let is_over = pass.left == 0 || self.tail.events.is_empty() || count == 0;
        let tree_size = u64::try_from(self.tail.size).map_err(|_| LogError::Corrupt("tree.size"))?;
        Ok(is_over.then_some(Sequenced { added: pass.added, tree_size }))
    }

    fn place(&mut self, count: usize, now: Timestamp, spans: &Spans) -> Result<(), LogError> {
        let Self { db, chains, tail, .. } = self;
        let transaction = begin(db)?;
        let signed = signed(&transaction)?;
        if signed.size != tail.size {
            // Another process has grown the tree at this moment; the next step sees it.
            return transaction.rollback().during("leave the tree to another process");
        }
        let events: Vec<&Unplaced> = tail.events.iter().take(count).collect();
        let numbers = (signed.size + 1..).zip(&events);
        if let Some((missing, _)) = numbers.into_iter().find(|(number, event)| event.id != *number) {
            return Err(LogError::Gap(missing));
        }
        write_activity(&transaction, &events)?;
        let touched: BTreeSet<ChainNumber> = events.iter().map(|event| event.chain).collect();
        for number in touched {
            const ASK: &str = "write the head of a chain";
            let chain = chains.get(number).ok_or(LogError::Corrupt("chains in memory"))?;
            let Some(tip) = chain.head else { continue };
            transaction
                .prepare_cached(HEAD)
                .during(ASK)?
                .execute(params![
                    number.machine.as_uuid().as_bytes(),
                    chain.agent_id(),
                    whole(tip.head.chain_epoch)?,
                    whole(tip.head.seq)?,
                    tip.head.self_hash.as_bytes(),
                    tip.event_id.as_uuid().as_bytes(),
                ])
                .during(ASK)?;
        }
        let grown = grow(&transaction, &signed, &events, now)?;
        transaction.commit().during("store the grown tree")?;
        spans.add(signed.size.unsigned_abs(), grown.unsigned_abs(), sums(&events));
        tail.advance(grown);
        Ok(())
    }
}

/// In the order of the table, so that neighbours are written together.
fn write_activity(db: &Connection, events: &[&Unplaced]) -> Result<(), LogError> {
    const ASK: &str = "write the index of activity";
    let mut rows: Vec<_> = events.iter().map(|event| (event.source_id, event.received_at_ms, event.id)).collect();
    rows.sort_unstable();
    let mut add = db.prepare_cached(ACTIVITY).during(ASK)?;
    for row in rows {
        add.execute(row).during(ASK)?;
    }
    Ok(())
}

fn signed(db: &Connection) -> Result<Signed, LogError> {
    const ASK: &str = "read the signed tree";
    db.prepare_cached(SIGNED)
        .during(ASK)?
        .query_row([], |row| Ok(Signed { size: row.get(0)?, root: row.get(1)?, name: row.get(2)?, seed: row.get(3)? }))
        .during(ASK)
}

/// Appends the leaves to the stored tree, after a check that it is still the one that was signed, and signs it; returns its size.
fn grow(db: &Connection, signed: &Signed, events: &[&Unplaced], now: Timestamp) -> Result<i64, LogError> {
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
        .execute(params![grown, root.as_bytes(), checkpoint, key.verifier().to_string(), moment(now)])
        .during(SIGN_TREE)?;
    Ok(grown)
}

fn tile(db: &Connection, name: TileId) -> Result<Option<Vec<u8>>, LogError> {
    const ASK: &str = "read a tile";
    let place = whole(name.index)?;
    db.prepare_cached(TILE).during(ASK)?.query_row((name.level, place), |row| row.get(0)).optional().during(ASK)
}

/// A moment as the driver of the pooled connections writes it: RFC 3339 text.
fn moment(moment: Timestamp) -> String {
    moment.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, false)
}

/// What the events add to the usage of each identity and day.
fn sums(events: &[&Unplaced]) -> Vec<(UserCuid, Day, Used)> {
    let mut sums: BTreeMap<(&str, i64), (&UserCuid, Used)> = BTreeMap::new();
    for event in events {
        let Some(Counted { identity, used }) = &event.counted else { continue };
        let day = event.received_at_ms / Day::MILLISECONDS;
        sums.entry((identity.as_str(), day)).or_insert((identity, Used::default())).1 += *used;
    }
    sums.into_iter().map(|((_, day), (identity, used))| (identity.clone(), Day::from(day), used)).collect()
}
