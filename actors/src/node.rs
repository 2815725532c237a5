//! Writes this node into the table of nodes, synchronises its clock with the database's, and reads the other nodes
//! (`docs/decisions/0029-several-nodes.md`).
//!
//! Every five seconds it writes one row and reads the whole table. A difference from another node (settings, version, a wrong clock,
//! silence) is
//! logged when it appears and when it ends, and `/readyz` shows it as a degradation.
//!
//! **If it crashes:** the next pass writes the row again; other nodes call this one silent after 15 seconds without a row.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use chrono::TimeDelta;
use domain::actor_key::CrashRecord;
use domain::ids::NodeId;
use domain::node::{Difference, DifferenceKind, NodeRecord, NodeTraits, SettingPrints, differences};
use domain::{Clock, Digest};
use serde_json::Value;
use statistics::log::Log;
use store::node::NodeBeat;
use store::{Store, StoreError};
use supervision::periodic::{Next, Pass, PassError};

/// Readiness of the node, as in `/readyz`, and what other nodes show of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// Why it is not ready; `None` if it is ready.
    pub unready: Option<String>,
    /// Whether it is shutting down.
    pub is_draining: bool,
    /// Keys with recently crashed actors.
    pub crashed_keys: Vec<CrashRecord>,
    /// The tree of actors; JSON null if the supervisor did not answer.
    pub tree: Value,
}

/// Finds out whether the node is ready; `None` once the server is gone.
pub type StandingProbe = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Option<Standing>> + Send>> + Send + Sync>;

/// This node among the others. Clones are the same.
#[derive(Debug, Clone)]
pub struct NodeTable(Arc<State>);

struct State {
    store: Store,
    clock: Clock,
    /// The embedded log, if there is one.
    log: Option<Log>,
    /// Name of this process as a holder of leases of batches.
    runner: String,
    traits: ArcSwap<NodeTraits>,
    introduced: OnceLock<Introduced>,
    seen: Mutex<SeenNodes>,
}

/// Properties of the bound listeners.
struct Introduced {
    address: String,
    operator_address: String,
    standing: StandingProbe,
}

/// The nodes at the last look.
#[derive(Debug, Clone, Default)]
pub struct SeenNodes {
    /// How far the machine's clock is ahead of the database's.
    pub clock_ahead: TimeDelta,
    /// All nodes but this one, silent ones too.
    pub others: Vec<NodeRecord>,
    /// Differences between nodes, including clock skew of this node.
    pub differences: Vec<Difference>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeTable").field("traits", &self.traits).finish_non_exhaustive()
    }
}

impl NodeTable {
    /// A node without a row until it is introduced. `traits` has no addresses yet.
    pub fn new(store: Store, clock: Clock, log: Option<Log>, runner: String, traits: NodeTraits) -> Self {
        let (introduced, seen) = (OnceLock::new(), Mutex::default());
        let traits = ArcSwap::from_pointee(traits);
        Self(Arc::new(State { store, clock, log, runner, traits, introduced, seen }))
    }

    /// Publishes this node from the next pass on: the addresses of its listeners, and its readiness probe.
    pub fn introduce(&self, address: String, operator_address: String, standing: StandingProbe) {
        // Only the first introduction has an effect.
        let _ = self.0.introduced.set(Introduced { address, operator_address, standing });
    }

    /// Publishes other settings from the next pass on.
    pub fn reconfigure(&self, configuration: Digest, settings: SettingPrints) {
        let traits = NodeTraits { configuration, settings, ..NodeTraits::clone(&self.traits()) };
        self.0.traits.store(Arc::new(traits));
    }

    /// The id of this node.
    pub fn id(&self) -> NodeId {
        self.0.traits.load().id
    }

    /// The properties of this node, without the addresses of its listeners.
    pub fn traits(&self) -> Arc<NodeTraits> {
        self.0.traits.load_full()
    }

