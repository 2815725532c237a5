//! The record of a periodic actor's passes.
//!
//! It outlives the actor: a restart keeps the time of the first failure.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use metrics::Counter;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::address::milliseconds;
use crate::kind::{Kind, metric_name};

/// Maximum length of a kept error, in characters.
const ERROR_CHARACTERS_MAX: usize = 400;

/// The record of one actor's passes. Clones share the record.
#[derive(Clone)]
pub struct Passes(Arc<Record>);

struct Record {
    name: &'static str,
    failures: Counter,
    /// The failed passes since the last successful one.
    failing: Mutex<Option<Failing>>,
    last: Mutex<Option<Last>>,
}

#[derive(Clone, Copy)]
struct Last {
    ended: Instant,
    took: Duration,
    /// When the next pass starts, unless the actor is woken; `None` before that is planned.
    next: Option<Instant>,
}

/// The last pass of a periodic actor, as the operator sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastPass {
    /// Milliseconds since its end.
    pub ended_ms_ago: u64,
    /// Milliseconds that it took.
    pub took_ms: u64,
    /// Milliseconds until the next one starts, unless work is announced before; 0 while one runs.
    pub next_in_ms: u64,
}

struct Failing {
    since: Instant,
    passes: u64,
    error: String,
}

/// Failing passes, as the operator sees them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailingPasses {
    /// The error of the last pass with its causes, at most 400 characters.
    pub error: String,
    /// Number of passes that failed in a row.
    pub passes: u64,
    /// Seconds since the first failure in a row.
    pub since_seconds_ago: u64,
}

impl Passes {
    /// A record without a failure. The counter is registered here: install the metrics recorder first.
    pub(super) fn new<K: Kind>(kind: K) -> Self {
        let name = kind.name();
        let failures = metrics::counter!(metric_name::<K>("pass_failures_total"), "name" => name);
        // A series that starts with its first failure would hide that failure from the function `increase()` of Prometheus.
        failures.absolute(0);
        Self(Arc::new(Record { name, failures, failing: Mutex::default(), last: Mutex::default() }))
    }

    /// The name of the actor in logs and metrics.
    pub fn name(&self) -> &'static str {
        self.0.name
    }

    /// The failed passes since the last successful one; `None` if the last one succeeded, or none has ended yet.
    pub fn failing(&self) -> Option<FailingPasses> {
        self.read(|failing| FailingPasses {
            error: failing.error.clone(),
            passes: failing.passes,
            since_seconds_ago: failing.since.elapsed().as_secs(),
        })
    }

    /// The last pass; `None` if none has ended yet.
    pub fn last(&self) -> Option<LastPass> {
        let last = *self.0.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.map(|Last { ended, took, next }| LastPass {
            ended_ms_ago: milliseconds(ended.elapsed()),
            took_ms: milliseconds(took),
            next_in_ms: next.map_or(0, |next| milliseconds(next - Instant::now())),
        })
    }

    pub(super) fn ended(&self, took: Duration) {
        let last = Last { ended: Instant::now(), took, next: None };
        *self.0.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(last);
    }

    pub(super) fn next_after(&self, pause: Duration) {
        if let Some(last) = &mut *self.0.last.lock().unwrap_or_else(PoisonError::into_inner) {
            last.next = Some(Instant::now() + pause);
        }
    }

    /// Time since the first failure in a row.
    pub fn failing_for(&self) -> Option<Duration> {
        self.read(|failing| failing.since.elapsed())
    }

    pub(super) fn failed(&self, error: &str) {
        self.0.failures.increment(1);
        let mut failing = self.0.failing.lock().unwrap_or_else(PoisonError::into_inner);
        if failing.is_none() {
            tracing::warn!(actor.name = self.0.name, error, "passes began to fail and are retried");
        } else {
            tracing::debug!(actor.name = self.0.name, error, "a pass failed again");
        }
        let failing = failing.get_or_insert_with(|| Failing { since: Instant::now(), passes: 0, error: String::new() });
        failing.passes += 1;
        failing.error = error.chars().take(ERROR_CHARACTERS_MAX).collect();
    }

    pub(super) fn succeeded(&self) {
        let failing = self.0.failing.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Failing { since, passes, .. }) = failing {
            let seconds = since.elapsed().as_secs();
            tracing::info!(actor.name = self.0.name, passes, seconds, "passes succeed again");
        }
    }

    fn read<T>(&self, read: impl FnOnce(&Failing) -> T) -> Option<T> {
        self.0.failing.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(read)
    }
}

impl fmt::Debug for Passes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Passes({})", self.0.name)
    }
}
