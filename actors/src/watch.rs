//! Reads changes that other processes made: another node, or an operator's command next to the running server.
//!
//! On PostgreSQL one connection of each node listens for hints of other processes (`docs/decisions/0029-several-nodes.md`), which this
//! actor passes on to the running actors. A hint may be lost, so the actor also reads the registrations and device codes changed since the
//! last pass, replaces rotated signing keys, puts overrides of settings and pauses in force, and executes orders to this node: every second
//! while no connection listens and for some seconds after a hint, otherwise every eight seconds. So polls need not read the store, and a
//! change made elsewhere takes effect within about a second.
//!
//! **If it crashes:** the next actor looks back by the overlap, and executes recent orders to all nodes again.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use chrono::TimeDelta;
use domain::act::ActOutcome;
use domain::ids::{EventId, NodeId};
use domain::node_order::{ExecutedOrder, NodeOrder, OrderAnswer};
use domain::secret::SecretHash;
use domain::{Clock, Timestamp};
use futures_util::future::BoxFuture;
use serde_json::json;
use store::change::{Change, ChangeListener};
use store::operator::OperatorChanges;
use store::setting::SettingOverride;
use store::{Store, StoreError};
use supervision::periodic::{Next, Pass, PassError, Waker};
use supervision::restart::delay_after;
use tokio::task::JoinHandle;

use crate::keys::KeyedActors;
use crate::service_pause::ServicePauses;

/// How far each pass looks back before the end of the last one: exceeds the clock skew of nodes and the time until a transaction is
/// visible.
const OVERLAP: TimeDelta = TimeDelta::seconds(10);

/// Maximum number of changes in a pass; the next pass continues there at once.
const CHANGES_MAX: usize = 10_000;

/// Silence of the connection after which it is probed.
const CHECK_EVERY: Duration = Duration::from_secs(10);

/// Minimum and maximum backoff before a new connection listens.
const LISTEN_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// A function that is set once the server is built. Clones are the same.
pub struct LateFunction<F>(Arc<OnceLock<F>>);

/// Puts overrides of settings in force.
pub type OverrideFollower =
    LateFunction<Box<dyn Fn(Vec<SettingOverride>) -> BoxFuture<'static, Result<(), PassError>> + Send + Sync>>;

/// Executes orders to this node.
pub type OrderExecutor = LateFunction<Box<dyn Fn(NodeOrder) -> BoxFuture<'static, ExecutedOrder> + Send + Sync>>;

impl<F> LateFunction<F> {
    /// Sets the function.
    pub fn set(&self, function: F) {
        // Only the first one has an effect.
        let _ = self.0.set(function);
    }
}

impl<F> Clone for LateFunction<F> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<F> Default for LateFunction<F> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<F> fmt::Debug for LateFunction<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LateFunction").finish_non_exhaustive()
    }
}

/// The pass that reads changes of other processes.
#[derive(Debug, Clone)]
pub struct ChangeFeed {
    /// The main database.
    pub store: Store,
    /// The clock of the server.
    pub clock: Clock,
    /// Receive hints about registrations and device codes, and are quarantined by operators.
    pub keyed: KeyedActors,
    /// How long retired keys still verify.
    pub keep_retired_for: TimeDelta,
    /// Puts overrides of settings in force.
    pub overrides: OverrideFollower,
    /// The pauses of this node.
    pub pauses: ServicePauses,
    /// This node.
    pub node: NodeId,
    /// Executes orders to this node.
    pub orders: OrderExecutor,
    /// Wakes this actor when a hint arrives.
    pub waker: Waker,
}

/// Read position, passed from one pass to the next.
#[derive(Debug, Default)]
pub struct ChangeCursor {
    registrations: TableCursor,
    /// Changes of registrations within the overlap, with the number of passes that saw each.
    told: HashMap<SecretHash, (Timestamp, u32)>,
    devices: TableCursor,
    ear: Option<Ear>,
    /// Orders that this node executed, with answers that are not stored yet.
    executed: HashMap<EventId, ExecutedOrder>,
}

