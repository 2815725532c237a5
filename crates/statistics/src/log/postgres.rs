//! The log on PostgreSQL: several processes append and sequence concurrently, so the heads of chains are in the database.
//!
//! [`append`] adds events without a wait for other processes; this file places them in the tree, under a lease, in the order of [`order`].

mod append;
mod judge;
mod order;
mod pending;
mod read;
mod write;

use std::collections::BTreeSet;
use std::time::Duration;

use domain::Digest;
use store::pool::{PostgresPool, query, scalar};
use store::{Pool, in_transaction};
use tokio::time::Instant;

pub use self::judge::StoredHead;
pub use self::order::{WaitingEvent, in_chain_order};
pub use self::pending::ContendedEvents;
use super::error::{During, LogError};
use super::handle::Log;
use super::job::Sequenced;
use super::memory::SeenCheckpoint;
use super::sql::{self, postgres};
use domain::checkpoint::SignerKey;
use proofs::merkle;
use proofs::merkle::tile::{TileId, Tiles};

/// Time after which the lease of a silent sequencer expires. The lease only avoids duplicate work; the size of the tree and the fence
/// guarantee that a tree grows once.
const LEASE_MS: i64 = 2_000;

/// The clock of the database, read once.
#[derive(Debug, Clone, Copy)]
struct DatabaseTime {
    now_ms: i64,
    /// When the response was here, so that no later time is ahead of that clock.
    read_at: Instant,
}

impl DatabaseTime {
    fn at_ms(self, instant: Instant) -> i64 {
        let passed = instant.saturating_duration_since(self.read_at).as_millis();
        self.now_ms.saturating_add(i64::try_from(passed).unwrap_or(i64::MAX))
    }
}

impl Log {
    /// Releases the lease, so that another process need not wait until it expires.
    pub(super) async fn end_lease(&self) {
        let released = query(postgres::LEASE_END).bind(self.holder).execute(self.pool.writer()).await;
        if let Err(error) = released {
            tracing::debug!(
                error = domain::reasons(&error),
                "the lease of the sequencer could not be given back; it ends by itself"
            );
        }
    }

    /// The connection pool. Called only for logs without a writer, which are on PostgreSQL.
    fn postgres(&self) -> &PostgresPool {
        match &self.pool {
            Pool::Postgres(pool) => pool,
            Pool::Sqlite { .. } => unreachable!("the log of an SQLite file has a writer"),
        }
    }
}

impl Log {
    /// Assigns places to at most `events_max` events, under the lease.
    pub(super) async fn sequence_on_postgres(&self, events_max: u32) -> Result<Sequenced, LogError> {
        let state: sql::State =
            query(postgres::STATE).fetch_one(self.postgres()).await.during("read the state of the tree")?;
        let clock = DatabaseTime { now_ms: state.now_ms, read_at: Instant::now() };
        let size = u64::try_from(state.size).map_err(|_| LogError::Corrupt("tree.size"))?;
        let idle = Sequenced { added: 0, tree_size: size };
        let is_held_elsewhere =
            state.holder.is_some_and(|holder| holder != self.holder) && state.held_until_ms > clock.now_ms;
        if is_held_elsewhere {
            self.lease.lost();
        }
        let is_to_grow = state.waiting && !is_held_elsewhere;
        if !self.vouches_for(&state, is_to_grow).await? || !is_to_grow {
            return Ok(idle);
        }
        let Some(mut fence) = self.lease(clock).await? else { return Ok(idle) };
        let waiting = self.next_events(events_max).await?;
        if !self.lease.is_held() {
            // The search for predecessors took longer than the lease.
            let Some(renewed) = self.lease(clock).await? else { return Ok(idle) };
            fence = renewed;
        }
        if waiting.is_empty() {
            return Ok(idle);
        }
        let leaves = waiting.iter().map(|row| Digest::try_from(&row.leaf_hash[..]));
        let leaves: Vec<Digest> =
            leaves.collect::<Result<_, _>>().map_err(|_| LogError::Corrupt("events.leaf_hash"))?;
        let (tiles, touched, root) = self.grow(size, &state.root, &leaves).await?;
        let added = leaves.len() as u64;

        let seed: [u8; 32] = state.seed.try_into().map_err(|_| LogError::Corrupt("log_keys.seed"))?;
        let signer = SignerKey::from_seed(&state.name, &seed)?;
        let checkpoint = signer.sign(size + added, root);
        let vkey = signer.verifier().to_string();
        if vkey != state.vkey {
            // A new epoch started between the two reads; the next pass reads both rows again.
            return Ok(idle);
        }
        let tree = NewTree { size, before: state.root, added, root, checkpoint, vkey, fence };
        let events: Vec<i64> = waiting.iter().map(|row| row.event).collect();
        let won = self.store_tree(&tree, events, &tiles, touched).await?;
        Ok(if won {
            let NewTree { vkey, checkpoint, .. } = tree;
            self.memory.learn(SeenCheckpoint { vkey, checkpoint, size: size + added, root });
            Sequenced { added: u32::try_from(added).unwrap_or(u32::MAX), tree_size: size + added }
        } else {
            idle
        })
    }

    /// Acquires or renews the lease; returns the fence, or `None` while another process has the lease.
    async fn lease(&self, clock: DatabaseTime) -> Result<Option<i64>, LogError> {
        let asked = Instant::now();
        let lease = scalar(postgres::LEASE).bind(self.holder).bind(LEASE_MS).bind(clock.at_ms(asked));
        let fence: Option<i64> =
            lease.fetch_optional(self.pool.writer()).await.during("take the lease of the sequencer")?;
        match fence {
            Some(fence) => self.lease.taken(fence, asked + Duration::from_millis(LEASE_MS.unsigned_abs())),
            None => self.lease.lost(),
        }
        Ok(fence)
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
        events: Vec<i64>,
        tiles: &Tiles,
        touched: impl IntoIterator<Item = TileId>,
    ) -> Result<bool, LogError> {
        let touched: Vec<TileId> = touched.into_iter().collect();
        let levels: Vec<i64> = touched.iter().map(|name| i64::from(name.level)).collect();
        let places: Vec<i64> = touched.iter().map(|name| sql::whole(name.index)).collect::<Result<_, _>>()?;
        let hashes: Vec<Vec<u8>> = touched.iter().map(|name| tiles.bytes(*name)).collect();
        let size = sql::whole(tree.size)?;
        let grown = sql::whole(tree.size + tree.added)?;
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
                query(postgres::PLACE).bind(events).bind(size).execute(&mut *tx).await?;
                let hashes: Vec<&[u8]> = hashes.iter().map(Vec::as_slice).collect();
                query(postgres::TILES_PUT).bind(levels).bind(places).bind(hashes).execute(&mut *tx).await?;
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
    /// Root of the tree before the growth.
    before: Vec<u8>,
    added: u64,
    root: Digest,
    checkpoint: String,
    vkey: String,
    fence: i64,
}
