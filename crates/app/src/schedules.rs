//! The schedules of periodic actors that follow live settings.

use std::time::Duration;

use supervision::periodic::LiveSchedule;

use super::config::Settings;
use super::supervised;

/// Schedules that are replaced when their settings change. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct LiveSchedules {
    /// `log.checkpoint_every`: the sequencer, and the witnesses.
    pub checkpoint: LiveSchedule,
    /// `log.remember_every`: the actor that remembers checkpoints.
    pub remember: LiveSchedule,
    /// `consent.outbox_every`: changes of consent and acts.
    pub outbox: LiveSchedule,
    /// `janitor.every`: expired records.
    pub janitor: LiveSchedule,
}

impl LiveSchedules {
    /// The schedules of these settings.
    pub fn of(settings: &Settings) -> Self {
        let [checkpoint, remember, outbox, janitor] =
            pauses(settings).map(|pause| LiveSchedule::new(supervised::every(pause)));
        Self { checkpoint, remember, outbox, janitor }
    }

    /// Follows other settings.
    pub fn set(&self, settings: &Settings) {
        let own = [&self.checkpoint, &self.remember, &self.outbox, &self.janitor];
        for (own, pause) in own.into_iter().zip(pauses(settings)) {
            own.set(supervised::every(pause));
        }
    }
}

/// The pauses, in the order of the members.
fn pauses(settings: &Settings) -> [Duration; 4] {
    let Settings { log, consent, janitor, .. } = settings;
    [log.checkpoint_every, log.remember_every, consent.outbox_every, janitor.every]
}