/// The task that listens for hints; it ends with the actor.
#[derive(Debug)]
struct Ear {
    task: JoinHandle<()>,
    is_listening: Arc<AtomicBool>,
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Read position in one table.
#[derive(Debug, Default)]
struct TableCursor {
    until: Option<Timestamp>,
    /// The last pass read the maximum: the next one continues where it ended.
    behind: bool,
}

impl TableCursor {
    fn since(&self, now: Timestamp) -> Timestamp {
        match self.until {
            // Without the overlap: it was read when this catch-up started. With more changes than one page, looking back would never
            // advance.
            Some(until) if self.behind => until,
            until => until.unwrap_or(now) - OVERLAP,
        }
    }

    /// Stores the position after a read. Returns whether there may be more.
    fn on(&mut self, found: &[(SecretHash, Timestamp)], now: Timestamp) -> bool {
        self.behind = found.len() >= CHANGES_MAX;
        self.until = Some(found.last().filter(|_| self.behind).map_or(now, |(_, changed_at)| *changed_at));
        self.behind
    }
}

impl Pass for ChangeFeed {
    type Memory = ChangeCursor;

    async fn run(&self, seen: &mut ChangeCursor) -> Result<Next, PassError> {
        domain::failpoint!("watch.pass");
        // A finished task had no hints to listen for, or panicked.
        let ear = seen.ear.get_or_insert_with(|| self.listen());
        // Loaded before the reads: a change that commits after them is announced to a connection that already listens.
        let is_listening = ear.is_listening.load(Ordering::Acquire) && !ear.task.is_finished();
        let now = self.clock.now();
        let since = seen.registrations.since(now);
        let changes = self.store.registrations_changed_since(since, CHANGES_MAX).await?;
        let more_registrations = seen.registrations.on(&changes, now);
        seen.told.retain(|_, (changed_at, _)| *changed_at >= since - OVERLAP);
        for (claim_token, changed_at) in changes {
            let (told_at, looks) = seen.told.entry(claim_token).or_insert((changed_at, 0));
            if *told_at != changed_at {
                (*told_at, *looks) = (changed_at, 0);
            }
            *looks += 1;
            // Hints twice, with a pass in between: a ceremony may be starting from a row that was read before the change.
            if matches!(*looks, 1 | 3) {
                self.keyed.claims.hint(claim_token);
            }
        }
        let changes = self.store.devices_changed_since(seen.devices.since(now), CHANGES_MAX).await?;
        let more_devices = seen.devices.on(&changes, now);
        // Repeated within the overlap: a poller may be starting from a row that was read before the change. A poller that has the final
        // state does not read again.
        for (code, _) in changes {
            self.keyed.devices.hint(code);
        }
        let keys = self.store.assertion_keys(now, self.keep_retired_for).await?;
        self.keyed.claims.keyring().replace(&keys)?;
        let OperatorChanges { overrides, pauses, orders } = self.store.operator_changes(now).await?;
        let is_awaited = orders.iter().any(|order| order.node.is_some());
        let ends = overrides.iter().any(|found| found.until.is_some()) || !pauses.is_empty() || is_awaited;
        if let Some(follow) = self.overrides.0.get() {
            follow(overrides).await?;
        }
        self.keyed.quarantine(&pauses, now);
        self.pauses.replace(pauses);
        self.execute_orders(&orders, seen, now).await?;
        Ok(if more_registrations || more_devices {
            Next::AtOnce
        } else if is_listening && !ends {
            Next::Idle
        } else {
            Next::AfterPause
        })
    }
}

impl ChangeFeed {
    /// Executes the orders to this node and to all, and fails orders without an answer in time, of a node that stopped.
    async fn execute_orders(
        &self,
        open: &[NodeOrder],
        seen: &mut ChangeCursor,
        now: Timestamp,
    ) -> Result<(), PassError> {
        seen.executed.retain(|id, _| open.iter().any(|order| order.id == *id));
        for order in open {
            let is_mine = order.node.is_none_or(|node| node == self.node);
            let executed = match (seen.executed.get(&order.id), self.orders.0.get()) {
                (Some(executed), _) => executed.clone(),
                (None, _) if order.until <= now => unanswered(order),
                (None, Some(execute)) if is_mine => execute(order.clone()).await,
                _ => continue,
            };
            // If the answer cannot be stored, the next pass stores it and does not execute the order again.
            seen.executed.insert(order.id, executed.clone());
            if order.node.is_some() {
                self.store.node_order_settle(order, &executed, self.clock.now()).await?;
            }
        }
        Ok(())
    }

