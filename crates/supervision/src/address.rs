//! The operations that a supervisor performs on the address of its child.

use std::time::Duration;

use ractor::ActorCell;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::kind::KindState;
use crate::settings::ActorSettings;

/// An address that outlives the actors behind it: a [`Handle`](crate::Handle) or a [`Directory`](crate::Directory).
pub(crate) trait Address: Send + Sync + 'static {
    fn kind(&self) -> &KindState;

    /// The child runs: messages are sent to this actor from now on.
    fn point_at(&self, actor: ActorCell);

    /// The child does not run and is started again at `until`.
    fn down_until(&self, until: Instant);

    /// Refuses new messages from now on.
    fn close(&self) {
        self.kind().close();
    }

    /// Replaces the settings.
    fn retune(&self, settings: &ActorSettings) {
        self.kind().retune(settings.clone());
    }

    fn counts(&self) -> ActorCounts;

    /// The request of the message during which the single actor behind this address panicked.
    fn panicked_request(&self) -> Option<String> {
        None
    }

    /// Of several actors behind this address those with the most messages.
    fn busiest(&self, _number: usize) -> Vec<BusyKey> {
        Vec::new()
    }
}

/// A keyed actor with messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BusyKey {
    /// The id that log lines name.
    pub key: String,
    /// Messages that wait or are being handled.
    pub queued: u32,
    /// Milliseconds since it last finished a message, or since the first one arrived.
    pub unmoved_ms: u64,
}

/// Whole milliseconds.
pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The numbers of actors and messages behind an address.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ActorCounts {
    /// Actors that run.
    pub(crate) live: u64,
    /// Messages that wait or are being handled.
    pub(crate) queued: u64,
    /// Keys in quarantine.
    pub(crate) quarantined: u64,
    /// Time since the last message was finished although messages wait; `None` if none waits, or if several actors share the address.
    pub(crate) unmoved_for: Option<Duration>,
    /// Age of the oldest message; `None` under the same conditions.
    pub(crate) oldest_for: Option<Duration>,
}
