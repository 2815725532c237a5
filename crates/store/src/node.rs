//! The nodes on this database, and their clocks (`docs/decisions/0029-several-nodes.md`).

use std::time::Duration;

use chrono::TimeDelta;
use domain::actor_key::CrashRecord;
use domain::ids::NodeId;
use domain::node::{NodeRecord, NodeTraits};
use domain::{Clock, Timestamp};
use serde_json::{Value, json};
use tokio::time::Instant;
use uuid::Uuid;

use crate::error::{Corrupt, StoreError};
use crate::operation::{During, Operation};
use crate::pool::query;
use crate::row::{count, digest, storable};
use crate::{Store, joined};

/// A slower response is ignored: the server may have read its clock at any time within the round trip.
const ROUND_TRIP_MAX: Duration = Duration::from_millis(500);

/// The row of a node, without the time.
#[derive(Debug, Clone, Copy)]
pub struct NodeBeat<'a> {
    /// Its traits.
    pub traits: &'a NodeTraits,
    /// Why it is not ready; `None` while it is.
    pub unready: Option<&'a str>,
    /// Whether it is shutting down.
    pub is_draining: bool,
    /// Whether it has the lease of the log's sequencer.
    pub has_sequencer: bool,
    /// Its name as a holder of batch leases.
    pub runner: &'a str,
    /// Keys with recently crashed actors.
    pub crashed_keys: &'a [CrashRecord],
    /// Its tree of actors.
    pub tree: &'a Value,
}

const BEAT: &str = "INSERT INTO nodes (id, name, address, operator_address, version, configuration, started_at,
        clock_ahead_ms, unready, is_draining, has_sequencer, batches, settings, crashed_keys,
        tree, last_beat_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11,
        (SELECT COUNT(*) FROM batches WHERE state = 'running' AND runner = $12), $13, $14, $15, ";
const BEAT_AGAIN: &str = ") ON CONFLICT (id) DO UPDATE SET clock_ahead_ms = excluded.clock_ahead_ms,
    unready = excluded.unready, is_draining = excluded.is_draining, has_sequencer = excluded.has_sequencer,
    batches = excluded.batches, crashed_keys = excluded.crashed_keys, tree = excluded.tree, last_beat_at = excluded.last_beat_at";

const LIST: &str = "SELECT id, name, address, operator_address, version, configuration, started_at, clock_ahead_ms,
    unready, is_draining, has_sequencer, batches, settings, crashed_keys, last_beat_at, ";
const LISTED: &str = " AS read_at FROM nodes ORDER BY id";

impl Store {
    /// Sets `clock` to the database's clock, and returns how far the machine's clock is ahead of it. `None` for a simulated clock, on
    /// SQLite, which has no clock, and if the response was too slow.
    #[boxed]
    pub async fn clock_follow(&self, clock: &Clock) -> Result<Option<TimeDelta>, StoreError> {
        let asked_at = Instant::now();
        let Some(read) = self.pool.now().await? else { return Ok(None) };
        let round_trip = asked_at.elapsed();
        let Some(machine) = clock.machine_now().filter(|_| round_trip <= ROUND_TRIP_MAX) else { return Ok(None) };
        let now = read + TimeDelta::from_std(round_trip / 2).unwrap_or_default();
        clock.follow(now);
        Ok(Some(machine - now))
    }

    /// Writes the row of a node. The time is the database's; `now` on SQLite.
    #[boxed]
    pub async fn node_beat(&self, beat: &NodeBeat<'_>, now: Timestamp) -> Result<(), StoreError> {
        const ON_SQLITE: &str = joined!(BEAT, "$16", BEAT_AGAIN);
        const ON_POSTGRES: &str = joined!(BEAT, "clock_timestamp()", BEAT_AGAIN);
        let NodeTraits {
            id,
            name,
            address,
            operator_address,
            version,
            configuration,
            settings,
            started_at,
            clock_ahead,
        } = beat.traits;
        let settings = serde_json::to_string(settings).unwrap_or_default();
        let crashed_keys = json!(beat.crashed_keys).to_string();
        let (name, unready) = (storable(name), beat.unready.map(storable));
        let is_postgres = self.pool.is_postgres();
        let statement = query(if is_postgres { ON_POSTGRES } else { ON_SQLITE })
            .bind(id.as_uuid())
            .bind(&*name)
            .bind(address)
            .bind(operator_address)
            .bind(version)
            .bind(&configuration.as_bytes()[..])
            .bind(*started_at)
            .bind(clock_ahead.num_milliseconds())
            .bind(unready.as_deref())
            .bind(beat.is_draining)
            .bind(beat.has_sequencer)
            .bind(beat.runner)
            .bind(&settings)
            .bind(&crashed_keys)
            .bind(beat.tree.to_string());
        let statement = if is_postgres { statement } else { statement.bind(now) };
        statement.execute(self.pool.writer()).during(Operation::WriteNode).await.map(drop)
    }

    /// All nodes by id, which is the order of their starts, including silent ones. The time since the last write is measured by the
    /// database's clock; by `now` on SQLite.
    #[boxed]
    pub async fn nodes(&self, now: Timestamp) -> Result<Vec<NodeRecord>, StoreError> {
        const ON_SQLITE: &str = joined!(LIST, "$1", LISTED);
        const ON_POSTGRES: &str = joined!(LIST, "clock_timestamp()", LISTED);
        let is_postgres = self.pool.is_postgres();
        let statement = query(if is_postgres { ON_POSTGRES } else { ON_SQLITE });
        let statement = if is_postgres { statement } else { statement.bind(now) };
        let rows: Vec<NodeRow> = statement.fetch_all(&self.pool).during(Operation::ListNodes).await?;
        Ok(rows.into_iter().map(NodeRecord::try_from).collect::<Result<_, Corrupt>>()?)
    }

