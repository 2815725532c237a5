//! Forward or hold: the checks of an event, in their order (`docs/decisions/0007-held-events.md`).
//!
//! The protocol has no status 400 for events: every event of an authenticated sender is forwarded, held, or answered by the statistics
//! service. The first failed check is the hold reason, a variant of [`HoldReason`]; its wire name is the variant in snake case.

mod keeping;

use crate::Timestamp;
use crate::UnknownName;
use crate::act::OperatorAct;
use crate::clock::date_time;
use crate::consent::change::ConsentChange;
use crate::consent::pause::Pauses;
use crate::consent::{ConsentLevel, ConsentRule, explicit_level};
use crate::envelope::{AgentKinds, Envelope, Lane, Sealed, Unreadable};
use crate::epoch;
use crate::ids::{MachineUuid, UserAccountId, UserCuid};
use crate::log_part::LogPart;
use crate::registry::{Registry, RegistryRefusal};

pub use keeping::may_keep;

/// Why an event is held. [`judge`] finds the first eight, in this order; the last one follows after the event was submitted
/// (`actors/src/intake/processor.rs`). Texts for people: `crates/web/src/account/activity/held.rs` and `src/admin/page.rs`.
#[derive(strum::EnumString, strum::IntoStaticStr, strum::VariantNames, strum::Display)]
#[strum(serialize_all = "snake_case", parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<Self>)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HoldReason {
    /// The sender is an unclaimed agent.
    Unattributed,
    /// The body is not an envelope.
    MalformedEnvelope,
    /// The scope names a computer, identity or account that is not the sender's, or claims the agent kind of the service.
    IdentityMismatch,
    /// The registry does not contain the event type.
    UnknownEventType,
    /// The registry assigns the event type to another lane.
    LaneMismatch,
    /// The payload violates its schema, or has content that the declared level forbids.
    PayloadInvalid,
    /// `hash_chain.self` is not the seal of the event.
    HashMismatch,
    /// The declared level exceeds the effective level. [`may_keep`] decides whether the body is stored.
    ConsentExceeded,
    /// The statistics service cannot accept the event as sent.
    UpstreamRefused,
}

impl HoldReason {
    /// The names, in the order of the checks.
    pub const NAMES: &[&str] = <Self as strum::VariantNames>::VARIANTS;

    /// The name in warnings, lists and rows.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A decision to hold, with its reason and position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldDecision {
    /// Machine-readable reason.
    pub reason: HoldReason,
    /// Position and explanation, for a person. The warning is `reason: detail`.
    pub detail: String,
}

impl HoldDecision {
    /// The `warning` of the response.
    pub fn warning(&self) -> String {
        format!("{}: {}", self.reason, self.detail)
    }

    fn new(reason: HoldReason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }
}

/// The parties that the sender can act for, from its credential, never from the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SenderAuthority {
    /// An unclaimed agent: none.
    Unclaimed,
    /// A computer: itself.
    Machine(MachineFacts),
    /// An account, through an agent or a browser session: the computer in the event's scope, if it is attached.
    Account {
        /// The sender's account.
        account: UserAccountId,
        /// The stored computer that the scope names.
        named: Option<MachineFacts>,
    },
}

impl SenderAuthority {
    /// The part of the log with the chains of the computer; the first one without a computer.
    pub fn part(&self) -> LogPart {
        match self {
            Self::Machine(facts) | Self::Account { named: Some(facts), .. } => facts.part,
            Self::Unclaimed | Self::Account { named: None, .. } => LogPart::FIRST,
        }
    }

    /// The account that the sender belongs to.
    pub fn account(&self) -> Option<&UserAccountId> {
        match self {
            Self::Unclaimed => None,
            Self::Machine(machine) => machine.account.as_ref(),
            Self::Account { account, .. } => Some(account),
        }
    }

    /// The identity that the sender acts for.
    pub fn identity(&self) -> Option<&UserCuid> {
        match self {
            Self::Unclaimed => None,
            Self::Machine(machine) => Some(&machine.user_cuid),
            Self::Account { named, .. } => named.as_ref().map(|machine| &machine.user_cuid),
        }
    }
}

