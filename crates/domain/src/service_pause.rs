//! Pauses: an operator stops a part of the service for a time (`docs/decisions/0041-pauses.md`).

use std::fmt;
use std::time::Duration;

use crate::Timestamp;
use crate::UnknownName;
use crate::act::ActReason;
use crate::actor_key::ActorKey;
use crate::clock::date_time;
use crate::ids::{EventId, MachineUuid, UserAccountId};
use crate::lane::Lane;

/// A part of the service that can be paused.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    strum::EnumString,
    strum::VariantArray,
    strum::VariantNames,
    strum::IntoStaticStr,
)]
#[strum(serialize_all = "kebab-case", parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<Self>)]
pub enum ServicePart {
    /// Events are refused.
    Intake,
    /// New batches and imports are refused, and running ones stop between two items.
    Batches,
    /// Notices wait, and requests for sign-in codes are refused.
    Mail,
    /// Stored chunks without vectors wait for them.
    Backfill,
    /// Notifications to endpoints wait.
    Webhooks,
    /// Attempts to sign in are refused; sessions continue.
    SignIn,
    /// Registrations of agents and computers are refused.
    Registration,
    /// One actor handles its inbox and ends, and its key is refused: a quarantine (`docs/decisions/0043-one-key.md`).
    Actor,
}

/// For whom a part is paused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PausedFor {
    /// For everybody.
    All,
    /// For one account.
    Account(UserAccountId),
    /// For one computer.
    Machine(MachineUuid),
    /// For the events of one lane.
    Lane(Lane),
    /// For one actor.
    Key(ActorKey),
}

/// The account, computer and lane of a request, as far as they are known.
#[derive(Debug, Clone, Copy, Default)]
pub struct PauseSubject<'s> {
    /// The account that pays.
    pub account: Option<&'s UserAccountId>,
    /// The computer.
    pub machine: Option<MachineUuid>,
    /// The lane of the event.
    pub lane: Option<Lane>,
}

/// A pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServicePause {
    /// Id of the act that began it.
    pub id: EventId,
    /// The paused part.
    pub part: ServicePart,
    /// For whom.
    pub scope: PausedFor,
    /// Time at which it ends by itself.
    pub until: Timestamp,
    /// Who began it.
    pub set_by: String,
    /// Why.
    pub reason: ActReason,
}

impl ServicePart {
    /// All parts.
    pub const ALL: &[Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The name.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Whether a pause of this part can have this scope.
    pub fn allows(self, scope: &PausedFor) -> bool {
        match scope {
            PausedFor::All => self != Self::Actor,
            PausedFor::Account(_) => matches!(self, Self::Intake | Self::Batches | Self::Webhooks),
            PausedFor::Machine(_) | PausedFor::Lane(_) => self == Self::Intake,
            PausedFor::Key(_) => self == Self::Actor,
        }
    }
}

impl PausedFor {
    /// Whether it includes this request.
    pub fn includes(&self, subject: PauseSubject<'_>) -> bool {
        match self {
            Self::All => true,
            Self::Account(account) => subject.account == Some(account),
            Self::Machine(machine) => subject.machine == Some(*machine),
            Self::Lane(lane) => subject.lane == Some(*lane),
            // The actor's directory refuses it.
            Self::Key(_) => false,
        }
    }
}

impl fmt::Display for PausedFor {
    /// `all`, `account:ID`, `machine:ID`, `lane:NAME`, or an [`ActorKey`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Account(account) => write!(f, "account:{account}"),
            Self::Machine(machine) => write!(f, "machine:{machine}"),
            Self::Lane(lane) => write!(f, "lane:{lane}"),
            Self::Key(key) => key.fmt(f),
        }
    }
}

/// A text that is not a [`PausedFor`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected all, account:ID, machine:ID, lane:NAME, or an actor such as batches:ID")]
pub struct InvalidScope;

impl std::str::FromStr for PausedFor {
    type Err = InvalidScope;

    fn from_str(text: &str) -> Result<Self, InvalidScope> {
        Ok(match text.split_once(':') {
            None if text == "all" => Self::All,
            Some(("account", id)) => Self::Account(id.parse().map_err(|_| InvalidScope)?),
            Some(("machine", id)) => Self::Machine(id.parse().map_err(|_| InvalidScope)?),
            Some(("lane", name)) => Self::Lane(name.parse().map_err(|_| InvalidScope)?),
            _ => Self::Key(text.parse().map_err(|_| InvalidScope)?),
        })
    }
}

impl ServicePause {
    /// The part and its scope, such as `intake` or `intake@lane:llm`.
    pub fn target(part: ServicePart, scope: &PausedFor) -> String {
        match scope {
            PausedFor::All => part.as_str().to_owned(),
            scope => format!("{}@{scope}", part.as_str()),
        }
    }
}

