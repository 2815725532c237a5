//! The head of a receipt: what its events say as a whole.

use std::collections::{BTreeMap, BTreeSet};

use domain::Digest;
use domain::canonical::canonical_bytes;
use domain::ids::{MachineUuid, SessionUuid};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{AuditReceipt, ReceiptEvent, is_publishable};
use crate::proof;

/// The members of a head, in the order in which they are compared.
const MEMBERS: [&str; 12] = [
    "session_uuid",
    "project_id",
    "received_from_ms",
    "received_to_ms",
    "events",
    "proven",
    "content",
    "failures",
    "gaps",
    "agents",
    "types",
    "events_digest",
];

/// The head of a receipt. Every member but the first two follows from the events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiptSummary {
    /// The session of all events; null if the receipt is about a time.
    pub session_uuid: Option<SessionUuid>,
    /// The project of all events; null if the receipt is about any.
    pub project_id: Option<String>,
    /// Earliest time of receipt, in milliseconds since 1970.
    pub received_from_ms: i64,
    /// Latest time of receipt, in milliseconds since 1970.
    pub received_to_ms: i64,
    /// Number of events.
    pub events: usize,
    /// Number of events with canonical bytes, which prove their type, session, project and failure.
    pub proven: usize,
    /// Number of events with canonical bytes that may contain content.
    pub content: usize,
    /// Number of events that report a failure.
    pub failures: usize,
    /// Number of sequence numbers that are absent between the first and the last event of each chain epoch.
    pub gaps: u64,
    /// Number of events of each agent kind.
    pub agents: BTreeMap<String, usize>,
    /// Number of events of each type.
    pub types: BTreeMap<String, usize>,
    /// SHA-256 of the leaves and the members of all events, in the order of the tree.
    pub events_digest: Digest,
}

impl ReceiptSummary {
    /// The head that these events require.
    pub fn of(session_uuid: Option<SessionUuid>, project_id: Option<String>, events: &[ReceiptEvent]) -> Self {
        let received = || events.iter().map(|event| event.leaf.received_at_ms);
        let texts: Vec<u8> = events.iter().flat_map(text).collect();
        Self {
            session_uuid,
            project_id,
            received_from_ms: received().min().unwrap_or(0),
            received_to_ms: received().max().unwrap_or(0),
            events: events.len(),
            proven: events.iter().filter(|event| event.canonical_b64.is_some()).count(),
            content: events.iter().filter(|event| may_have_content(event)).count(),
            failures: events.iter().filter(|event| event.failed).count(),
            gaps: gaps(events),
            agents: counts(events.iter().map(|event| event.leaf.agent_id.as_ref())),
            types: counts(events.iter().map(|event| event.event_type.as_str())),
            events_digest: Digest::of(&texts),
        }
    }

    /// The first member, in the order of the protocol, that differs from `other`, with both values.
    pub(super) fn difference(&self, other: &Self) -> Option<(&'static str, String, String)> {
        let shown = |summary: &Self| {
            let members = json!(summary);
            MEMBERS.map(|name| members.get(name).map(ToString::to_string).unwrap_or_default())
        };
        let pairs = MEMBERS.into_iter().zip(shown(self).into_iter().zip(shown(other)));
        pairs.map(|(name, (own, others))| (name, own, others)).find(|(_, own, others)| own != others)
    }
}

impl AuditReceipt {
    /// Whether the canonical bytes of any event may contain content.
    pub fn has_content(&self) -> bool {
        self.head.content > 0
    }
}

/// The RFC 8785 form of the members that a receipt states about an event.
fn text(event: &ReceiptEvent) -> Vec<u8> {
    let ReceiptEvent { leaf, event_type, failed, session_uuid, project_id, .. } = event;
    let stated = json!({
        "leaf": leaf, "event_type": event_type, "failed": failed, "session_uuid": session_uuid, "project_id": project_id,
    });
    stated.as_object().map(canonical_bytes).unwrap_or_default()
}

fn may_have_content(event: &ReceiptEvent) -> bool {
    let Some(canonical) = &event.canonical_b64 else { return false };
    !proof::content(canonical, &event.leaf.self_hash).is_ok_and(|event| is_publishable(&event))
}

fn counts<'e>(names: impl Iterator<Item = &'e str>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name.to_owned()).or_default() += 1;
    }
    counts
}

fn gaps(events: &[ReceiptEvent]) -> u64 {
    let mut chains: BTreeMap<(MachineUuid, &str, u64), BTreeSet<u64>> = BTreeMap::new();
    for ReceiptEvent { leaf, .. } in events {
        chains.entry((leaf.machine_id, leaf.agent_id.as_ref(), leaf.chain_epoch)).or_default().insert(leaf.seq);
    }
    let absent = |places: BTreeSet<u64>| {
        let span = places.last().zip(places.first()).map_or(0, |(last, first)| last - first);
        span.saturating_sub(places.len() as u64 - 1)
    };
    chains.into_values().map(absent).fold(0, u64::saturating_add)
}
