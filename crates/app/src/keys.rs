//! Keys of actors for operators: crashes, quarantines and orders to all nodes (`docs/decisions/0043-one-key.md`).

use actors::keys::KeyedActors;
use actors::{claim, device, ingest};
use chrono::TimeDelta;
use domain::Timestamp;
use domain::act::{ActOutcome, OperatorAct};
use domain::actor_key::{ActorKey, CrashRecord, KeyedKind};
use domain::clock::date_time;
use domain::ids::UserAccountId;
use domain::node_order::NodeOrder;
use domain::service_pause::{PausedFor, ServicePause};
use store::StoreError;
use supervision::Facts;
use wire::ops::{KeyActor, KeyEntry, KeyFact, KeyShown};

use crate::acts::Acting;
use crate::{App, host_name};

/// Time for which a node that was cut off still executes an order to all nodes.
const ORDER_LASTS: TimeDelta = TimeDelta::minutes(10);

/// Keys of one kind in the list of an account.
const OF_ACCOUNT_MAX: usize = 200;

/// Why a key is not released.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseRefusal {
    /// No node and no operator has it in quarantine.
    #[error("{0} is in no quarantine: `attache admin actor crashed` lists the keys that are")]
    NotQuarantined(ActorKey),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl App {
    /// The actors of all keyed kinds.
    pub fn keyed_actors(&self) -> KeyedActors {
        let (claims, devices, ingestion) = (self.claims.clone(), self.devices.clone(), self.ingestion.clone());
        KeyedActors { claims, devices, ingestion }
    }

    /// The crashes of this node, and of other nodes as their rows have them.
    fn crashes(&self, now: Timestamp) -> Vec<(String, CrashRecord)> {
        let own = self.keyed_actors().crashed(now).into_iter().map(|record| (host_name(), record));
        let others = self.nodes.seen().others.into_iter().filter(|node| !node.is_silent());
        let of_others = others.flat_map(|node| {
            let name = node.traits.name;
            node.crashed_keys.into_iter().map(move |record| (name.clone(), record))
        });
        own.chain(of_others).collect()
    }

    /// The keys that operators have quarantined, and those with recently crashed actors, most crashes first; of one kind or of all.
    #[boxed]
    pub async fn keys(&self, kind: Option<KeyedKind>) -> Result<Vec<KeyEntry>, StoreError> {
        let now = self.clock.now();
        let mut crashes = self.crashes(now);
        crashes.sort_by(|(_, one), (_, other)| other.crashes.cmp(&one.crashes).then_with(|| one.key.cmp(&other.key)));
        let pauses = self.store.service_pauses(now).await?;
        let by_operators = pauses.iter().filter_map(of_operator);
        let by_crashes = crashes.into_iter().filter_map(|(node, record)| of_crashes(node, record, now));
        let mut keys: Vec<KeyEntry> = by_operators.chain(by_crashes).collect();
        keys.retain(|entry| kind.is_none_or(|kind| kind.as_str() == entry.kind));
        Ok(keys)
    }

    /// The keys of an account: its agents, computers and batches, the newest 200 of each, with their crashes and quarantines.
    #[boxed]
    pub async fn keys_of_account(&self, account: &UserAccountId) -> Result<Vec<KeyEntry>, StoreError> {
        let (agents, computers, batches) = tokio::try_join!(
            self.store.agents_of_account(account, OF_ACCOUNT_MAX),
            self.store.computers_of_account(account, OF_ACCOUNT_MAX),
            self.store.batches_of_account(account, OF_ACCOUNT_MAX)
        )?;
        let agents = agents.iter().map(|agent| ActorKey { kind: KeyedKind::Claims, id: agent.id.as_uuid() });
        let computers =
            computers.iter().map(|computer| ActorKey { kind: KeyedKind::Devices, id: computer.machine_uuid.as_uuid() });
        let batches = batches.iter().map(|batch| ActorKey { kind: KeyedKind::Batches, id: batch.id.as_uuid() });
        let own: Vec<ActorKey> = agents.chain(computers).chain(batches).collect();
        let is_own =
            |entry: &KeyEntry, key: &ActorKey| entry.kind == key.kind.as_str() && entry.key == key.id.to_string();
        let mut entries = self.keys(None).await?;
        entries.retain(|entry| own.iter().any(|key| is_own(entry, key)));
        let calm: Vec<KeyEntry> =
            own.iter().filter(|key| !entries.iter().any(|entry| is_own(entry, key))).map(calm).collect();
        entries.extend(calm);
        Ok(entries)
    }

    /// One key: its crashes and quarantines, its actor on this node, and its state with the row.
    #[boxed]
    pub async fn key(&self, key: ActorKey) -> Result<KeyShown, StoreError> {
        let (kind, id) = (key.kind.as_str(), key.id.to_string());
        let mut entries = self.keys(Some(key.kind)).await?;
        entries.retain(|entry| entry.key == id);
        let row = match key.kind {
            KeyedKind::Claims => {
                let row = self.store.registration_by_id(key.id.into()).await?;
                row.map(|(registration, attempt)| claim::facts(&registration, attempt.as_ref()))
            }
            KeyedKind::Devices => self.store.device_newest(key.id.into()).await?.map(|code| device::facts(&code)),
            KeyedKind::Batches => self.store.batch_by_id(key.id.into(), None).await?.map(|batch| ingest::facts(&batch)),
        };
        let state = self.keyed_actors().state(&key);
        let actor = state.as_ref().map(|state| KeyActor {
            node: host_name(),
            queued: state.queued,
            unmoved_ms: state.unmoved_ms,
            busy: state.facts.is_none(),
        });
        let facts = beside(state.and_then(|state| state.facts).unwrap_or_default(), row.unwrap_or_default());
        Ok(KeyShown { kind: kind.to_owned(), key: id, entries, actor, facts })
    }

    /// Ends each quarantine of a key: an operator's, and the automatic ones of all nodes. The act is recorded with it.
    #[boxed]
    pub async fn release_key(&self, acting: &Acting, act: OperatorAct, key: ActorKey) -> Result<(), ReleaseRefusal> {
        let now = self.clock.now();
        let pauses = self.store.service_pauses(now).await?;
        let pause = pauses.iter().find(|pause| pause.scope == PausedFor::Key(key));
        let name = key.to_string();
        let is_crashed = self.crashes(now).iter().any(|(_, record)| record.key == name && record.is_quarantined(now));
        if pause.is_none() && !is_crashed {
            acting.record(ActOutcome::Refused).await?;
            return Err(ReleaseRefusal::NotQuarantined(key));
        }
        Ok(self.order_all(acting, act, pause).await?)
    }

    /// Orders all nodes to execute an act, which is recorded with the order, and ends a pause.
    #[boxed]
    pub async fn order_all(
        &self,
        acting: &Acting,
        act: OperatorAct,
        pause: Option<&ServicePause>,
    ) -> Result<(), StoreError> {
        let now = self.clock.now();
        let order = NodeOrder { id: acting.id, node: None, act, dry_run: false, until: now + ORDER_LASTS };
        let added = acting.store.node_order_all(&order, pause.map(|pause| pause.id), now).await;
        Ok(acting.settle(added).await?)
    }
}

