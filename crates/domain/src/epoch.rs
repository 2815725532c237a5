//! The event that starts an epoch of the embedded log. The service itself records it.

use serde_json::json;

use crate::Timestamp;
use crate::chain::Position;
use crate::envelope::{EncodedEvent, report, report_scope, seal};
use crate::ids::{EventId, InstallationId};

/// The event type. The default registry does not contain it, and an event of this type that a sender sends as
/// `svc-control-plane` is held even if an operator registers the type.
pub const EVENT_TYPE: &str = "log.epoch_began";

/// A new epoch of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EpochBegan {
    /// The installation of the log, which the event names as its computer.
    pub installation: InstallationId,
    /// Origin of the checkpoints in the new epoch.
    pub origin: String,
    /// Whether the log still has the events of the previous epoch. Otherwise this event is its first.
    pub continues: bool,
    /// The newest checkpoint of the previous epoch that the installation has, as a signed note.
    pub checkpoint_before: Option<String>,
    /// The operator's reason, if one was given.
    pub reason: Option<String>,
}

impl EpochBegan {
    /// The event at `position` of the installation's own chain.
    pub fn event(&self, id: EventId, position: &Position, at: Timestamp) -> EncodedEvent {
        let scope = report_scope(&self.installation.recorder());
        let mut payload = json!({
            "origin": self.origin,
            "continues": self.continues,
            "checkpoint_before": self.checkpoint_before,
        });
        if let Some(reason) = &self.reason {
            payload["reason"] = json!(reason);
        }
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
            reason: Some("a backup of yesterday was restored".to_owned()),
        };
        let written = began.event(rng.uuid_v7(now).into(), &Position::genesis(0), now);
        let sealed = Sealed::open_report(&written.body).unwrap();
        assert!(sealed.seal_is_right() && sealed.envelope.scope.machine_id == began.installation.recorder().machine);
        assert!(Registry::built_in().unwrap().judge(&sealed.envelope).is_err());
    }
}
