//! The log on PostgreSQL: several processes append and sequence concurrently, so the heads of chains are in the database, which locks them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use domain::Digest;
use domain::chain::{ChainKey, Head, Position, Prev};
use domain::ids::{EventId, MachineUuid, ReceiptId};
use store::pool::{PostgresPool, query, scalar};
use store::{Pool, in_transaction};
use uuid::Uuid;

use super::error::{During, LogError};
use super::handle::{Log, SOURCES_MAX, Source};
use super::job::{Append, AppendOutcome, Sequenced};
use super::memory::Seen;
use super::sql::{self, Rows, postgres};
use crate::checkpoint::SignerKey;
use crate::merkle;
use crate::merkle::tile::{TileId, Tiles};

/// Maximum number of attempts for a group that conflicts with another process on the same chains.
const ATTEMPTS_MAX: u32 = 5;

/// Time after which the lease of a silent sequencer expires. The lease only saves duplicate work; the tree's size and the fence guarantee
/// that a tree grows once.
const LEASE_MS: i64 = 2_000;

/// The head of a chain while a group is judged.
struct LockedHead {
    head: Option<(Head, EventId)>,
    /// Version of the stored row: the number of its updates.
    moves: i64,
    moved: bool,
}

/// The part of the log that is read before the group is judged.
struct Known {
    events: HashMap<EventId, (ReceiptId, Digest)>,
    heads: BTreeMap<(MachineUuid, String), LockedHead>,
}

/// The rows to write after the group is judged.
struct Plan {
    outcomes: Vec<AppendOutcome>,
    events: (String, Vec<u8>),
    heads: (String, Vec<u8>),
    /// Number of rows in `events`, and in `heads` below.
    added: u64,
    moved: u64,
    /// Whether there is a row to write.
    any: bool,
}

impl Log {
    /// Appends a group of events; returns one outcome per event, in order. Either all new events are durable when it returns, or none is.
    pub(super) async fn append_on_postgres(&self, group: &[Append]) -> Result<Vec<AppendOutcome>, LogError> {
        let appended = self.append_group(group).await;
        self.appends.note(&appended, self.clock.now());
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
                    // Another process appended the same event at the same time; the next attempt finds it.
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
            |tx| {
                // The heads first: on PostgreSQL that locks them, so rows that are read after do not change.
                let heads: Vec<sql::FoundHead> = query(postgres::HEADS)
                    .bind(&heads_json)
                    .bind(&heads_bytes)
                    .fetch_all(&mut *tx)
                    .await?;
                let events: Vec<sql::KnownEvent> = query(postgres::KNOWN)
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
                let added = query(postgres::EVENTS_ADD).bind(json).bind(bytes).execute(&mut *tx).await?;
                let (json, bytes) = &plan.heads;
                let moved = query(postgres::HEADS_MOVE).bind(json).bind(bytes).execute(&mut *tx).await?;
                let whole = added >= plan.added && moved == plan.moved;
                Ok(whole.then_some(plan))
            },
            commit if |plan: &Option<Plan>| plan.as_ref().is_some_and(|plan| plan.any)
        )
        .await
        .during("append events")?;
        plan.map(|plan| plan.outcomes).ok_or(LogError::Contended)
    }

    /// Returns the numbers of the sources of a group; adds new sources.
    async fn sources(&self, group: &[Append]) -> Result<Vec<i64>, LogError> {
        let source = |append: &Append| -> Source {
            let event = append.submission();
            (event.machine, event.agent_id.clone(), event.identity.as_str().to_owned(), event.lane.as_str())
        };
        if self.sources.len() > SOURCES_MAX {
            self.sources.clear();
        }
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
            let pool = self.postgres();
            query(postgres::SOURCES_ADD).bind(&json).bind(&bytes).execute(pool).await.during("add sources")?;
            let found: Vec<sql::FoundSource> =
                query(postgres::SOURCES).bind(&json).bind(&bytes).fetch_all(pool).await.during("read sources")?;
            for (id, machine, agent_id, user_cuid, lane) in found {
                let lane: domain::envelope::Lane = lane.parse().map_err(|_| LogError::Corrupt("sources.lane"))?;
                self.sources.insert((machine.into(), agent_id, user_cuid, lane.as_str()), id);
            }
        }
        let number = |append| self.sources.get(&source(append)).map(|id| *id);
        group.iter().map(number).collect::<Option<_>>().ok_or(LogError::Corrupt("sources"))
    }

    /// Releases the lease, so that another process need not wait until it expires.
    pub(super) async fn end_lease(&self) {
        let released = query(postgres::LEASE_END).bind(self.holder).execute(self.postgres()).await;
        if let Err(error) = released {
            tracing::debug!(
                error = domain::reasons(&error),
                "the lease of the sequencer could not be given back; it ends by itself"
            );
        }
    }

    /// The connection pool. Called only where the log has no writer, which is on PostgreSQL.
    fn postgres(&self) -> &PostgresPool {
        match &self.pool {
            Pool::Postgres(pool) => pool,
            Pool::Sqlite { .. } => unreachable!("the log of an SQLite file has a writer"),
        }
    }
}