    /// The nodes at the last look.
    pub fn seen(&self) -> SeenNodes {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Deletes the row of this node, when it stops.
    #[boxed]
    pub async fn leave(&self) -> Result<(), StoreError> {
        if self.0.introduced.get().is_none() {
            return Ok(());
        }
        self.0.store.node_remove(self.id()).await
    }

    /// Writes the row of this node.
    async fn beat(&self, introduced: &Introduced, clock_ahead: TimeDelta, is_first: bool) -> Result<(), StoreError> {
        let State { store, clock, log, runner, .. } = &*self.0;
        // If the server has stopped, the row has no reader.
        let standing = (introduced.standing)().await.unwrap_or_default();
        let traits = NodeTraits {
            address: introduced.address.clone(),
            operator_address: introduced.operator_address.clone(),
            clock_ahead,
            ..NodeTraits::clone(&self.traits())
        };
        if is_first {
            store.node_succeed(&traits).await?;
        }
        let beat = NodeBeat {
            traits: &traits,
            unready: standing.unready.as_deref(),
            is_draining: standing.is_draining,
            has_sequencer: log.as_ref().is_some_and(Log::is_sequencer),
            runner,
            crashed_keys: &standing.crashed_keys,
            tree: &standing.tree,
        };
        store.node_beat(&beat, clock.now()).await
    }
}

/// The pass that writes and reads the table.
#[derive(Debug, Clone)]
pub struct NodePass(pub NodeTable);

/// The logged differences, so that each difference is logged once.
#[derive(Debug, Default)]
pub struct Logged {
    has_beaten: bool,
    /// The nodes with valid leases; when the set changes, the leases of nodes that left end.
    nodes: Option<BTreeSet<NodeId>>,
    differences: BTreeMap<(NodeId, DifferenceKind), String>,
}

impl Pass for NodePass {
    type Memory = Logged;

    async fn run(&self, logged: &mut Logged) -> Result<Next, PassError> {
        domain::failpoint!("node.pass");
        let State { store, clock, introduced, seen, .. } = &*self.0.0;
        let traits = self.0.traits();
        let ahead = store.clock_follow(clock).await?;
        let clock_ahead = ahead.unwrap_or_else(|| self.0.seen().clock_ahead);
        metrics::gauge!("attache_node_clock_offset_seconds").set(clock_ahead.as_seconds_f64());
        let Some(introduced) = introduced.get() else { return Ok(Next::AfterPause) };
        self.0.beat(introduced, clock_ahead, !logged.has_beaten).await?;
        logged.has_beaten = true;
        let nodes = store.nodes(clock.now()).await?;
        let ids: BTreeSet<NodeId> = nodes.iter().map(|node| node.traits.id).collect();
        if logged.nodes.as_ref() != Some(&ids) {
            let leases = store.leases_take_over(clock.now()).await?;
            if leases > 0 {
                tracing::info!(
                    leases,
                    "leases of nodes that ended are over, so their notifications and mails are sent again"
                );
            }
            logged.nodes = Some(ids);
        }
        let alive = nodes.iter().filter(|node| !node.is_silent()).count();
        metrics::gauge!("attache_nodes").set(f64::from(u32::try_from(alive).unwrap_or(u32::MAX)));
        let current = differences(&traits.configuration, &traits.settings, &traits.version, &nodes);
        logged.compare(&current);
        let others = nodes.into_iter().filter(|node| node.traits.id != traits.id).collect();
        *seen.lock().unwrap_or_else(PoisonError::into_inner) = SeenNodes { clock_ahead, others, differences: current };
        Ok(Next::AfterPause)
    }
}

impl Logged {
    /// Logs the new differences and the resolved ones.
    fn compare(&mut self, found: &[Difference]) {
        let now: BTreeMap<_, _> = found.iter().map(|found| ((found.node, found.kind), found.text.clone())).collect();
        for ((id, _), text) in now.iter().filter(|(key, _)| !self.differences.contains_key(key)) {
            tracing::warn!(node.id = %id, "nodes differ: {text}");
        }
        for ((id, _), text) in self.differences.iter().filter(|(key, _)| !now.contains_key(key)) {
            tracing::info!(node.id = %id, "nodes no longer differ: {text}");
        }
        self.differences = now;
    }
}

#[cfg(test)]
mod tests {
    use domain::{Rng, Timestamp};

    use super::*;

    #[test]
    fn a_difference_is_kept_until_it_ends() {
        let node = NodeId::from(Rng::seeded(1).uuid_v7(Timestamp::UNIX_EPOCH));
        let difference = |text: &str| Difference { node, kind: DifferenceKind::Clock, text: text.to_owned() };
        let mut logged = Logged::default();
        for (found, kept) in [(vec![difference("3 s")], 1), (vec![difference("4 s")], 1), (vec![], 0)] {
            logged.compare(&found);
            assert_eq!(logged.differences.len(), kept);
        }
    }
}
