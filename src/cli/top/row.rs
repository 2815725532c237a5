//! The rows: each actor of a node, and below a family its busy, crashed and quarantined keys.

use std::collections::BTreeMap;

use domain::ids::NodeId;
use supervision::root::{BusyKey, LastPass, MessageTimes, Node};
use wire::ops::KeyEntry;

use super::snapshot::{ActorTree, Snapshot};
use crate::admin::words;

/// Identifies a row in each snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowId {
    /// Id of the node.
    pub node: NodeId,
    /// Name of the actor in the tree.
    pub actor: String,
    /// The key, for a row of one.
    pub key: Option<String>,
}

/// An actor, or a key of a family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopRow {
    /// Identifies the row.
    pub id: RowId,
    /// Name of the host of the node.
    pub node: String,
    /// Kind of the actor.
    pub kind: String,
    /// The phase of its life, or the state of the key.
    pub state: &'static str,
    /// Number of actors; `None` for a key.
    pub live: Option<u64>,
    /// Messages that wait or are being handled.
    pub queued: u64,
    /// Milliseconds since it last finished a message although others wait; for a family the longest of its keys.
    pub unmoved_ms: Option<u64>,
    /// Messages and times of the last minutes.
    pub times: Option<MessageTimes>,
    /// The last pass of a periodic actor.
    pub pass: Option<LastPass>,
    /// Restarts of an actor since the start of the process, or recent crashes of a key.
    pub crashes: u64,
    /// Restarts that are left, while the budget is not whole.
    pub restarts_left: Option<u32>,
    /// Keys in quarantine; for a key 1 if it is.
    pub quarantined: u64,
    /// The newest error, or the operator's quarantine.
    pub trouble: Option<String>,
    /// Crashes and quarantines of a key.
    pub entries: Vec<KeyEntry>,
}

/// An actor with the rows of its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Family {
    /// The row of the actor itself.
    pub actor: TopRow,
    /// Its busy, crashed and quarantined keys; empty unless it is a family.
    pub keys: Vec<TopRow>,
}

impl TopRow {
    /// Whether an operator or crashes quarantined the key.
    pub fn is_quarantined_key(&self) -> bool {
        self.entries.iter().any(|entry| entry.quarantined_until.is_some())
    }

    /// Whether it needs attention.
    pub fn is_troubled(&self) -> bool {
        self.trouble.is_some() || self.quarantined > 0
    }

    /// The actor, or kind and key, as commands take it.
    pub fn name(&self) -> String {
        match &self.id.key {
            Some(key) => format!("{}:{key}", self.kind),
            None => self.id.actor.clone(),
        }
    }
}

/// The rows of all nodes of a snapshot, in the order of their trees.
pub fn families(snapshot: &Snapshot) -> Vec<Family> {
    let of_tree = |tree: &ActorTree| {
        let children = tree.root.iter().flat_map(|root| &root.children);
        let (id, host) = (tree.answer.id, tree.answer.node.clone());
        children.map(|child| family((id, &host), child, snapshot)).collect::<Vec<_>>()
    };
    snapshot.trees.iter().flat_map(of_tree).collect()
}

fn family((id, host): (NodeId, &str), child: &Node, Snapshot { keys, .. }: &Snapshot) -> Family {
    let mut by_key: BTreeMap<&str, (Option<&BusyKey>, Vec<KeyEntry>)> = BTreeMap::new();
    for busy in &child.busiest {
        by_key.entry(&busy.key).or_default().0 = Some(busy);
    }
    // The quarantine of an operator holds on all nodes, and names none.
    for entry in keys.iter().filter(|entry| entry.node.as_deref().is_none_or(|node| node == host)) {
        if entry.kind == child.kind {
            by_key.entry(&entry.key).or_default().1.push(entry.clone());
        }
    }
    let keys: Vec<TopRow> = by_key
        .into_iter()
        .map(|(key, (busy, entries))| {
            let id = RowId { node: id, actor: child.name.clone(), key: Some(key.to_owned()) };
            key_row(id, host, &child.kind, busy, entries)
        })
        .collect();
    let longest = keys.iter().filter_map(|key| key.unmoved_ms).max();
    let actor = TopRow {
        id: RowId { node: id, actor: child.name.clone(), key: None },
        node: host.to_owned(),
        kind: child.kind.to_string(),
        state: words::status_words(child).0,
        live: Some(child.live),
        queued: child.queued,
        unmoved_ms: child.unmoved_ms.or(longest),
        times: child.times,
        pass: child.pass,
        crashes: child.restarts,
        restarts_left: child.budget.and_then(|budget| budget.more_in_ms.map(|_| budget.restarts_left)),
        quarantined: child.quarantined,
        trouble: words::trouble(child),
        entries: Vec::new(),
    };
    Family { actor, keys }
}

fn key_row(id: RowId, host: &str, kind: &str, busy: Option<&BusyKey>, entries: Vec<KeyEntry>) -> TopRow {
    let is_quarantined = entries.iter().any(|entry| entry.quarantined_until.is_some());
    let state = match busy {
        _ if is_quarantined => "quarantined",
        Some(_) => "running",
        None => "crashed",
    };
    let by_operator = entries.iter().find_map(|entry| Some((entry.quarantined_by.as_ref()?, entry.reason.as_ref()?)));
    let by_operator = by_operator.map(|(by, reason)| format!("quarantined by {by}: {}", reason.as_str()));
    TopRow {
        id,
        node: host.to_owned(),
        kind: kind.to_owned(),
        state,
        live: None,
        queued: busy.map_or(0, |busy| u64::from(busy.queued)),
        unmoved_ms: busy.map(|busy| busy.unmoved_ms),
        times: None,
        pass: None,
        crashes: entries.iter().map(|entry| u64::from(entry.crashes)).max().unwrap_or_default(),
        restarts_left: None,
        quarantined: u64::from(is_quarantined),
        trouble: by_operator.or_else(|| entries.iter().find_map(|entry| entry.error.clone())),
        entries,
    }
}
