//! Held events in words: what is wrong, where, and what to do.

use domain::Timestamp;
use domain::held::HoldReason;
use store::held::Unclassified;

use super::computers::Computers;
use crate::Moment;

/// A held event.
pub struct HeldRow {
    pub kind: String,
    pub agent: Option<String>,
    pub computer: Option<String>,
    pub id: Option<String>,
    pub reason: &'static str,
    pub meaning: &'static str,
    /// What the check found, as the sender was answered.
    pub found: String,
    pub next: &'static str,
    /// Path of the page where the next step begins, and its name.
    pub link: Option<(&'static str, &'static str)>,
    pub received: Moment,
}

impl HeldRow {
    /// The row of an entry.
    pub fn of(held: Unclassified, computers: &Computers, now: Timestamp) -> Self {
        let (next, link) = next_step(held.reason);
        Self {
            kind: held.event_type.unwrap_or_else(|| "Event without a readable type".into()),
            agent: held.agent_id,
            computer: held.machine_uuid.map(|machine| computers.name(machine).to_owned()),
            id: held.event_id.map(|id| id.to_string()),
            reason: in_brief(held.reason),
            meaning: meaning(held.reason),
            found: held.detail,
            next,
            link,
            received: Moment::new(held.received_at, now),
        }
    }
}

/// A reason in two or three words.
fn in_brief(reason: HoldReason) -> &'static str {
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

/// The meaning of a reason.
fn meaning(reason: HoldReason) -> &'static str {
    match reason {
        HoldReason::Unattributed => "An agent sent it before you confirmed that agent, so it belongs to no computer.",
        HoldReason::MalformedEnvelope => "It is not a valid event.",
        HoldReason::IdentityMismatch => "It names a computer, an identity or an account that is not the sender's.",
        HoldReason::UnknownEventType => "This service does not know events of this type.",
        HoldReason::LaneMismatch => "Its type belongs to another lane than the one that it names.",
        HoldReason::PayloadInvalid => "Its payload does not fit its type, or contains more than the level that it declares.",
        HoldReason::HashMismatch => "Its hash does not fit its content: it was changed on the way, or computed wrong.",
        HoldReason::ConsentExceeded => "It contains more than your consent allows, so its content was not stored.",
        HoldReason::UpstreamRefused => "The statistics service did not accept it.",
    }
}

/// What to do next, and the page where that begins.
fn next_step(reason: HoldReason) -> (&'static str, Option<(&'static str, &'static str)>) {
    match reason {
        HoldReason::Unattributed => {
            ("The agent can send it again now, with one of your computers in its scope.", Some(("/account", "Your computers and agents")))
        }
        HoldReason::MalformedEnvelope | HoldReason::PayloadInvalid => {
            ("Correct the program that sent it, then send the event again with the same id.", Some(("/docs", "Form of an event")))
        }
        HoldReason::IdentityMismatch => (
            "Check which computer the sender is set up for. After a move, attach it again; then send the event again.",
            Some(("/account", "Your computers and agents")),
        ),
        HoldReason::UnknownEventType => {
            ("Ask the operator to register the type. After that, send the event again with the same id.", None)
        }
        HoldReason::LaneMismatch => (
            "Send the event again with the lane that its type has in the registry.",
            Some(("/api/v1/events/registry", "Registry of types")),
        ),
        HoldReason::HashMismatch => {
            ("Send the event again. If it is held again, the sender does not hash the canonical form of its content (RFC 8785).", None)
        }
        HoldReason::ConsentExceeded => (
            "To record events like this, allow more for its lane and send it again. To keep your choice, do nothing.",
            Some(("/account/consent", "Your consent")),
        ),
        HoldReason::UpstreamRefused => {
            ("Ask the operator, who sees the whole answer of the statistics service and can release the event.", None)
        }
    }
}
