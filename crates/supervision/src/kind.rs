//! The kinds of actor that a product has, and the state that all actors of one kind share.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use metrics::{Counter, Gauge, KeyName};
use tokio::time::Instant;
use tracing::Span;

use crate::settings::ActorSettings;
use crate::times::{MessageTimes, Times};
use crate::unavailable::Unavailable;

/// A kind of actor. A product implements this for an enum with one variant for each kind, so that no kind can be misspelt.
pub trait Kind: Copy + fmt::Debug + Send + Sync + 'static {
    /// First part of every metric name, such as `shop` for `shop_actor_live`.
    const METRICS_PREFIX: &'static str;

    /// Name of the kind in the configuration, in the log field `actor.kind` and in the metric label `kind`.
    fn name(self) -> &'static str;

    /// Whether each message is handled in a separate span, which is the default. Otherwise messages are handled in the span of their
    /// sender: for kinds with a handler that costs less than a span, and for kinds that group the work of many senders.
    fn has_spans(self) -> bool {
        true
    }
}

/// A timer that is less late than this does not indicate a pause of the process.
const LATE_MIN: Duration = Duration::from_secs(1);

/// Limits, metrics and the closed flag of one kind.
pub(crate) struct KindState {
    pub(crate) name: &'static str,
    settings: ArcSwap<ActorSettings>,
    /// Set once, when the process drains. After that no message is admitted.
    closed: AtomicBool,
    /// The origin of the times in [`Meter`](crate::mailbox::Meter).
    epoch: Instant,
    /// When the process last resumed after a pause, in microseconds since the epoch.
    woke: AtomicU64,
    pub(crate) queued: Gauge,
    pub(crate) live: Gauge,
    pub(crate) crashes: Counter,
    pub(crate) restarts: Counter,
    pub(crate) quarantines: Counter,
    pub(crate) times: Times,
    has_spans: bool,
    metrics_prefix: &'static str,
    refused: KeyName,
}

impl KindState {
    pub(crate) fn new<K: Kind>(kind: K, settings: &ActorSettings) -> Arc<Self> {
        let name = kind.name();
        let metric = |suffix: &str| metric_name::<K>(suffix);
        Arc::new(Self {
            name,
            settings: ArcSwap::from_pointee(settings.clone()),
            closed: AtomicBool::new(false),
            epoch: Instant::now(),
            woke: AtomicU64::new(0),
            queued: metrics::gauge!(metric("actor_mailbox_depth"), "kind" => name),
            live: metrics::gauge!(metric("actor_live"), "kind" => name),
            crashes: metrics::counter!(metric("actor_crashes_total"), "kind" => name),
            restarts: metrics::counter!(metric("actor_restarts_total"), "kind" => name),
            quarantines: metrics::counter!(metric("actor_quarantined_total"), "kind" => name),
            times: Times::new(
                metrics::histogram!(metric("actor_queue_wait_seconds"), "kind" => name),
                metrics::histogram!(metric("actor_handler_seconds"), "kind" => name),
            ),
            has_spans: kind.has_spans(),
            metrics_prefix: K::METRICS_PREFIX,
            refused: metric("actor_refused_total").into(),
        })
    }

    /// The settings in force.
    pub(crate) fn settings(&self) -> Guard<Arc<ActorSettings>> {
        self.settings.load()
    }

    /// Replaces the settings. Every later decision about an actor of this kind uses the new ones.
    pub(crate) fn retune(&self, settings: ActorSettings) {
        self.settings.store(Arc::new(settings));
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The refusal, or [`Unavailable::Draining`] once the kind is closed, since draining is then the cause of every refusal.
    pub(crate) fn if_open(&self, refusal: Unavailable) -> Unavailable {
        if self.is_closed() { Unavailable::Draining } else { refusal }
    }

    pub(crate) fn count_refusal(&self, refusal: &Unavailable) {
        metrics::counter!(self.refused.clone(), "kind" => self.name, "reason" => refusal.reason()).increment(1);
    }

    /// Counts an actor that is killed because it finished no message in time.
    pub(crate) fn count_stuck(&self) {
        metrics::counter!(format!("{}_actor_stuck_total", self.metrics_prefix), "kind" => self.name).increment(1);
    }

    /// The span of a message `M`, as a child of the current span; the current span if no subscriber records it or the kind has none.
    pub(crate) fn message_span<M>(&self) -> Span {
        if !self.has_spans {
            return Span::current();
        }
        let span = tracing::info_span!("message", actor.kind = self.name, actor.message = short_name::<M>());
        if span.is_disabled() { Span::current() } else { span }
    }

    /// Records that a timer for `planned` has fired now. If it is late by a large part of `stuck_after`, the whole process was stopped or
    /// had no processor, and no actor could finish a message in that time.
    pub(crate) fn timer_fired(&self, planned: Instant) {
        if planned.elapsed() >= (self.settings().stuck_after / 2).max(LATE_MIN) {
            self.woke.fetch_max(self.micros(), Ordering::Release);
        }
    }

    /// When the process last resumed after a pause, in microseconds since this state was created; 0 if it never paused.
    pub(crate) fn woke(&self) -> u64 {
        self.woke.load(Ordering::Acquire)
    }

    /// The recent messages; `None` if there were none.
    pub(crate) fn message_times(&self) -> Option<MessageTimes> {
        self.times.snapshot(self.micros())
    }

    /// Microseconds since this state was created.
    pub(crate) fn micros(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// The name of a type without the path of its module and without parameters.
fn short_name<T>() -> &'static str {
    let path = std::any::type_name::<T>().split('<').next().unwrap_or_default();
    path.rsplit("::").next().unwrap_or(path)
}

pub(crate) fn metric_name<K: Kind>(suffix: &str) -> String {
    format!("{}_{suffix}", K::METRICS_PREFIX)
}
