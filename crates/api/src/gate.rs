//! Maximum number of requests, or of streams, in progress.

use std::sync::atomic::{AtomicUsize, Ordering};

use domain::live::Live;

/// Counts requests in progress and refuses requests above the limit. Requests do not wait, so a counter is sufficient. Each
/// [connection](super::connection) stores whether its request has a place.
#[derive(Debug)]
pub struct Gate {
    requests: AtomicUsize,
    requests_max: Live<usize>,
}

impl Gate {
    /// A gate with this maximum number of requests.
    pub fn new(requests_max: impl Into<Live<usize>>) -> Self {
        Self { requests: AtomicUsize::new(0), requests_max: requests_max.into() }
    }

    /// Takes a place; `false` if all places are taken.
    pub(super) fn enter(&self) -> bool {
        let requests_max = **self.requests_max.get();
        let one_more = |requests: usize| (requests < requests_max).then_some(requests + 1);
        self.requests.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_more).is_ok()
    }

    /// Gives a place back.
    pub(super) fn leave(&self) {
        self.requests.fetch_sub(1, Ordering::AcqRel);
    }
}