/// The stored state of a computer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineFacts {
    /// Id of the computer.
    pub machine_uuid: MachineUuid,
    /// Identity of the computer.
    pub user_cuid: UserCuid,
    /// Account that the computer is attached to.
    pub account: Option<UserAccountId>,
    /// Account that the identity is linked to.
    pub identity_account: Option<UserAccountId>,
    /// Consent records of the identity.
    pub consent: Vec<ConsentRule>,
    /// Pauses of recording.
    pub pauses: Pauses,
    /// The part of the log with its chains.
    pub part: LogPart,
}

impl MachineFacts {
    /// Whether the identity belongs to an account that the computer is not attached to. Any computer can register under
    /// any identity, so it acts only for itself until a person of that account approves it.
    pub fn is_outsider(&self) -> bool {
        self.identity_account.is_some() && self.identity_account != self.account
    }

    /// The enforced level for events of a lane; `Off` while recording is paused, `None` if no level applies.
    pub fn enforced_level(&self, lane: Lane, now: Timestamp) -> Option<ConsentLevel> {
        match self.pauses.until(now) {
            Some(_) => Some(ConsentLevel::Off),
            None => explicit_level(&self.consent, self.machine_uuid, lane),
        }
    }
}

/// Decides whether to forward an event. Runs the checks in the documented order and returns the first failure.
pub fn judge(
    opened: &Result<Sealed, Unreadable>,
    standing: &SenderAuthority,
    registry: &Registry,
    now: Timestamp,
) -> Result<(), HoldDecision> {
    match standing {
        SenderAuthority::Unclaimed => Err(HoldDecision::new(
            HoldReason::Unattributed,
            "this agent is not claimed yet; events wait until a person claims it",
        )),
        SenderAuthority::Machine(machine) => judge_of_machine(opened, machine, registry, now),
        SenderAuthority::Account { account, named } => {
            let sealed = readable(opened)?;
            let is_attached = |named: &&MachineFacts| {
                named.machine_uuid == sealed.envelope.scope.machine_id && named.account.as_ref() == Some(account)
            };
            let machine = named
                .as_ref()
                .filter(is_attached)
                .ok_or_else(|| mismatch("/scope/machine_id: not a computer that is attached to this account"))?;
            judge_of_machine(opened, machine, registry, now)
        }
    }
}

fn readable(opened: &Result<Sealed, Unreadable>) -> Result<&Sealed, HoldDecision> {
    opened.as_ref().map_err(|unreadable| HoldDecision::new(HoldReason::MalformedEnvelope, unreadable.to_string()))
}

/// Decides for an event from this computer or from a party that acts for it.
pub fn judge_of_machine(
    opened: &Result<Sealed, Unreadable>,
    machine: &MachineFacts,
    registry: &Registry,
    now: Timestamp,
) -> Result<(), HoldDecision> {
    let sealed = readable(opened)?;
    let envelope = &sealed.envelope;
    judge_scope(envelope, machine)?;
    registry.judge(envelope).map_err(|refusal| {
        let reason = match refusal {
            RegistryRefusal::UnknownEventType(_) => HoldReason::UnknownEventType,
            RegistryRefusal::LaneMismatch { .. } => HoldReason::LaneMismatch,
            RegistryRefusal::PayloadInvalid { .. } => HoldReason::PayloadInvalid,
        };
        HoldDecision::new(reason, refusal.to_string())
    })?;
    if !sealed.seal_is_right() {
        let detail = format!("/hash_chain/self: the event as received hashes to {}", sealed.seal);
        return Err(HoldDecision::new(HoldReason::HashMismatch, detail));
    }
    match machine.enforced_level(envelope.lane, now) {
        Some(allowed) if allowed < envelope.consent_level => {
            let declared = envelope.consent_level;
            let detail = match machine.pauses.until(now) {
                Some(until) => {
                    let until = date_time(until);
                    format!("/consent_level: recording is paused until {until}, the event declares {declared}")
                }
                None => format!("/consent_level: the level in force is {allowed}, the event declares {declared}"),
            };
            Err(HoldDecision::new(HoldReason::ConsentExceeded, detail))
        }
        _ => Ok(()),
    }
}

