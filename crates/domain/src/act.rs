//! Acts of operators, and the events that record them (`docs/decisions/0038-acts-of-operators.md`).

use core::net::IpAddr;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::chain::Position;
use crate::clock::date_time;
use crate::envelope::{EncodedEvent, report, report_scope, seal};
use crate::ids::{EventId, InstallationId};
use crate::{Timestamp, UnknownName};

/// What an operator did. In snake case it is the end of the event type, after [`OperatorAct::PREFIX`].
#[derive(strum::EnumString, strum::VariantArray, strum::VariantNames, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<Self>)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the name of each act is its description")]
pub enum ActKind {
    AccountCreate,
    AccountClose,
    BalanceAdd,
    PlanSet,
    SessionCreate,
    MachineAdd,
    MachineAttach,
    MachineRemove,
    AgentRevoke,
    ApiKeyCreate,
    ApiKeyRevoke,
    HeldShow,
    HeldRelease,
    HeldDiscard,
    LogEpoch,
    MemoryMove,
    KeysRotate,
    BackupCreate,
    BackupRestore,
    Migrate,
    ConfigReload,
    ConfigSet,
    ConfigUnset,
    NodeDrain,
    NodeUndrain,
    PauseBegin,
    PauseEnd,
    BatchCancel,
    MailRetry,
    MailGiveUp,
    WebhookDisable,
    WebhookEnable,
    SessionEnd,
    KeyQuarantine,
    KeyRelease,
    KeyRestart,
    ActorRestart,
    ActorKill,
    EventTap,
}

impl ActKind {
    /// All kinds.
    pub const ALL: &[Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The name.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The way on which an act reached the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ActDoor {
    /// A command on the machine of the database or of a node.
    Shell,
    /// A signal to the server's process.
    Signal,
    /// The operator's socket of a server.
    Socket,
    /// A token at the operator's listener of a server.
    Token,
    /// A page of the operator's listener of a server.
    Console,
}

/// Who did it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActAuthor {
    /// The way on which the act came.
    pub door: ActDoor,
    /// User id of the command, or of the process at the socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// User id of the person who ran the command with `sudo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sudo_uid: Option<u32>,
    /// Name of the operator in the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// Hash of the operator's identity at an OpenID provider: the first 16 hex digits of the SHA-256 of issuer, line feed and subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Address of the client of the operator's listener.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<IpAddr>,
}

impl ActAuthor {
    /// An author of whom only the door is known.
    pub fn at(door: ActDoor) -> Self {
        Self { door, uid: None, sudo_uid: None, operator: None, subject: None, from: None }
    }
}

impl fmt::Display for ActAuthor {
    /// `shell:1000`, `shell:0 (sudo 1000)`, `signal`, `socket:1000 (desk)` or `token (desk)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.door.into())?;
        self.uid.map_or(Ok(()), |uid| write!(f, ":{uid}"))?;
        self.sudo_uid.map_or(Ok(()), |uid| write!(f, " (sudo {uid})"))?;
        self.operator.as_ref().map_or(Ok(()), |name| write!(f, " ({name})"))
    }
}

/// How an act ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActOutcome {
    /// It has its effect: both were written in one transaction.
    Applied,
    /// It was recorded before work outside of the database, such as a copy.
    Begun,
    /// It was refused and changed nothing.
    Refused,
    /// It failed; whether it changed something outside of the database is unknown.
    Failed,
}

/// An operator's reason: 1 to 500 characters on one line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ActReason(String);

impl ActReason {
    /// Maximum number of characters.
    pub const CHARACTERS_MAX: usize = 500;

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A text that is not a reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a reason has 1 to {max} characters on one line", max = ActReason::CHARACTERS_MAX)]
pub struct InvalidReason;

impl FromStr for ActReason {
    type Err = InvalidReason;

    /// Trims the text first.
    fn from_str(text: &str) -> Result<Self, InvalidReason> {
        let text = text.trim();
        let fits = (1..=Self::CHARACTERS_MAX).contains(&text.chars().count()) && !text.contains(char::is_control);
        if fits { Ok(Self(text.to_owned())) } else { Err(InvalidReason) }
    }
}

/// An act of an operator: the payload of its event. It names ids only: no e-mail address, no secret, no content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorAct {
    /// What was done.
    pub act: ActKind,
    /// Who did it.
    pub by: ActAuthor,
    /// Name of the host on which it was done.
    pub node: String,
    /// The object, such as `account:ID`; `None` if the act is about the whole installation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The changed values before the act.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// The changed values after the act.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
    /// The operator's reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<ActReason>,
    /// Time at which the effect ends by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

impl OperatorAct {
    /// The start of the event types. The registry contains no such type, and an event of such a type that a sender sends as
    /// `svc-control-plane` is held.
    pub const PREFIX: &'static str = "operator.";

