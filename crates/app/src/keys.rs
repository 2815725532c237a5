//! Keys with recently crashed actors on this node, for operators.

use std::time::Duration;

use actors::ActorKind;
use domain::clock::date_time;
use supervision::directory::CrashedKey;
use wire::ops::CrashedKeyEntry;

use crate::App;

impl App {
    /// The keys with recently crashed actors, most crashes first; of one kind of actor or of all.
    pub fn crashed_keys(&self, kind: Option<ActorKind>) -> Vec<CrashedKeyEntry> {
        let now = self.clock.now();
        let described = |kind: ActorKind, found: CrashedKey| CrashedKeyEntry {
            kind: kind.name().to_owned(),
            key: found.key,
            crashes: found.crashes,
            error: found.error,
            last_crash_at: date_time(now - found.crashed_ago),
            quarantined_until: found.quarantined_for.map(|left: Duration| date_time(now + left)),
        };
        let all = [
            (ActorKind::Claims, self.claims.ceremonies().crashed_keys()),
            (ActorKind::Devices, self.devices.pollers().crashed_keys()),
            (ActorKind::Batches, self.ingestion.batches().crashed_keys()),
        ];
        let wanted = all.into_iter().filter(|(found, _)| kind.is_none_or(|kind| kind == *found));
        let mut keys: Vec<_> =
            wanted.flat_map(|(kind, keys)| keys.into_iter().map(move |key| described(kind, key))).collect();
        keys.sort_by(|one, other| other.crashes.cmp(&one.crashes).then_with(|| one.key.cmp(&other.key)));
        keys
    }

    /// Ends the quarantine of a key. Returns whether it was in one.
    pub fn release_key(&self, kind: &str, key: &str) -> bool {
        if kind == ActorKind::Claims.name() {
            self.claims.ceremonies().release(key)
        } else if kind == ActorKind::Devices.name() {
            self.devices.pollers().release(key)
        } else {
            kind == ActorKind::Batches.name() && self.ingestion.batches().release(key)
        }
    }
}
