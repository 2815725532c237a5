//! The way into one living actor: a bounded number of places, and a heartbeat that is read off the messages themselves.
//!
//! A [`Permit`] is a place in the queue. It travels inside the [`Reply`] of the message, so that the place is given back when the
//! message is answered or dropped, whatever happened to it: handled, discarded, or lost with a crashed actor. Given-back places are
//! also the heartbeat: an actor with taken places that gives none back for `stuck_after` is stuck, and the caller that notices
//! (its deadline passed, or there was no place left) kills it. Its supervisor then treats it like any crashed actor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use metrics::{Counter, Gauge};
use ractor::{ActorCell, ActorStatus, Message, MessagingErr};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Unavailable;
use crate::settings::ActorSettings;

/// How soon a caller notices that the actor is gone with its message unread.
const GONE_LOOK_EVERY: Duration = Duration::from_secs(1);

/// What all actors of one kind share.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) settings: ActorSettings,
    /// Set once, when the process drains: no new work.
    closed: AtomicBool,
    /// The zero of the meters' clocks.
    epoch: Instant,
    queued: Gauge,
    pub(crate) live: Gauge,
    pub(crate) crashes: Counter,
    pub(crate) restarts: Counter,
    pub(crate) quarantines: Counter,
}

impl Kind {
    pub(crate) fn new(name: &'static str, settings: &ActorSettings) -> Arc<Self> {
        Arc::new(Self {
            name,
            settings: settings.clone(),
            closed: AtomicBool::new(false),
            epoch: Instant::now(),
            queued: metrics::gauge!("attache_actor_mailbox_depth", "kind" => name),
            live: metrics::gauge!("attache_actor_live", "kind" => name),
            crashes: metrics::counter!("attache_actor_crashes_total", "kind" => name),
            restarts: metrics::counter!("attache_actor_restarts_total", "kind" => name),
            quarantines: metrics::counter!("attache_actor_quarantined_total", "kind" => name),
        })
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// While the process drains, that is the reason of every refusal.
    pub(crate) fn if_open(&self, refusal: Unavailable) -> Unavailable {
        if self.is_closed() { Unavailable::Draining } else { refusal }
    }

    pub(crate) fn refused(&self, refusal: &Unavailable) {
        metrics::counter!("attache_actor_refused_total", "kind" => self.name, "reason" => refusal.reason())
            .increment(1);
    }

    fn micros(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// One living actor and the meter of its queue.
#[derive(Clone)]
pub(crate) struct Door {
    actor: ActorCell,
    meter: Arc<Meter>,
}

/// How full the queue of one actor is, and when it last moved. Apart from the actor, because permits hold it from inside the mailbox: a permit
/// that held the actor would keep its own mailbox alive.
pub(crate) struct Meter {
    kind: Arc<Kind>,
    /// Messages waiting or in the actor's hands.
    queued: AtomicU32,
    /// When the queue last became non-empty or gave a place back, in microseconds since the kind's epoch.
    moved: AtomicU64,
    /// The actor was killed for being stuck.
    condemned: AtomicBool,
}

impl Door {
    pub(crate) fn to(actor: ActorCell, kind: &Arc<Kind>) -> Self {
        Self { actor, meter: Meter::new(kind) }
    }

    /// Takes a place in the queue.
    pub(crate) fn admit(&self) -> Result<Permit, Unavailable> {
        self.meter.admit().ok_or_else(|| {
            // When the queue stays full nobody gets in to time out, so the stuck are looked for here too.
            self.kill_if_stuck();
            self.meter.kind.if_open(Unavailable::Overloaded)
        })
    }

    /// Puts the message into the mailbox, or gives it back if the actor takes no more.
    pub(crate) fn send<M: Message>(&self, message: M) -> Result<(), Option<M>> {
        if self.meter.was_condemned() {
            return Err(Some(message));
        }
        self.actor.send_message(message).map_err(|refused| match refused {
            MessagingErr::SendErr(message) => Some(message),
            MessagingErr::ChannelClosed | MessagingErr::InvalidActorType => None,
        })
    }

    /// Waits for the answer to a message that was sent.
    ///
    /// Takes the door, to let go of it once the actor is gone: a message that reached the mailbox while the actor crashed lies there
    /// until the last address of the actor is forgotten, and so would everybody's wait for the answer to it.
    pub(crate) async fn answer<T>(self, mut answer: oneshot::Receiver<T>, until: Instant) -> Result<T, Unavailable> {
        let kind = Arc::clone(&self.meter.kind);
        let crashed = |_dropped| kind.if_open(Unavailable::Crashed);
        // Looked for now and then instead of waited for: nearly every message is answered before the first look.
        while self.actor.get_status() != ActorStatus::Stopped {
            let look = until.min(Instant::now() + GONE_LOOK_EVERY);
            match tokio::time::timeout_at(look, &mut answer).await {
                Ok(answered) => return answered.map_err(crashed),
                Err(_elapsed) if look < until => {}
                Err(_elapsed) => {
                    self.kill_if_stuck();
                    return Err(Unavailable::TimedOut);
                }
            }
        }
        drop(self);
        // It may also have left the answer to somebody else, who still works on it.
        tokio::time::timeout_at(until, answer).await.map_err(|_elapsed| Unavailable::TimedOut)?.map_err(crashed)
    }

    pub(crate) fn queued(&self) -> u32 {
        self.meter.queued()
    }

    /// How long the queue has neither grown from empty nor given a place back.
    pub(crate) fn unmoved_for(&self) -> Duration {
        self.meter.unmoved_for()
    }

    /// Kills the actor if it holds messages and finished none for `stuck_after`.
    ///
    /// Killing takes effect where a handler awaits; a handler that blocks its thread cannot be killed by anyone.
    fn kill_if_stuck(&self) {
        if self.meter.is_stuck() && self.meter.condemn() {
            let (kind, id) = (self.meter.kind.name, self.actor.get_id());
            tracing::error!(actor.kind = kind, actor.id = %id, queued = self.queued(), "killing a stuck actor");
            self.actor.kill();
        }
    }
}

impl Meter {
    pub(crate) fn new(kind: &Arc<Kind>) -> Arc<Self> {
        Arc::new(Self {
            kind: Arc::clone(kind),
            queued: AtomicU32::new(0),
            moved: AtomicU64::new(kind.micros()),
            condemned: AtomicBool::new(false),
        })
    }

    pub(crate) fn kind(&self) -> &Arc<Kind> {
        &self.kind
    }

    /// Takes a place in the queue, if one is free.
    pub(crate) fn admit(self: &Arc<Self>) -> Option<Permit> {
        let mut queued = self.queued.load(Ordering::Relaxed);
        loop {
            if queued >= self.kind.settings.queue_max {
                return None;
            }
            if queued == 0 {
                // Before the place is taken: whoever sees it taken must not read the idle time as time spent stuck.
                self.moves();
            }
            match self.queued.compare_exchange_weak(queued, queued + 1, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break,
                Err(seen) => queued = seen,
            }
        }
        self.kind.queued.increment(1.0);
        Some(Permit(Arc::clone(self)))
    }

    /// Messages waiting or in the actor's hands.
    pub(crate) fn queued(&self) -> u32 {
        self.queued.load(Ordering::Acquire)
    }

    /// How long the queue has neither grown from empty nor given a place back.
    pub(crate) fn unmoved_for(&self) -> Duration {
        let moved = self.moved.load(Ordering::Acquire);
        Duration::from_micros(self.kind.micros().saturating_sub(moved))
    }

    /// Notes a heartbeat.
    pub(crate) fn moves(&self) {
        self.moved.fetch_max(self.kind.micros(), Ordering::Release);
    }

    /// Whether there was no heartbeat for `stuck_after`, as with an actor that is idle.
    pub(crate) fn is_still(&self) -> bool {
        self.unmoved_for() >= self.kind.settings.stuck_after
    }

    /// Whether the actor holds messages and finished none for `stuck_after`.
    pub(crate) fn is_stuck(&self) -> bool {
        self.queued() > 0 && self.is_still()
    }

    /// Notes that the actor is killed for being stuck. Returns `true` to the first caller alone, who then kills it.
    pub(crate) fn condemn(&self) -> bool {
        let first = !self.condemned.swap(true, Ordering::AcqRel);
        if first {
            metrics::counter!("attache_actor_stuck_total", "kind" => self.kind.name).increment(1);
        }
        first
    }

    pub(crate) fn was_condemned(&self) -> bool {
        self.condemned.load(Ordering::Acquire)
    }
}

/// A place in an actor's queue, given back when dropped.
pub(crate) struct Permit(Arc<Meter>);

impl Drop for Permit {
    fn drop(&mut self) {
        let meter = &self.0;
        meter.moves();
        meter.queued.fetch_sub(1, Ordering::AcqRel);
        meter.kind.queued.decrement(1.0);
    }
}

/// Where an actor puts its answer; every message that arrives through a handle or a directory carries one.
///
/// It is also the message's place in the queue: answer it, drop it or [`park`](Self::park) it as soon as the message is dealt with.
pub struct Reply<T> {
    // First, so that a dropped message has given its place back before its sender learns of it.
    permit: Option<Permit>,
    port: Option<oneshot::Sender<T>>,
}

impl<T> Reply<T> {
    pub(crate) fn awaited(permit: Permit) -> (Self, oneshot::Receiver<T>) {
        let (port, answer) = oneshot::channel();
        (Self { permit: Some(permit), port: Some(port) }, answer)
    }

    pub(crate) fn unheard(permit: Permit) -> Self {
        Self { permit: Some(permit), port: None }
    }

    /// Answers. Says whether anybody was still waiting.
    pub fn send(mut self, answer: T) -> bool {
        // Before the answer: the sender's next message must find the place free.
        self.permit = None;
        self.port.is_some_and(|port| port.send(answer).is_ok())
    }

    /// Nobody waits for the answer: it was told, not asked, or the caller is gone or out of time.
    pub fn is_closed(&self) -> bool {
        self.port.as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    /// For an answer that comes from elsewhere or much later: gives the place in the queue back now, and with it the watch over a stuck
    /// handler. The actor then bounds by itself how many it keeps.
    #[must_use]
    pub fn park(mut self) -> Self {
        self.permit = None;
        self
    }
}

impl<T> std::fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reply")
    }
}
