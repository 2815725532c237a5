//! The senders and the outcomes of events.

use std::time::Duration;

use domain::held::MachineFacts;
use domain::ids::{ReceiptId, RegistrationId, UserAccountId};
use domain::service_pause::Paused;
use statistics::contract::Passed;
use store::held::Sender as HeldSender;
use supervision::Unavailable;

/// Default delay before an event is sent again.
pub(super) const SOON: Duration = Duration::from_secs(1);

/// The sender of an event, from its credential only.
#[derive(Debug, Clone)]
pub enum Sender {
    /// An agent that no person has claimed.
    Unclaimed(RegistrationId),
    /// A computer with its machine secret.
    Machine {
        /// The stored facts about the computer.
        facts: MachineFacts,
        /// Whether events of the computer are held, so that a resend may settle one.
        has_held: bool,
    },
    /// A person's browser, or an agent that acts for the account.
    Account {
        /// The account that the credential acts for.
        account: UserAccountId,
        /// The agent, if the credential is an agent's.
        agent: Option<RegistrationId>,
    },
}

/// The outcome of an event.
#[derive(Debug, Clone, PartialEq)]
pub enum IntakeOutcome {
    /// The statistics service recorded the event: 202 `{receipt_id}`.
    Forwarded(ReceiptId),
    /// 202 `{held: true, warning}`.
    Held {
        /// Reason, and the first offending place.
        warning: String,
    },
    /// The statistics service's response, byte for byte.
    Passed(Passed),
    /// 424: the event had no effect that a resend could duplicate.
    Unavailable {
        /// Reason for the response body.
        reason: &'static str,
        /// Delay after which the sender should retry.
        retry_after: Duration,
    },
    /// 424: an operator has paused the intake for this event.
    Paused(Paused),
}

impl Sender {
    /// The sender that is charged for an event: the account, the unattached computer, or the unclaimed agent.
    pub(super) fn payer(&self) -> HeldSender {
        match self {
            Self::Machine { facts: MachineFacts { account: Some(account), .. }, .. }
            | Self::Account { account, .. } => HeldSender::Account(account.clone()),
            Self::Unclaimed(_) | Self::Machine { .. } => self.as_held(),
        }
    }

    pub(super) fn as_held(&self) -> HeldSender {
        match self {
            Self::Unclaimed(registration) => HeldSender::Registration(*registration),
            Self::Machine { facts, .. } => HeldSender::Machine(facts.machine_uuid),
            Self::Account { agent: Some(agent), .. } => HeldSender::Registration(*agent),
            Self::Account { account, agent: None } => HeldSender::Account(account.clone()),
        }
    }
}

impl From<Unavailable> for IntakeOutcome {
    fn from(refusal: Unavailable) -> Self {
        Self::Unavailable { reason: refusal.reason(), retry_after: refusal.retry_after() }
    }
}

impl IntakeOutcome {
    /// The name of a refusal that has no effect.
    pub(super) const UNAVAILABLE: &str = "unavailable";

    pub(super) const STORE_UNAVAILABLE: Self = Self::Unavailable { reason: "store_unavailable", retry_after: SOON };

    /// Whether the sender gets its quota back. A database or a statistics service that was away may have recorded the event, but the sender
    /// resends it, and would pay for the outage.
    pub(super) fn returns_quota(&self) -> bool {
        use supervision::Unavailable::{Crashed, TimedOut};
        match self {
            Self::Forwarded(_) | Self::Held { .. } => false,
            Self::Passed(_) | Self::Paused(_) => true,
            Self::Unavailable { reason, .. } => ![Crashed.reason(), TimedOut.reason()].contains(reason),
        }
    }

    pub(super) fn counted(self) -> Self {
        metrics::counter!("attache_events_total", "outcome" => self.kind()).increment(1);
        self
    }

    /// Why the event was not forwarded, without a word of the event.
    pub(super) fn reason(&self) -> Option<String> {
        match self {
            Self::Forwarded(_) => None,
            Self::Held { warning } => warning.split(':').next().map(str::to_owned),
            Self::Passed(passed) => Some(passed.status.as_u16().to_string()),
            Self::Unavailable { reason, .. } => Some((*reason).to_owned()),
            Self::Paused(_) => Some("paused".to_owned()),
        }
    }

    /// The name.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Forwarded(_) => "forwarded",
            Self::Held { .. } => "held",
            Self::Passed(_) => "passed_through",
            Self::Unavailable { .. } | Self::Paused(_) => Self::UNAVAILABLE,
        }
    }
}