impl fmt::Display for ServicePause {
    /// The pause as a sentence without a full stop.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { part, scope, until, set_by, reason, .. } = self;
        let (target, until) = (Self::target(*part, scope), date_time(*until));
        write!(f, "{target} is paused until {until} by {set_by} ({})", reason.as_str())
    }
}

/// A request that a pause refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("The operator has paused this until {}", .until.format("%H:%M UTC"))]
pub struct Paused {
    /// Time at which the pause ends by itself.
    pub until: Timestamp,
    /// Delay after which the sender should try again.
    pub retry_after: Duration,
}

impl Paused {
    /// The reason of responses.
    pub const REASON: &'static str = "paused";

    /// Longest delay, since an operator may end a pause early.
    const RETRY_AFTER_MAX: Duration = Duration::from_mins(1);

    /// The refusal by the pause among these that ends last; `None` if nothing is paused.
    pub fn by<'p>(
        pauses: impl IntoIterator<Item = &'p ServicePause>,
        part: ServicePart,
        subject: PauseSubject<'_>,
        now: Timestamp,
    ) -> Option<Self> {
        let pauses = pauses.into_iter().filter(|pause| pause.part == part && pause.scope.includes(subject));
        let until = pauses.map(|pause| pause.until).filter(|until| *until > now).max()?;
        let left = (until - now).to_std().unwrap_or_default();
        Some(Self { until, retry_after: left.min(Self::RETRY_AFTER_MAX) })
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;
    use crate::Rng;
    use crate::actor_key::KeyedKind;

    #[test]
    fn a_scope_is_read_as_it_is_written() {
        let rng = Rng::seeded(1);
        let (account, machine) = ("abc".parse().unwrap(), rng.uuid_v7(Timestamp::UNIX_EPOCH).into());
        let key = ActorKey { kind: KeyedKind::Batches, id: rng.uuid_v7(Timestamp::UNIX_EPOCH) };
        let scopes = [
            PausedFor::All,
            PausedFor::Account(account),
            PausedFor::Machine(machine),
            PausedFor::Lane(Lane::Llm),
            PausedFor::Key(key),
        ];
        for scope in scopes {
            assert_eq!(scope.to_string().parse(), Ok(scope));
        }
        for wrong in ["", "lane", "lane:", "lane:LLM", "all:", "person:1", "machine:1"] {
            assert_eq!(wrong.parse::<PausedFor>(), Err(InvalidScope), "{wrong}");
        }
    }

    #[test]
    fn a_request_is_refused_until_the_last_pause_of_its_scopes_ends() {
        let (rng, now) = (Rng::seeded(1), Timestamp::UNIX_EPOCH);
        let (account, other): (UserAccountId, UserAccountId) = ("abc".parse().unwrap(), "abd".parse().unwrap());
        let pause = |part, scope, seconds| ServicePause {
            id: rng.uuid_v7(now).into(),
            part,
            scope,
            until: now + TimeDelta::seconds(seconds),
            set_by: "shell:0".to_owned(),
            reason: "why".parse().unwrap(),
        };
        let known = [
            pause(ServicePart::Intake, PausedFor::Account(account.clone()), 20),
            pause(ServicePart::Intake, PausedFor::Lane(Lane::Llm), 3600),
            pause(ServicePart::Mail, PausedFor::All, 50),
        ];
        let refused = |part, subject, at| {
            Paused::by(&known, part, subject, now + TimeDelta::seconds(at)).map(|found| found.retry_after.as_secs())
        };
        let of = PauseSubject { account: Some(&account), ..PauseSubject::default() };
        let in_lane = PauseSubject { lane: Some(Lane::Llm), ..of };
        assert_eq!(refused(ServicePart::Intake, of, 5), Some(15));
        assert_eq!(refused(ServicePart::Intake, in_lane, 5), Some(60));
        assert_eq!(refused(ServicePart::Intake, of, 20), None);
        assert_eq!(refused(ServicePart::Intake, PauseSubject { account: Some(&other), ..of }, 5), None);
        assert_eq!(refused(ServicePart::Batches, in_lane, 5), None);
        assert_eq!(refused(ServicePart::Mail, PauseSubject::default(), 5), Some(45));
        assert_eq!(ServicePause::target(known[1].part, &known[1].scope), "intake@lane:llm");
        let until = "1970-01-01T00:00:50";
        let words = known[2].to_string();
        assert!(
            words.starts_with(&format!("mail is paused until {until}")) && words.ends_with(" by shell:0 (why)"),
            "{words}"
        );
        let paused = Paused::by(&known, ServicePart::Mail, of, now).unwrap();
        assert_eq!(paused.to_string(), "The operator has paused this until 00:00 UTC");
    }
}