fn mismatch(detail: &str) -> HoldDecision {
    HoldDecision::new(HoldReason::IdentityMismatch, detail)
}

/// Checks that the computer may use this scope. The hold names the first member that does not fit.
fn judge_scope(envelope: &Envelope, machine: &MachineFacts) -> Result<(), HoldDecision> {
    let scope = &envelope.scope;
    if machine.machine_uuid != scope.machine_id {
        return Err(mismatch("/scope/machine_id: not the computer whose secret was presented"));
    }
    if machine.user_cuid != scope.user_id {
        return Err(mismatch("/scope/user_id: not the identity of that computer"));
    }
    if machine.is_outsider() {
        return Err(mismatch(
            "/scope/user_id: this identity belongs to an account that this computer is not attached to",
        ));
    }
    if scope.user_account_id.is_some() && scope.user_account_id != machine.account {
        return Err(mismatch("/scope/user_account_id: not the account that the computer is attached to"));
    }
    if is_report_of_the_service(envelope) {
        return Err(mismatch(
            "/scope/agent_id: only the service itself reports this event type as svc-control-plane; send it as another agent",
        ));
    }
    Ok(())
}

/// Whether the event claims to come from the service itself. Senders may name any agent kind and any registered type,
/// but not this combination, so that they cannot forge reports of the service.
fn is_report_of_the_service(envelope: &Envelope) -> bool {
    const TYPES: [&str; 2] = [ConsentChange::EVENT_TYPE, epoch::EVENT_TYPE];
    let event_type = envelope.event_type.as_str();
    envelope.scope.agent_id.as_str() == AgentKinds::CONTROL_PLANE
        && (TYPES.contains(&event_type) || event_type.starts_with(OperatorAct::PREFIX))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::consent::Author;

    fn event() -> Value {
        let vectors: Value = serde_json::from_slice(include_bytes!("../../../tests/vectors/chain.json")).unwrap();
        vectors["chain"][0]["event"].clone()
    }

    fn rule(level: ConsentLevel) -> ConsentRule {
        ConsentRule { machine: None, lane: None, level, set_by: Author::Person }
    }

    fn facts(event: &Value) -> MachineFacts {
        MachineFacts {
            machine_uuid: event["scope"]["machine_id"].as_str().unwrap().parse().unwrap(),
            user_cuid: event["scope"]["user_id"].as_str().unwrap().parse().unwrap(),
            account: Some("account1".parse().unwrap()),
            identity_account: Some("account1".parse().unwrap()),
            consent: vec![],
            pauses: Pauses::default(),
            part: LogPart::FIRST,
        }
    }

    fn reason(event: &Value, standing: &SenderAuthority) -> Option<HoldReason> {
        let opened = Sealed::open(event.to_string().as_bytes(), 262_144, &AgentKinds::new([]));
        judge(&opened, standing, &Registry::built_in().unwrap(), Timestamp::UNIX_EPOCH).err().map(|hold| hold.reason)
    }

    /// Breaks the rules one after the other, last check first: each earlier check must take precedence.
    #[test]
    fn the_first_check_that_fails_names_the_reason() {
        let mut event = event();
        let mut machine = facts(&event);
        assert_eq!(reason(&event, &SenderAuthority::Machine(machine.clone())), None);

        machine.consent = vec![rule(ConsentLevel::MetadataOnly)];
        let standing = SenderAuthority::Machine(machine);
        assert_eq!(reason(&event, &standing), Some(HoldReason::ConsentExceeded));
        event["ts_edge_ms"] = json!(0);
        assert_eq!(reason(&event, &standing), Some(HoldReason::HashMismatch));
        event["payload"]["content"] = json!(1);
        assert_eq!(reason(&event, &standing), Some(HoldReason::PayloadInvalid));
        event["lane"] = json!("llm");
        assert_eq!(reason(&event, &standing), Some(HoldReason::LaneMismatch));
        event["event_type"] = json!("memory.dreamt");
        assert_eq!(reason(&event, &standing), Some(HoldReason::UnknownEventType));
        event["scope"]["user_id"] = json!("someoneelse");
        assert_eq!(reason(&event, &standing), Some(HoldReason::IdentityMismatch));
        event["seq"] = json!("first");
        assert_eq!(reason(&event, &standing), Some(HoldReason::MalformedEnvelope));
        assert_eq!(reason(&event, &SenderAuthority::Unclaimed), Some(HoldReason::Unattributed));
    }

    #[test]
    fn a_pause_holds_events_of_every_level_but_off_and_ends_by_itself() {
        let event = event();
        let until = Timestamp::UNIX_EPOCH + chrono::TimeDelta::hours(1);
        let pauses = [
            Pauses { account: Some(until), machine: None },
            Pauses { account: None, machine: Some(until) },
            Pauses { account: Some(Timestamp::UNIX_EPOCH), machine: Some(until) },
        ];
        for pauses in pauses {
            let machine = MachineFacts { pauses, consent: vec![rule(ConsentLevel::Full)], ..facts(&event) };
            let opened = Sealed::open(event.to_string().as_bytes(), 262_144, &AgentKinds::new([]));
            let judged = |now| judge_of_machine(&opened, &machine, &Registry::built_in().unwrap(), now);
            let hold = judged(Timestamp::UNIX_EPOCH).unwrap_err();
            assert_eq!(hold.reason, HoldReason::ConsentExceeded);
            assert!(hold.detail.contains("paused until 1970-01-01T01:00:00"), "{}", hold.detail);
            assert_eq!(judged(until), Ok(()));
        }
    }

    #[test]
    fn a_computer_speaks_for_itself_and_an_account_for_its_attached_computers() {
        let event = event();
        let machine = facts(&event);
        let account = machine.account.clone().unwrap();
        let stranger: UserAccountId = "account2".parse().unwrap();
        let with_account = |account: &str| {
            let mut event = event.clone();
            event["scope"]["user_account_id"] = json!(account);
            event
        };
        let held =
            |event: &Value, standing: SenderAuthority| reason(event, &standing) == Some(HoldReason::IdentityMismatch);
        let named = |named: Option<MachineFacts>| SenderAuthority::Account { account: account.clone(), named };

        assert!(!held(&event, named(Some(machine.clone()))));
        assert!(held(&event, named(None)));
        assert!(held(&event, named(Some(MachineFacts { account: None, ..machine.clone() }))));
        assert!(held(&event, named(Some(MachineFacts { account: Some(stranger), ..machine.clone() }))));
        assert!(held(&with_account("account2"), SenderAuthority::Machine(machine.clone())));
        let unattached = |identity_account| MachineFacts { account: None, identity_account, ..machine.clone() };
        assert!(held(&with_account("account1"), SenderAuthority::Machine(unattached(None))));
        // A new computer of a new identity can record; one that claims a linked identity cannot.
        assert!(!held(&event, SenderAuthority::Machine(unattached(None))));
        assert!(held(&event, SenderAuthority::Machine(unattached(machine.account.clone()))));
        // Setting the right account changes the hash, so the reason is the hash and not the scope.
        assert_eq!(
            reason(&with_account("account1"), &SenderAuthority::Machine(machine)),
            Some(HoldReason::HashMismatch)
        );
    }

    #[test]
    fn no_sender_impersonates_the_reports_of_the_service() {
        let event = event();
        let sent = |agent: &str, event_type: &str| {
            let mut event = event.clone();
            event["scope"]["agent_id"] = json!(agent);
            event["event_type"] = json!(event_type);
            reason(&event, &SenderAuthority::Machine(facts(&event)))
        };
        for event_type in ["consent.changed", "log.epoch_began", "operator.", "operator.account_removed"] {
            assert_eq!(sent("svc-control-plane", event_type), Some(HoldReason::IdentityMismatch), "{event_type}");
            assert_ne!(sent("svc-cli", event_type), Some(HoldReason::IdentityMismatch), "{event_type}");
        }
        for event_type in ["memory.created", "consent.changed.not", "operators"] {
            assert_ne!(sent("svc-control-plane", event_type), Some(HoldReason::IdentityMismatch), "{event_type}");
        }
    }
}