    /// The tree of actors of a node when it last wrote its row; `None` without a row.
    #[boxed]
    pub async fn node_tree(&self, id: NodeId) -> Result<Option<Value>, StoreError> {
        const SQL: &str = "SELECT tree FROM nodes WHERE id = $1";
        let row = query(SQL).bind(id.as_uuid()).fetch_optional(&self.pool);
        let row: Option<TreeRow> = row.during(Operation::ListNodes).await?;
        let tree = row.map(|row| serde_json::from_str(&row.tree)).transpose();
        Ok(tree.map_err(|error| Corrupt::new("nodes.tree", error))?)
    }

    /// Deletes the row of a stopping node.
    #[boxed]
    pub async fn node_remove(&self, id: NodeId) -> Result<(), StoreError> {
        const SQL: &str = "DELETE FROM nodes WHERE id = $1";
        query(SQL).bind(id.as_uuid()).execute(self.pool.writer()).during(Operation::RemoveNode).await.map(drop)
    }

    /// Deletes the rows of earlier processes with the name and operator's address of this node; on SQLite, which permits one server, all
    /// other rows. A running node writes its row again if it was deleted by mistake.
    #[boxed]
    pub async fn node_succeed(&self, node: &NodeTraits) -> Result<(), StoreError> {
        const ON_SQLITE: &str = "DELETE FROM nodes WHERE id <> $1";
        const ON_POSTGRES: &str = "DELETE FROM nodes WHERE id <> $1 AND name = $2 AND operator_address = $3";
        let statement = if self.pool.is_postgres() {
            query(ON_POSTGRES).bind(node.id.as_uuid()).bind(&*node.name).bind(&*node.operator_address)
        } else {
            query(ON_SQLITE).bind(node.id.as_uuid())
        };
        statement.execute(self.pool.writer()).during(Operation::RemoveNode).await.map(drop)
    }
}

impl Store {
    /// Sets the node that holds leases of endpoints and mails.
    #[must_use]
    pub fn with_holder(mut self, node: NodeId) -> Self {
        self.holder = Some(node);
        self
    }

    /// The holder of leases, as a column value.
    pub(crate) fn holder(&self) -> Option<Uuid> {
        self.holder.map(|node| node.as_uuid())
    }

    /// Ends the leases of nodes without a row on endpoints and mails: they stopped or were replaced. Returns the number of leases.
    #[boxed]
    pub async fn leases_take_over(&self, now: Timestamp) -> Result<u64, StoreError> {
        const WEBHOOKS: &str = "UPDATE webhooks SET lease = NULL, leased_until = $1
            WHERE lease IS NOT NULL AND leased_by IS NOT NULL AND leased_by <> $2
                AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.id = leased_by)";
        const MAILS: &str = "UPDATE mails SET next_try_at = $1, leased_by = NULL
            WHERE leased_by IS NOT NULL AND leased_by <> $2 AND sent_at IS NULL AND given_up_at IS NULL
                AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.id = leased_by)";
        let Some(node) = self.holder() else { return Ok(0) };
        let mut ended = 0;
        for sql in [WEBHOOKS, MAILS] {
            let leases = query(sql).bind(now).bind(node).execute(self.pool.writer());
            ended += leases.during(Operation::TakeOverLeases).await?;
        }
        Ok(ended)
    }
}

crate::row! {
    struct TreeRow {
        tree: String,
    }
}

crate::row! {
    struct NodeRow {
        id: Uuid,
        name: String,
        address: String,
        operator_address: String,
        version: String,
        configuration: Vec<u8>,
        started_at: Timestamp,
        clock_ahead_ms: i64,
        unready: Option<String>,
        is_draining: bool,
        has_sequencer: bool,
        batches: i64,
        settings: String,
        crashed_keys: String,
        last_beat_at: Timestamp,
        read_at: Timestamp,
    }
}

impl TryFrom<NodeRow> for NodeRecord {
    type Error = Corrupt;

    fn try_from(row: NodeRow) -> Result<Self, Corrupt> {
        Ok(Self {
            traits: NodeTraits {
                id: row.id.into(),
                name: row.name,
                address: row.address,
                operator_address: row.operator_address,
                version: row.version,
                configuration: digest("nodes.configuration", &row.configuration)?,
                settings: serde_json::from_str(&row.settings).map_err(|error| Corrupt::new("nodes.settings", error))?,
                started_at: row.started_at,
                clock_ahead: TimeDelta::try_milliseconds(row.clock_ahead_ms)
                    .ok_or_else(|| Corrupt::new("nodes.clock_ahead_ms", "out of range"))?,
            },
            unready: row.unready,
            is_draining: row.is_draining,
            has_sequencer: row.has_sequencer,
            batches: count("nodes.batches", row.batches)?,
            crashed_keys: serde_json::from_str(&row.crashed_keys)
                .map_err(|error| Corrupt::new("nodes.crashed_keys", error))?,
            last_beat_at: row.last_beat_at,
            silent_for: (row.read_at - row.last_beat_at).max(TimeDelta::zero()),
        })
    }
}
