//! How many requests may be in progress.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts requests in progress and refuses those above the limit. Nothing waits here, so a counter is enough.
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

    /// Takes a place; `None`: all are taken.
    pub fn enter(&self) -> Option<Place<'_>> {
        let one_more = |requests: usize| (requests < self.requests_max).then_some(requests + 1);
        self.requests.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_more).ok().map(|_| Place(self))
    }
}

/// One request in progress.
#[derive(Debug)]
pub struct Place<'g>(&'g Gate);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_gate_refuses_until_a_request_ends() {
        let gate = Gate::new(2);
        let (one, two) = (gate.enter().unwrap(), gate.enter().unwrap());
        for _ in 0..3 {
            assert!(gate.enter().is_none());
        }
        drop(one);
        let three = gate.enter().unwrap();
        assert!(gate.enter().is_none());
        drop((two, three));
        assert!(gate.enter().is_some());
    }
}