    /// An act about the whole installation.
    pub fn new(act: ActKind, by: ActAuthor, node: impl Into<String>) -> Self {
        Self { act, by, node: node.into(), target: None, before: None, after: None, reason: None, until: None }
    }

    /// Names the object: its kind, and its id.
    #[must_use]
    pub fn on(self, kind: &str, id: impl fmt::Display) -> Self {
        Self { target: Some(format!("{kind}:{id}")), ..self }
    }

    /// Adds the values after the act.
    #[must_use]
    pub fn to(self, after: Value) -> Self {
        Self { after: Some(after), ..self }
    }

    /// Adds the reason.
    #[must_use]
    pub fn because(self, reason: Option<ActReason>) -> Self {
        Self { reason, ..self }
    }

    /// Adds the time at which the effect ends.
    #[must_use]
    pub fn until(self, at: Timestamp) -> Self {
        Self { until: Some(date_time(at)), ..self }
    }

    /// The event at `position` of the installation's own chain.
    pub fn event(
        &self,
        id: EventId,
        installation: InstallationId,
        outcome: ActOutcome,
        position: &Position,
        at: Timestamp,
    ) -> EncodedEvent {
        let scope = report_scope(&installation.recorder());
        let mut payload = json!(self);
        payload["outcome"] = json!(outcome);
        let event_type = format!("{}{}", Self::PREFIX, self.act.as_str());
        seal(report(id, &event_type, at, scope, payload), position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;
    use crate::envelope::Sealed;
    use crate::registry::Registry;

    #[test]
    fn the_event_is_sealed_and_no_sender_can_report_it() {
        let (rng, now) = (Rng::seeded(1), Timestamp::UNIX_EPOCH);
        let installation: InstallationId = rng.uuid_v7(now).into();
        let by = ActAuthor { uid: Some(0), sudo_uid: Some(1000), ..ActAuthor::at(ActDoor::Shell) };
        assert_eq!(by.to_string(), "shell:0 (sudo 1000)");
        let from = Some("::1".parse().unwrap());
        let desk = ActAuthor { operator: Some("desk".to_owned()), from, ..ActAuthor::at(ActDoor::Token) };
        assert_eq!((desk.to_string().as_str(), &json!(desk)["from"]), ("token (desk)", &json!("::1")));
        for act in ActKind::ALL {
            let whole = OperatorAct::new(*act, by.clone(), "node-1")
                .on("account", "a1")
                .to(json!({ "plan": "PRO" }))
                .because(Some("a ticket".parse().unwrap()))
                .until(now);
            let written =
                whole.event(rng.uuid_v7(now).into(), installation, ActOutcome::Applied, &Position::genesis(3), now);
            let sealed = Sealed::open_report(&written.body).unwrap();
            assert!(sealed.seal_is_right());
            let envelope = &sealed.envelope;
            assert_eq!(envelope.event_type.as_str(), format!("operator.{}", act.as_str()));
            assert_eq!((envelope.scope.machine_id.as_uuid(), envelope.chain_epoch), (installation.as_uuid(), 3));
            assert!(Registry::built_in().unwrap().judge(envelope).is_err());
            let payload = &envelope.payload;
            assert_eq!((&payload["outcome"], &payload["target"]), (&json!("applied"), &json!("account:a1")));
            let read: OperatorAct = serde_json::from_value(json!(payload)).unwrap();
            assert_eq!(read, whole);
        }
    }

    #[test]
    fn a_reason_is_one_line_of_bounded_length() {
        assert_eq!(" why \n".parse::<ActReason>().unwrap().as_str(), "why");
        assert!("x".repeat(500).parse::<ActReason>().is_ok());
        for wrong in ["", "  ", "one\ntwo", &"x".repeat(501)] {
            assert_eq!(wrong.parse::<ActReason>(), Err(InvalidReason), "{wrong:?}");
        }
    }
}
