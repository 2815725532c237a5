//! How many requests may be in progress.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts requests in progress and refuses those above the limit. No request waits here, so a counter is enough. The
/// [connections](super::connection) store which request has a place.
#[derive(Debug)]
pub struct Gate {
    requests: AtomicUsize,
    requests_max: usize,
}

impl Gate {
    /// A gate for at most this many requests.
    pub fn new(requests_max: usize) -> Self {
        Self { requests: AtomicUsize::new(0), requests_max }
    }

    /// Takes a place; `false`: all are taken.
    pub(super) fn enter(&self) -> bool {
        let one_more = |requests: usize| (requests < self.requests_max).then_some(requests + 1);
        self.requests.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_more).is_ok()
    }

    /// Gives a place back.
    pub(super) fn leave(&self) {
        self.requests.fetch_sub(1, Ordering::AcqRel);
    }
}
