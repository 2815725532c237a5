//! Held events in groups by reason: meaning and next step of the reason, fault and position of each event.

use std::collections::BTreeMap;

use actors::InfraError;
use app::services::activity::browse::Unclassified;
use app::services::activity::browse::{Activity, ActivityFilter, PageOf};
use domain::Timestamp;
use domain::held::HoldReason;
use domain::ids::MachineUuid;
use serde::Deserialize;
use statistics::contract::RecordScope;

use super::computers::Computers;
use super::rows::agent_on;
use crate::Moment;

/// Maximum number of entries with a position in their chain.
const PLACES_MAX: usize = 20;
/// Maximum size of a body that is read for the position.
const BODY_BYTES_MAX: u32 = 64 * 1024;

/// The held events of one reason.
pub struct HeldGroup {
    reason: HoldReason,
    pub title: &'static str,
    pub meaning: &'static str,
    pub next: &'static str,
    /// Path and name of the page for the next step.
    pub link: Option<(&'static str, &'static str)>,
    pub rows: Vec<HeldRow>,
}

/// A held event.
pub struct HeldRow {
    /// The sentence of its type. The payload is not shown, because it can exceed the consent.
    pub title: String,
    /// The agent and the computer, as far as they could be read.
    pub source: String,
    pub id: Option<String>,
    /// The finding of the check.
    pub found: String,
    /// Its number in its chain, and the expected number.
    pub place: Option<String>,
    pub received: Moment,
}

impl HeldGroup {
    fn new(reason: HoldReason) -> Self {
        let (next, link) = next_step(reason);
        Self { reason, title: in_brief(reason), meaning: meaning(reason), next, link, rows: Vec::new() }
    }
}

impl HeldRow {
    /// The row of an entry.
    fn of(
        activity: &Activity,
        held: Unclassified,
        place: Option<String>,
        computers: &Computers,
        now: Timestamp,
    ) -> Self {
        let computer = held.machine_uuid.map(|machine| computers.name(machine));
        let title = match &held.event_type {
            Some(event_type) if activity.choices().types.contains(event_type) => activity.title(event_type).text,
            Some(event_type) => domain::foreign::visible(event_type),
            None => "Event without a readable type".to_owned(),
        };
        Self {
            title,
            source: match (held.agent_id, computer) {
                (Some(agent), Some(computer)) => agent_on(&agent, computer),
                (None, Some(computer)) => agent_on("Unknown agent", computer),
                (agent, None) => domain::foreign::visible(agent.as_deref().unwrap_or("Unknown agent")),
            },
            id: held.event_id.map(|id| id.to_string()),
            found: domain::foreign::visible(&held.detail),
            place,
            received: Moment::new(held.received_at, now),
        }
    }
}

/// The entries by reason, in the order of the newest entry of each. The first `PLACES_MAX` entries have positions in their chains.
pub async fn groups(
    activity: &Activity,
    scope: &RecordScope,
    held: Vec<Unclassified>,
    computers: &Computers,
    now: Timestamp,
) -> Result<Vec<HeldGroup>, InfraError> {
    let mut heads: BTreeMap<(MachineUuid, String), Option<Head>> = BTreeMap::new();
    let mut groups: Vec<HeldGroup> = Vec::new();
    for (number, held) in held.into_iter().enumerate() {
        let body = if number < PLACES_MAX { activity.held_body(held.id, BODY_BYTES_MAX).await? } else { None };
        let event = body.and_then(|body| serde_json::from_slice::<Place>(&body).ok());
        let place = match event.filter(|event| scope.shown.has_computer(event.scope.machine_id)) {
            Some(event) => {
                let key = (event.scope.machine_id, event.scope.agent_id.clone());
                let newest = match heads.get(&key) {
                    Some(newest) => *newest,
                    None => *heads.entry(key).or_insert(Head::read(activity, scope, &event, computers).await),
                };
                Some(event.in_words(newest))
            }
            None => None,
        };
        let reason = held.reason;
        let row = HeldRow::of(activity, held, place, computers, now);
        match groups.iter_mut().find(|group| group.reason == reason) {
            Some(group) => group.rows.push(row),
            None => groups.push(HeldGroup { rows: vec![row], ..HeldGroup::new(reason) }),
        }
    }
    Ok(groups)
}

/// The position of an event in its chain, according to its body.
#[derive(Debug, Deserialize)]
struct Place {
    chain_epoch: u64,
    seq: u64,
    scope: PlaceScope,
}

#[derive(Debug, Deserialize)]
struct PlaceScope {
    machine_id: MachineUuid,
    agent_id: String,
}

/// The newest recorded event of a chain.
#[derive(Debug, Clone, Copy)]
struct Head {
    epoch: u64,
    seq: u64,
}