/// The values of an actor and of its row.
fn beside(actor: Facts, row: Facts) -> Vec<KeyFact> {
    let mut row: Vec<(&str, String)> = row;
    let mut facts = Vec::new();
    for (name, own) in actor {
        let stored = row.iter().position(|(other, _)| *other == name).map(|place| row.remove(place).1);
        let differs = stored.as_ref().is_some_and(|stored| *stored != own);
        facts.push(KeyFact { name: name.to_owned(), actor: Some(own), row: stored, differs });
    }
    let only_stored = |(name, value): (&str, String)| KeyFact {
        name: name.to_owned(),
        actor: None,
        row: Some(value),
        differs: false,
    };
    facts.extend(row.into_iter().map(only_stored));
    facts
}

/// The entry of a key that has not crashed and is in no quarantine.
fn calm(key: &ActorKey) -> KeyEntry {
    KeyEntry {
        node: None,
        kind: key.kind.as_str().to_owned(),
        key: key.id.to_string(),
        crashes: 0,
        error: None,
        request_id: None,
        last_crash_at: None,
        quarantined_until: None,
        quarantined_by: None,
        reason: None,
    }
}

fn of_operator(pause: &ServicePause) -> Option<KeyEntry> {
    let PausedFor::Key(key) = pause.scope else { return None };
    Some(KeyEntry {
        quarantined_until: Some(date_time(pause.until)),
        quarantined_by: Some(pause.set_by.clone()),
        reason: Some(pause.reason.clone()),
        ..calm(&key)
    })
}

fn of_crashes(node: String, record: CrashRecord, now: Timestamp) -> Option<KeyEntry> {
    let until = record.quarantined_until.filter(|until| *until > now);
    let (kind, key) = record.key.split_once(':')?;
    Some(KeyEntry {
        node: Some(node),
        kind: kind.to_owned(),
        key: key.to_owned(),
        crashes: record.crashes,
        error: Some(record.error),
        request_id: record.request_id,
        last_crash_at: Some(date_time(record.last_crash_at)),
        quarantined_until: until.map(date_time),
        quarantined_by: None,
        reason: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_actor_and_row_have_differently_is_marked() {
        let of =
            |facts: &[(&'static str, &str)]| facts.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let actor = of(&[("state", "pending"), ("total", "3"), ("last_poll", "1 s ago")]);
        let row = of(&[("total", "3"), ("state", "denied"), ("account", "a1")]);
        let facts = beside(actor, row);
        let shown: Vec<_> = facts
            .iter()
            .map(|fact| (fact.name.as_str(), fact.actor.as_deref(), fact.row.as_deref(), fact.differs))
            .collect();
        assert_eq!(
            shown,
            [
                ("state", Some("pending"), Some("denied"), true),
                ("total", Some("3"), Some("3"), false),
                ("last_poll", Some("1 s ago"), None, false),
                ("account", None, Some("a1"), false),
            ]
        );
    }
}
