//! The fill level and the heartbeat of a queue.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::causes::current_request;
use crate::kind::KindState;

/// The fill level of one actor's queue and the time of its last progress. It holds no reference to the actor, because permits inside the
/// queue hold the meter: such a reference would keep the queue alive forever.
pub(crate) struct Meter {
    kind: Arc<KindState>,
    /// Messages that wait or are being handled.
    queued: AtomicU32,
    /// Time at which the queue last became non-empty or freed a place, in microseconds since the kind's epoch.
    moved: AtomicU64,
    /// Messages that arrived before this time have been handled, in microseconds since the kind's epoch.
    handled: AtomicU64,
    /// The request of the message during which the actor panicked, if it is known.
    panicked: OnceLock<Option<String>>,
    /// The actor is killed for being stuck.
    marked_stuck: AtomicBool,
}

impl Meter {
    pub(crate) fn new(kind: &Arc<KindState>) -> Arc<Self> {
        Arc::new(Self {
            kind: Arc::clone(kind),
            queued: AtomicU32::new(0),
            moved: AtomicU64::new(kind.micros()),
            handled: AtomicU64::new(kind.micros()),
            panicked: OnceLock::new(),
            marked_stuck: AtomicBool::new(false),
        })
    }

    pub(crate) fn kind(&self) -> &Arc<KindState> {
        &self.kind
    }

    /// Takes a place in the queue, if one is free.
    pub(crate) fn admit(self: &Arc<Self>) -> Option<Permit> {
        let now = self.kind.micros();
        let queue_max = self.kind.settings().queue_max;
        let mut queued = self.queued.load(Ordering::Relaxed);
        loop {
            if queued >= queue_max {
                return None;
            }
            if queued == 0 {
                // Recorded before the place is taken: a reader that sees the place taken must not count the idle time as time without
                // progress.
                self.moved_at(now);
                self.handled.fetch_max(now, Ordering::Relaxed);
            }
            match self.queued.compare_exchange_weak(queued, queued + 1, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break,
                Err(seen) => queued = seen,
            }
        }
        self.kind.queued.increment(1.0);
        self.kind.times.arrived(queued + 1, now);
        Some(Permit { meter: Arc::clone(self), arrived: now })
    }

    /// Messages that wait or are being handled.
    pub(crate) fn queued(&self) -> u32 {
        self.queued.load(Ordering::Acquire)
    }

    /// Time since the queue last became non-empty or freed a place, or since the process continued after a pause.
    pub(crate) fn unmoved_for(&self) -> Duration {
        let moved = self.moved.load(Ordering::Acquire).max(self.kind.woke());
        Duration::from_micros(self.kind.micros().saturating_sub(moved))
    }

    /// Age of the oldest message, at most too large by the time between two arrivals.
    pub(crate) fn oldest_for(&self) -> Duration {
        Duration::from_micros(self.kind.micros().saturating_sub(self.handled.load(Ordering::Relaxed)))
    }

    /// The request of the message during which the actor panicked.
    pub(crate) fn panicked_request(&self) -> Option<String> {
        self.panicked.get().cloned().flatten()
    }

    /// Records a heartbeat.
    pub(crate) fn moves(&self) {
        self.moved_at(self.kind.micros());
    }

    /// Records a heartbeat at this time. Returns the time of the one before.
    fn moved_at(&self, now: u64) -> u64 {
        self.moved.fetch_max(now, Ordering::AcqRel)
    }

    /// Whether there was no heartbeat for `stuck_after`; also true of an idle actor.
    pub(crate) fn is_still(&self) -> bool {
        self.unmoved_for() >= self.kind.settings().stuck_after
    }

    /// Whether the actor holds messages and finished none for `stuck_after`.
    pub(crate) fn is_stuck(&self) -> bool {
        self.queued() > 0 && self.is_still()
    }

    /// Marks the actor as killed for being stuck. Returns `true` to the first caller only, which then kills it.
    pub(crate) fn mark_stuck(&self) -> bool {
        let first = !self.marked_stuck.swap(true, Ordering::AcqRel);
        if first {
            self.kind.count_stuck();
        }
        first
    }

    pub(crate) fn is_marked_stuck(&self) -> bool {
        self.marked_stuck.load(Ordering::Acquire)
    }
}

/// A place in an actor's queue, which becomes free when this is dropped.
pub(crate) struct Permit {
    meter: Arc<Meter>,
    /// When the place was taken, in microseconds since the kind's epoch.
    arrived: u64,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Self { meter, arrived } = self;
        let now = meter.kind.micros();
        let before = meter.moved_at(now);
        meter.handled.fetch_max(*arrived, Ordering::Relaxed);
        if std::thread::panicking() {
            // The first message that is dropped is the one in hand; the queue is dropped after it.
            let _ = meter.panicked.set(current_request());
        }
        meter.kind.times.handled(*arrived, before, now);
        meter.queued.fetch_sub(1, Ordering::AcqRel);
        meter.kind.queued.decrement(1.0);
    }
}
