//! The actors with one actor for each key, as operators see and steer them (`docs/decisions/0043-one-key.md`).

use std::collections::HashMap;

use domain::Timestamp;
use domain::actor_key::{ActorKey, CrashRecord, KeyedKind};
use domain::service_pause::{PausedFor, ServicePause};
use supervision::directory::{CrashedKey, KeyControl, KeyedState};
use tokio::time::Instant;

use crate::claim::Claims;
use crate::device::DeviceCodes;
use crate::ingest::Ingestion;

/// Keys of each kind in the row of a node.
const RECORDS_MAX: usize = 50;

/// The actors of all keyed kinds. Clones are the same.
#[derive(Debug, Clone)]
pub struct KeyedActors {
    /// The claim ceremonies of registrations.
    pub claims: Claims,
    /// Pollers of device codes.
    pub devices: DeviceCodes,
    /// The work on running batches.
    pub ingestion: Ingestion,
}

impl KeyedActors {
    fn of(&self, kind: KeyedKind) -> &dyn KeyControl {
        match kind {
            KeyedKind::Claims => self.claims.ceremonies(),
            KeyedKind::Devices => self.devices.pollers(),
            KeyedKind::Batches => self.ingestion.batches(),
        }
    }

    /// Keys with recently crashed actors, for each kind those with the most crashes.
    pub fn crashed(&self, now: Timestamp) -> Vec<CrashRecord> {
        let mut records = Vec::new();
        for kind in KeyedKind::ALL {
            let mut keys = self.of(*kind).crashed_keys();
            keys.sort_by(|one, other| other.crashes.cmp(&one.crashes).then_with(|| one.key.cmp(&other.key)));
            let record = |CrashedKey { key, crashes, error, request, crashed_ago, quarantined_for }| CrashRecord {
                key: format!("{}:{key}", kind.as_str()),
                crashes,
                error,
                request_id: request,
                last_crash_at: now - crashed_ago,
                quarantined_until: quarantined_for.map(|left| now + left),
            };
            records.extend(keys.into_iter().take(RECORDS_MAX).map(record));
        }
        records
    }

    /// The actor of this key on this node; `None` if none runs.
    pub fn state(&self, key: &ActorKey) -> Option<KeyedState> {
        self.of(key.kind).state(&key.id.to_string())
    }

    /// Ends the quarantine that crashes led to. Returns whether there was one.
    pub fn release(&self, key: &ActorKey) -> bool {
        self.of(key.kind).release(&key.id.to_string())
    }

    /// Lets the actor of this key end; the next message starts another from its row. Returns whether there was one.
    pub fn restart(&self, key: &ActorKey) -> bool {
        self.hand_over(key);
        self.of(key.kind).restart(&key.id.to_string())
    }

    /// Refuses the keys that operators have quarantined.
    pub fn quarantine(&self, pauses: &[ServicePause], now: Timestamp) {
        let mut keys: HashMap<KeyedKind, HashMap<String, Instant>> = HashMap::new();
        for pause in pauses {
            if let PausedFor::Key(key) = &pause.scope {
                self.hand_over(key);
                let left = (pause.until - now).to_std().unwrap_or_default();
                keys.entry(key.kind).or_default().insert(key.id.to_string(), Instant::now() + left);
            }
        }
        for kind in KeyedKind::ALL {
            self.of(*kind).refuse(keys.remove(kind).unwrap_or_default());
        }
    }

    /// Lets the actor of a batch give its lease back before it ends, so that any node continues it at once.
    fn hand_over(&self, key: &ActorKey) {
        if key.kind == KeyedKind::Batches {
            self.ingestion.hand_over_batch(key.id.into());
        }
    }
}
