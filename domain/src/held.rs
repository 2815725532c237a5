//! Forward or hold: the one order of checks (`docs/decisions/0018-forward-or-hold.md`).
//!
//! The specification's table of errors gives events no 400: whatever an authenticated sender posts is forwarded, held, or
//! answered by the statistics service. The first check that fails names the reason.

mod keeping;

use crate::UnknownName;
use crate::consent::change::ConsentChange;
use crate::consent::{ConsentRule, explicit_level};
use crate::envelope::{AgentKinds, Envelope, Sealed, Unreadable};
use crate::epoch;
use crate::ids::{MachineUuid, UserAccountId, UserCuid};
use crate::registry::{Registry, RegistryRefusal};

pub use keeping::may_keep;

/// Why an event was held, in the order in which the reasons are looked for.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantNames,
    strum::Display,
)]
#[strum(serialize_all = "snake_case", parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<Self>)]
pub enum HoldReason {
    /// Sent by an agent that nobody has claimed yet.
    Unattributed,
    /// The body is no envelope.
    MalformedEnvelope,
    /// The scope names a computer, identity or account that is not the sender's.
    IdentityMismatch,
    /// The registry does not know the type.
    UnknownEventType,
    /// The registry puts the type into another lane.
    LaneMismatch,
    /// The payload breaks its schema, or carries content that the declared level forbids.
    PayloadInvalid,
    /// `hash_chain.self` is not the seal of the event.
    HashMismatch,
    /// The event declares more than the person allowed. Its payload is not kept.
    ConsentExceeded,
    /// The statistics service cannot take it as it was sent.
    UpstreamRefused,
}

impl HoldReason {
    /// The name in warnings, lists and rows.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A decision to hold: the reason, and the first offending place for the sender's warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldDecision {
    /// Why.
    pub reason: HoldReason,
    /// Where and what, for a person; the warning is `reason: detail`.
    pub detail: String,
}

impl HoldDecision {
    /// The text of the answer's `warning`.
    pub fn warning(&self) -> String {
        format!("{}: {}", self.reason, self.detail)
    }

    fn new(reason: HoldReason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }
}

/// For whom the sender may speak; from the credential alone, never from the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SenderAuthority {
    /// An agent that nobody has claimed: for no one.
    Nobody,
    /// A computer: for itself.
    Machine(MachineFacts),
    /// An account (through an agent or a browser session): for the computer that the scope names, if it is attached.
    Account {
        /// The sender's account.
        account: UserAccountId,
        /// The computer that the scope names, as the store knows it.
        named: Option<MachineFacts>,
    },
}

impl SenderAuthority {
    /// The account that the sender belongs to.
    pub fn account(&self) -> Option<&UserAccountId> {
        match self {
            Self::Nobody => None,
            Self::Machine(machine) => machine.account.as_ref(),
            Self::Account { account, .. } => Some(account),
        }
    }

    /// The identity that the sender speaks for.
    pub fn identity(&self) -> Option<&UserCuid> {
        match self {
            Self::Nobody => None,
            Self::Machine(machine) => Some(&machine.user_cuid),
            Self::Account { named, .. } => named.as_ref().map(|machine| &machine.user_cuid),
        }
    }
}

/// What the store knows of a computer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineFacts {
    /// The computer.
    pub machine_uuid: MachineUuid,
    /// The identity that lives on it.
    pub user_cuid: UserCuid,
    /// The account that it is attached to.
    pub account: Option<UserAccountId>,
    /// The account that the identity is linked to.
    pub identity_account: Option<UserAccountId>,
    /// What the person set for this identity.
    pub consent: Vec<ConsentRule>,
}

impl MachineFacts {
    /// Whether its identity belongs to an account that it is not attached to. Anybody may register a computer under any identity,
    /// so until a person of that account approves it, it speaks for itself alone.
    pub fn is_outsider(&self) -> bool {
        self.identity_account.is_some() && self.identity_account != self.account
    }
}

