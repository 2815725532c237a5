//! The record with which the embedded log begins an epoch: an event of the service itself, in the log like any other.

use serde_json::json;

use crate::Timestamp;
use crate::chain::Position;
use crate::envelope::{AgentKinds, EncodedEvent, report, seal};
use crate::ids::{EventId, InstallationId, MachineUuid, UserCuid};

/// The event type of the record. The default registry does not have it, and a sender's event of this type as `svc-control-plane` is held
/// even if an operator registers it.
pub const EVENT_TYPE: &str = "log.epoch_began";

/// An epoch that begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EpochBegan {
    /// Whose log it is; also the computer that the event names.
    pub installation: InstallationId,
    /// The origin of its checkpoints.
    pub origin: String,
    /// Whether the events of the epoch before are still in the log. Otherwise the log is empty but for this event.
    pub continues: bool,
    /// The newest checkpoint of the epoch before that the installation remembers, a signed note.
    pub checkpoint_before: Option<String>,
}

impl EpochBegan {
    /// The computer of the event's chain.
    pub fn machine(&self) -> MachineUuid {
        self.installation.as_uuid().into()
    }

    /// The event, at its place in the chain of the installation. `identity` has no owner.
    pub fn event(&self, id: EventId, identity: &UserCuid, position: &Position, at: Timestamp) -> EncodedEvent {
        let scope = json!({
            "user_id": identity,
            "machine_id": self.machine(),
            "agent_id": AgentKinds::CONTROL_PLANE,
        });
        let payload = json!({
            "origin": self.origin,
            "continues": self.continues,
            "checkpoint_before": self.checkpoint_before,
        });
        seal(report(id, EVENT_TYPE, at, scope, payload), position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;
    use crate::envelope::Sealed;
    use crate::registry::Registry;

    #[test]
    fn the_record_is_sealed_and_no_sender_can_report_it() {
        let (rng, now) = (Rng::seeded(1), Timestamp::UNIX_EPOCH);
        let began = EpochBegan {
            installation: rng.uuid_v7(now).into(),
            origin: "attache/log/epoch-19700101T000000Z".to_owned(),
            continues: true,
            checkpoint_before: Some("attache/log\n13\n".to_owned()),
        };
        let identity = rng.cuid2().parse().unwrap();
        let written = began.event(rng.uuid_v7(now).into(), &identity, &Position::genesis(0), now);
        let sealed = Sealed::open(&written.body, 65_536, &AgentKinds::new([])).unwrap();
        assert!(sealed.seal_is_right() && sealed.envelope.scope.machine_id == began.machine());
        assert!(Registry::built_in().unwrap().judge(&sealed.envelope).is_err());
    }
}
