//! The event with which the service reports a change of a consent level (`docs/decisions/0015-reports-of-consent.md`).

use serde_json::{Value, json};

use super::pause::PauseReport;
use super::{ConsentLevel, ConsentRule};
use crate::chain::{Position, Prev};
use crate::clock::date_time;
use crate::envelope::{EncodedEvent, report, report_scope, seal};
use crate::ids::{EventId, MachineUuid, RegistrationId, UserAccountId, UserCuid};
use crate::recorder::Recorder;
use crate::{Digest, Timestamp};

/// A change of a consent level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsentChange {
    /// The identity with the changed level.
    pub identity: UserCuid,
    /// The account that the identity is linked to.
    pub account: Option<UserAccountId>,
    /// The new record; if `inherited`, the level of the scope without a separate record.
    pub rule: ConsentRule,
    /// Whether the record was removed: the scope follows the more general records again.
    pub inherited: bool,
    /// The previous level of the same author for the same scope.
    pub previous: Option<ConsentLevel>,
    /// The agent, if the author is one.
    pub agent: Option<RegistrationId>,
    /// The reason that the author gave.
    pub reason: Option<String>,
    /// Set if recording was paused or resumed: `rule` is then the level in force, and no record changed.
    pub pause: Option<PauseReport>,
}

impl ConsentChange {
    /// Event type of the report.
    pub const EVENT_TYPE: &'static str = "consent.changed";

    /// The event at `position` of the chain of `control_machine`.
    pub fn event(&self, id: EventId, control_machine: MachineUuid, position: &Position, at: Timestamp) -> EncodedEvent {
        let mut scope = report_scope(&Recorder { machine: control_machine, identity: self.identity.clone() });
        if let Some(account) = &self.account {
            scope["user_account_id"] = json!(account);
        }
        let mut payload = json!({
            "level": self.rule.level,
            "previous_level": self.previous,
            "machine_uuid": self.rule.machine,
            "lane": self.rule.lane,
            "set_by": self.rule.set_by,
            "reason": self.reason,
        });
        if let Some(agent) = self.agent {
            payload["agent_id"] = json!(agent);
        }
        if self.inherited {
            payload["inherited"] = json!(true);
        }
        match self.pause {
            Some(PauseReport::Until(until)) => {
                payload["pause"] = json!("began");
                payload["paused_until"] = json!(date_time(until));
            }
            Some(PauseReport::Ended) => payload["pause"] = json!("ended"),
            None => {}
        }
        seal(report(id, Self::EVENT_TYPE, at, scope, payload), position)
    }
}

/// Encodes an unsent event again at another position. `None` if `body` is not a JSON object.
pub fn moved_to(body: &[u8], position: &Position) -> Option<EncodedEvent> {
    let Ok(Value::Object(members)) = serde_json::from_slice(body) else { return None };
    Some(seal(members, position))
}

/// The position after an event with this seal.
pub fn after(position: &Position, seal: Digest) -> Position {
    Position { chain_epoch: position.chain_epoch, seq: position.seq + 1, prev: Prev::Event(seal) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;
    use crate::consent::Author;
    use crate::envelope::Sealed;
    use crate::registry::Registry;

    #[test]
    fn the_event_is_one_that_the_registry_knows_and_the_seal_is_right() {
        let rng = Rng::seeded(1);
        let now = Timestamp::UNIX_EPOCH;
        let machine = MachineUuid::from(rng.uuid_v7(now));
        for (account, target, lane, reason, pause) in [
            (None, None, None, None, Some(PauseReport::Until(now))),
            (None, None, None, None, Some(PauseReport::Ended)),
            (
                Some("account1".parse().unwrap()),
                Some(machine),
                Some(crate::lane::Lane::Llm),
                Some("too much \u{1F600} \"said\"".into()),
                None,
            ),
        ] {
            let report = ConsentChange {
                identity: rng.cuid2().parse().unwrap(),
                account,
                rule: ConsentRule { machine: target, lane, level: ConsentLevel::Off, set_by: Author::Computer },
                previous: Some(ConsentLevel::Full),
                inherited: target.is_some(),
                agent: target.map(|_| rng.uuid_v7(now).into()),
                reason,
                pause,
            };
            let first = Position::genesis(0);
            let written = report.event(rng.uuid_v7(now).into(), machine, &first, now);
            let sealed = Sealed::open_report(&written.body).unwrap();
            assert!(sealed.seal_is_right() && sealed.seal == written.seal);
            let envelope = &sealed.envelope;
            let registry = Registry::built_in().unwrap();
            assert_eq!(registry.judge(envelope), Ok(()));
            assert_eq!(envelope.payload.get("inherited").is_some(), target.is_some());
            assert_eq!(envelope.payload.get("agent_id").is_some(), target.is_some());
            assert_eq!(envelope.payload.get("pause").is_some(), pause.is_some());
            let second = after(&first, written.seal);
            let moved = moved_to(&written.body, &second).unwrap();
            let sealed = Sealed::open_report(&moved.body).unwrap();
            assert!(sealed.seal_is_right() && sealed.envelope.position() == second);
        }
    }
}