fn event_ids(group: &[Append]) -> (String, Vec<u8>) {
    let mut rows = Rows::default();
    for append in group {
        rows.push(&rows.pos(), &[append.submission().event_id.as_uuid().as_bytes()]);
    }
    rows.parameters()
}

fn head_keys(group: &[Append]) -> (String, Vec<u8>) {
    let keys: std::collections::BTreeSet<(MachineUuid, &str)> =
        group.iter().map(|append| (append.submission().machine, append.submission().agent_id.as_str())).collect();
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
        let standing = LockedHead { head: Some((head, event_id.into())), moves, moved: false };
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

/// Judges the events of a group in order, each after the events before it.
fn judge(group: &[Append], sources: &[i64], mut known: Known) -> Plan {
    let mut outcomes = Vec::with_capacity(group.len());
    let mut events = Rows::default();
    let mut added = 0;
    for (append, source_id) in group.iter().zip(sources) {
        let event = append.submission();
        if let Some((receipt, seal)) = known.events.get(&event.event_id) {
            let same = *seal == event.seal;
            outcomes.push(if same { AppendOutcome::Receipt(*receipt) } else { AppendOutcome::EventIdConflict });
            continue;
        }
        let ChainKey { machine_id, agent_id } = event.chain_key();
        let standing =
            known.heads.entry((machine_id, agent_id)).or_insert(LockedHead { head: None, moves: 0, moved: false });
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
        known.events.insert(event.event_id, (append.receipt(), event.seal));
        outcomes.push(AppendOutcome::Receipt(append.receipt()));
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
    let event = append.submission();
    let Position { chain_epoch, seq, .. } = event.position;
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
        received_at_ms: append.received_at().timestamp_millis(),
    };
    let before = before.map_or(Uuid::nil(), |event_id| event_id.as_uuid());
    rows.push(
        &row,
        &[
            event.event_id.as_uuid().as_bytes(),
            append.receipt().as_uuid().as_bytes(),
            event.seal.as_bytes(),
            append.leaf_hash().as_bytes(),
            before.as_bytes(),
            &event.canonical,
        ],
    );
}

impl Log {
    /// Assigns places to at most `events_max` events, under the lease.
    pub(super) async fn sequence_on_postgres(&self, events_max: u32) -> Result<Sequenced, LogError> {
        let state: sql::State =
            query(postgres::STATE).fetch_one(self.postgres()).await.during("read the state of the tree")?;
        let size = u64::try_from(state.size).map_err(|_| LogError::Corrupt("tree.size"))?;
        let idle = Sequenced { added: 0, tree_size: size };
        let theirs = state.holder.is_some_and(|holder| holder != self.holder) && state.lease_ms > 0;
        let is_to_grow = state.waiting && !theirs;
        if !self.vouches_for(&state, is_to_grow).await? || !is_to_grow {
            return Ok(idle);
        }
        let Some(fence) = self.lease().await? else { return Ok(idle) };
        let waiting = query(postgres::WAITING).bind(i64::from(events_max)).fetch_all(self.postgres());
        let waiting: Vec<(i64, Vec<u8>)> = waiting.await.during("read events without a place")?;
        if waiting.is_empty() {
            return Ok(idle);
        }
        let leaves = waiting.iter().map(|(_, hash)| Digest::try_from(&hash[..]));
        let leaves: Vec<Digest> =
            leaves.collect::<Result<_, _>>().map_err(|_| LogError::Corrupt("events.leaf_hash"))?;
        let (tiles, touched, root) = self.grow(size, &state.root, &leaves).await?;
        let added = leaves.len() as u64;

        let seed: [u8; 32] = state.seed.try_into().map_err(|_| LogError::Corrupt("log_keys.seed"))?;
        let signer = SignerKey::from_seed(&state.name, &seed)?;
        let checkpoint = signer.sign(size + added, root);
        let vkey = signer.verifier().to_string();
        if vkey != state.vkey {
            // A new epoch began between the two rows; the next pass reads both of it.
            return Ok(idle);
        }
        let tree = NewTree { size, before: state.root, added, root, checkpoint, vkey, fence };
        let events: Vec<i64> = waiting.iter().map(|(event, _)| *event).collect();
        let won = self.store_tree(&tree, &events, &tiles, touched).await?;
        Ok(if won {
            let NewTree { vkey, checkpoint, .. } = tree;
            self.memory.learn(Seen { vkey, checkpoint, size: size + added, root });
            Sequenced { added: u32::try_from(added).unwrap_or(u32::MAX), tree_size: size + added }
        } else {
            idle
        })
    }

    /// Acquires or renews the lease; returns the fence, or `None` while another process has the lease.
    async fn lease(&self) -> Result<Option<i64>, LogError> {
        let lease = scalar(postgres::LEASE).bind(self.holder).bind(LEASE_MS);
        lease.fetch_optional(self.postgres()).await.during("take the lease of the sequencer")
    }

    /// Appends leaves to the stored tree, after a check that it is the signed tree.
    async fn grow(
        &self,
        size: u64,
        signed: &[u8],
        leaves: &[Digest],
    ) -> Result<(Tiles, BTreeSet<TileId>, Digest), LogError> {
        let mut names = Tiles::needed(|tree| merkle::root(tree, size))?;
        names.extend(Tiles::edge(size));
        let mut tiles = self.tiles(names).await?;
        if merkle::root(&mut tiles, size)?.as_bytes()[..] != *signed {
            return Err(LogError::Inconsistent);
        }
        let touched = tiles.append(size, leaves)?;
        let root = merkle::root(&mut tiles, size + leaves.len() as u64)?;
        Ok((tiles, touched, root))
    }

    /// Stores places, tiles and checkpoint together, if no other process has grown the tree and this process still has the lease.
    async fn store_tree(
        &self,
        tree: &NewTree,
        events: &[i64],
        tiles: &Tiles,
        touched: impl IntoIterator<Item = TileId>,
    ) -> Result<bool, LogError> {
        let mut rows = Rows::default();
        for name in touched {
            let hashes = tiles.bytes(name);
            let row = sql::TileRow { pos: rows.pos(), len: hashes.len(), level: name.level, place: name.index };
            rows.push(&row, &[&hashes]);
        }
        let (tiles_json, tiles_bytes) = rows.parameters();
        let events_json = serde_json::to_string(events).map_err(|_| LogError::Corrupt("events.id"))?;
        let corrupt = |_| LogError::Corrupt("tree.size");
        let size = i64::try_from(tree.size).map_err(corrupt)?;
        let grown = i64::try_from(tree.size + tree.added).map_err(corrupt)?;
        let now = self.clock.now();
        in_transaction!(
            &self.pool,
            |tx| {
                let signed = query(postgres::TREE_GROW)
                    .bind(grown)
                    .bind(&tree.root.as_bytes()[..])
                    .bind(&tree.checkpoint)
                    .bind(&tree.vkey)
                    .bind(now)
                    .bind(size)
                    .bind(self.holder)
                    .bind(tree.fence)
                    .bind(&tree.before)
                    .bind(&tree.vkey)
                    .execute(&mut *tx)
                    .await?;
                if signed == 0 {
                    return Ok(false);
                }
                query(postgres::PLACE).bind(&events_json).bind(size).execute(&mut *tx).await?;
                query(postgres::TILES_PUT).bind(&tiles_json).bind(&tiles_bytes).execute(&mut *tx).await?;
                Ok(true)
            },
            commit if |won: &bool| *won
        )
        .await
        .during("store the grown tree")
    }
}

/// A grown tree before it is stored.
struct NewTree {
    size: u64,
    /// Root of the tree that it grows from.
    before: Vec<u8>,
    added: u64,
    root: Digest,
    checkpoint: String,
    vkey: String,
    fence: i64,
}