    fn listen(&self) -> Ear {
        let is_listening = Arc::default();
        let task = tokio::spawn(self.clone().receive(Arc::clone(&is_listening)));
        Ear { task, is_listening }
    }

    /// Receives hints until the listener ends. A lost connection is replaced with a growing delay.
    async fn receive(self, is_listening: Arc<AtomicBool>) {
        let listening = metrics::gauge!("attache_changes_listening");
        let mut failures = 0;
        loop {
            let lost = match self.store.changes_listen().await {
                Ok(None) => return,
                Ok(Some(mut listener)) => {
                    if failures > 0 {
                        tracing::info!("changes of other nodes are announced again");
                    }
                    failures = 0;
                    is_listening.store(true, Ordering::Release);
                    listening.set(1.0);
                    // Changes before this moment were not announced to this connection.
                    self.waker.wake();
                    self.hear(&mut listener).await
                }
                Err(error) => error,
            };
            is_listening.store(false, Ordering::Release);
            listening.set(0.0);
            self.waker.wake();
            failures += 1;
            if failures == 1 {
                tracing::warn!(
                    error = domain::reasons(&lost),
                    "the connection that listens for changes is lost; changes of other nodes are read every second until another listens"
                );
            }
            tokio::time::sleep(delay_after(failures, LISTEN_AGAIN.0, LISTEN_AGAIN.1)).await;
        }
    }

    /// Passes hints on until the connection is lost; returns why.
    async fn hear(&self, listener: &mut ChangeListener) -> StoreError {
        loop {
            let result = match tokio::time::timeout(CHECK_EVERY, listener.next()).await {
                Ok(Ok(change)) => {
                    match change {
                        Change::Registration(claim_token) => self.keyed.claims.hint(claim_token),
                        Change::Device(code) => self.keyed.devices.hint(code),
                        Change::Others => {}
                    }
                    // An actor may be starting from a row that was read before the change: the following passes hint again.
                    self.waker.wake();
                    Ok(())
                }
                Ok(Err(error)) => Err(error),
                Err(_) => listener.check().await,
            };
            if let Err(error) = result {
                return error;
            }
        }
    }
}

/// The outcome of an order that its node did not execute in time.
fn unanswered(order: &NodeOrder) -> ExecutedOrder {
    let body = json!({ "error": "node_did_not_answer", "detail": "the node did not answer in time" });
    ExecutedOrder { act: order.act.clone(), outcome: ActOutcome::Failed, answer: OrderAnswer { status: 504, body } }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use domain::Rng;
    use domain::secret::{Secret, SecretKind};

    use super::*;

    #[test]
    fn dense_changes_are_all_found_and_looking_ends() {
        let rng = Rng::seeded(1);
        let now = Timestamp::UNIX_EPOCH + TimeDelta::days(1);
        // 35,000 changes within the last seven seconds: more than one page, within less than the overlap.
        let rows: Vec<_> = (0..35_000)
            .map(|row| {
                let code = Secret::mint(SecretKind::DeviceCode, &rng).hash();
                (code, now - TimeDelta::milliseconds(7_000 - row / 5))
            })
            .collect();
        let mut looked = TableCursor::default();
        let (mut codes, mut looks) = (HashSet::new(), 0);
        loop {
            let since = looked.since(now);
            let look: Vec<_> = rows.iter().filter(|(_, at)| *at >= since).take(CHANGES_MAX).copied().collect();
            looks += 1;
            codes.extend(look.iter().map(|(code, _)| *code));
            if !looked.on(&look, now) {
                break;
            }
            assert!(looks < 10, "it does not get on");
        }
        assert_eq!((looks, codes.len()), (4, rows.len()));
        let later = now + TimeDelta::seconds(1);
        assert_eq!(looked.since(later), now - OVERLAP, "the next pass looks back again");
    }
}
