//! The time in which a node accepted no event although clients sent events continuously.

use std::time::{Duration, Instant};

/// The responses of one node over time.
#[derive(Debug)]
pub struct Availability {
    /// The time of its last acknowledgement.
    taken: Instant,
    /// Time from which the test does not disturb the node; `None` while it is stopped, cut off or starting.
    untouched: Option<Instant>,
    /// Since when each check of `/readyz` answered 200.
    ready: Option<Instant>,
    /// The longest time without an acknowledgement while the node was undisturbed.
    refused: Duration,
    /// The longest time without an acknowledgement while the test disturbed the node and `/readyz` was 200: a balancer would have sent
    /// requests to it.
    unready_late: Duration,
    acknowledged: u64,
}

impl Availability {
    /// A node that is about to start.
    pub fn new() -> Self {
        let zero = Duration::ZERO;
        let taken = Instant::now();
        Self { taken, untouched: None, ready: None, refused: zero, unready_late: zero, acknowledged: 0 }
    }

    /// Adds the time since the last acknowledgement to the present kind of time.
    fn account(&mut self) {
        let without = |since: Instant| since.max(self.taken).elapsed();
        if let Some(untouched) = self.untouched {
            self.refused = self.refused.max(without(untouched));
        } else if let Some(ready) = self.ready {
            self.unready_late = self.unready_late.max(without(ready));
        }
    }

    /// The node acknowledged an event.
    pub fn takes(&mut self) {
        self.account();
        self.taken = Instant::now();
        self.acknowledged += 1;
    }

    /// The node answered a check of its readiness, or did not answer.
    pub fn is_ready(&mut self, ready: bool) {
        self.account();
        self.ready = ready.then(|| self.ready.unwrap_or_else(Instant::now));
    }

    /// The test starts to disturb the node.
    pub fn touch(&mut self) {
        self.account();
        self.untouched = None;
        // A check of readiness before the fault does not apply to it.
        self.ready = None;
    }

    /// The test stops to disturb the node.
    pub fn leave(&mut self) {
        self.account();
        self.untouched = Some(Instant::now());
    }

    /// Whether the test does not disturb the node.
    pub fn is_untouched(&self) -> bool {
        self.untouched.is_some()
    }

    /// Number of acknowledgements so far.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// The longest refusals: while untouched, and while touched and ready.
    pub fn longest(&mut self) -> (Duration, Duration) {
        self.account();
        (self.refused, self.unready_late)
    }
}