impl Head {
    async fn read(activity: &Activity, scope: &RecordScope, event: &Place, computers: &Computers) -> Option<Self> {
        let PlaceScope { machine_id, agent_id } = &event.scope;
        let filter =
            ActivityFilter { machine: Some(*machine_id), agent: Some(agent_id.clone()), ..ActivityFilter::default() };
        let page = activity.search(scope, &filter, computers, PageOf::new(None, 1)).await.ok()?;
        let (newest, _) = page.entries.first()?;
        Some(Self { epoch: newest.chain_epoch?, seq: newest.seq? })
    }
}

impl Place {
    fn in_words(&self, head: Option<Head>) -> String {
        let here = format!("number {}", self.seq);
        match head {
            None => format!("{here}; nothing of its chain is recorded, so number 0 is expected"),
            Some(Head { epoch, .. }) if self.chain_epoch > epoch => {
                format!("{here} of the new epoch {}", self.chain_epoch)
            }
            Some(Head { epoch, seq }) if self.chain_epoch < epoch || self.seq <= seq => {
                format!("{here}; its chain is recorded up to number {seq}, so this place is taken")
            }
            Some(Head { seq, .. }) => format!(
                "{here}; its chain is recorded up to number {seq}, so number {} is expected",
                seq.saturating_add(1)
            ),
        }
    }
}

/// A reason in two or three words.
pub fn in_brief(reason: HoldReason) -> &'static str {
    match reason {
        HoldReason::Unattributed => "Agent not confirmed",
        HoldReason::MalformedEnvelope => "Unreadable",
        HoldReason::IdentityMismatch => "Wrong identity",
        HoldReason::UnknownEventType => "Unknown type",
        HoldReason::LaneMismatch => "Wrong lane",
        HoldReason::PayloadInvalid => "Wrong content",
        HoldReason::HashMismatch => "Wrong hash",
        HoldReason::ConsentExceeded => "Beyond consent",
        HoldReason::UpstreamRefused => "Rejected",
    }
}

fn meaning(reason: HoldReason) -> &'static str {
    match reason {
        HoldReason::Unattributed => "An agent sent it before you confirmed that agent, so it belongs to no computer.",
        HoldReason::MalformedEnvelope => "It is not a valid event.",
        HoldReason::IdentityMismatch => {
            "The sender may not use the scope that it names: a computer, an identity, an account or the service itself."
        }
        HoldReason::UnknownEventType => "This service does not know events of this type.",
        HoldReason::LaneMismatch => "Its type belongs to another lane than the one that it names.",
        HoldReason::PayloadInvalid => {
            "Its payload does not fit its type, or contains more than the level that it declares."
        }
        HoldReason::HashMismatch => "Its hash does not fit its content: it was changed on the way, or computed wrong.",
        HoldReason::ConsentExceeded => "It contains more than your consent allows, so its content was not stored.",
        HoldReason::UpstreamRefused => "The statistics service did not accept it.",
    }
}

fn next_step(reason: HoldReason) -> (&'static str, Option<(&'static str, &'static str)>) {
    match reason {
        HoldReason::Unattributed => (
            "The agent can send it again now, with one of your computers in its scope.",
            Some(("/account", "Your computers and agents")),
        ),
        HoldReason::MalformedEnvelope | HoldReason::PayloadInvalid => (
            "Correct the program that sent it, then send the event again with the same id.",
            Some(("/docs", "Form of an event")),
        ),
        HoldReason::IdentityMismatch => (
            "Compare the finding with the computer that the sender is set up for. After a move, attach it again; then send the event again.",
            Some(("/account", "Your computers and agents")),
        ),
        HoldReason::UnknownEventType => {
            ("Ask the operator to register the type. After that, send the event again with the same id.", None)
        }
        HoldReason::LaneMismatch => (
            "Send the event again with the lane that its type has in the registry.",
            Some(("/api/v1/events/registry", "Registry of types")),
        ),
        HoldReason::HashMismatch => (
            "Send the event again. If it is held again, the sender does not hash the canonical form of its content (RFC 8785).",
            None,
        ),
        HoldReason::ConsentExceeded => (
            "To record events like this, allow more for its lane and send it again. To keep your choice, do nothing.",
            Some(("/account/consent", "Your consent")),
        ),
        HoldReason::UpstreamRefused => {
            ("Ask the operator, who can release the event once the statistics service accepts it.", None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_compared_with_the_head_of_its_chain() {
        let event = r#"{"chain_epoch":1,"seq":4,"scope":{"machine_id":"019b76da-a800-7a67-8a14-94a3f41b0634","agent_id":"codex"}}"#;
        let event: Place = serde_json::from_str(event).unwrap();
        for (head, words) in [
            (None, "number 4; nothing of its chain is recorded, so number 0 is expected"),
            (Some((0, 9)), "number 4 of the new epoch 1"),
            (Some((1, 2)), "number 4; its chain is recorded up to number 2, so number 3 is expected"),
            (Some((1, 4)), "number 4; its chain is recorded up to number 4, so this place is taken"),
            (Some((2, 0)), "number 4; its chain is recorded up to number 0, so this place is taken"),
        ] {
            assert_eq!(event.in_words(head.map(|(epoch, seq)| Head { epoch, seq })), words);
        }
    }
}