/// Decides whether an event may be forwarded. Runs every check in the documented order and stops at the first that fails.
pub fn judge(
    opened: &Result<Sealed, Unreadable>,
    standing: &SenderAuthority,
    registry: &Registry,
) -> Result<(), HoldDecision> {
    let sealed = || {
        opened.as_ref().map_err(|unreadable| HoldDecision::new(HoldReason::MalformedEnvelope, unreadable.to_string()))
    };
    match standing {
        SenderAuthority::Nobody => Err(HoldDecision::new(
            HoldReason::Unattributed,
            "this agent is not claimed yet; events wait until a person claims it",
        )),
        SenderAuthority::Machine(machine) => judge_of_machine(sealed()?, machine, registry),
        SenderAuthority::Account { account, named } => {
            let sealed = sealed()?;
            let is_attached = |named: &&MachineFacts| {
                named.machine_uuid == sealed.envelope.scope.machine_id && named.account.as_ref() == Some(account)
            };
            let machine = named
                .as_ref()
                .filter(is_attached)
                .ok_or_else(|| mismatch("/scope/machine_id: not a computer that is attached to this account"))?;
            judge_of_machine(sealed, machine, registry)
        }
    }
}

/// The same for an event that was opened and whose sender is, or speaks for, this computer.
pub fn judge_of_machine(sealed: &Sealed, machine: &MachineFacts, registry: &Registry) -> Result<(), HoldDecision> {
    let envelope = &sealed.envelope;
    attribute(envelope, machine)?;
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
    match explicit_level(&machine.consent, machine.machine_uuid, envelope.lane) {
        Some(allowed) if allowed < envelope.consent_level => {
            let declared = envelope.consent_level;
            let detail = format!("/consent_level: the level in force is {allowed}, the event declares {declared}");
            Err(HoldDecision::new(HoldReason::ConsentExceeded, detail))
        }
        _ => Ok(()),
    }
}

fn mismatch(detail: &str) -> HoldDecision {
    HoldDecision::new(HoldReason::IdentityMismatch, detail)
}

/// Whether the event speaks for this computer; otherwise the hold names the member of the scope that is not its own.
fn attribute(envelope: &Envelope, machine: &MachineFacts) -> Result<(), HoldDecision> {
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

/// Whether the event claims to be one that the service itself writes. The specification lets senders name the agent, and send
/// these types; the pair is the service's own, so that its statements in the record cannot be imitated.
fn is_report_of_the_service(envelope: &Envelope) -> bool {
    const TYPES: [&str; 2] = [ConsentChange::EVENT_TYPE, epoch::EVENT_TYPE];
    const PREFIX: &str = "operator.";
    let event_type = envelope.event_type.as_str();
    envelope.scope.agent_id.as_str() == AgentKinds::CONTROL_PLANE
        && (TYPES.contains(&event_type) || event_type.starts_with(PREFIX))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::consent::{Author, ConsentLevel};

    fn event() -> Value {
        let vectors: Value = serde_json::from_slice(include_bytes!("../../tests/vectors/chain.json")).unwrap();
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
        }
    }

    fn reason(event: &Value, standing: &SenderAuthority) -> Option<HoldReason> {
        let opened = Sealed::open(event.to_string().as_bytes(), 262_144, &AgentKinds::new([]));
        judge(&opened, standing, &Registry::built_in().unwrap()).err().map(|hold| hold.reason)
    }

    /// Breaks one rule after the other, the last check first: each earlier check must hide the later faults.
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
        assert_eq!(reason(&event, &SenderAuthority::Nobody), Some(HoldReason::Unattributed));
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
        // A fresh computer of a fresh identity records; one that only claims to be of a linked identity does not.
        assert!(!held(&event, SenderAuthority::Machine(unattached(None))));
        assert!(held(&event, SenderAuthority::Machine(unattached(machine.account.clone()))));
        // The right account changes the hash, so the event is held for that reason and not for its scope.
        assert_eq!(
            reason(&with_account("account1"), &SenderAuthority::Machine(machine)),
            Some(HoldReason::HashMismatch)
        );
    }

    #[test]
    fn no_sender_speaks_as_the_service_about_what_the_service_reports() {
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
