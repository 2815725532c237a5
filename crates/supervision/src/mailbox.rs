//! The bounded mailbox of one running actor.
//!
//! A [`Permit`] is a place in the queue. It travels inside the [`Reply`] of the message, so that the place becomes free when the message is
//! answered or dropped: handled, discarded, or lost in a crash. Freed places are also the heartbeat. An actor that holds messages and frees
//! no place for `stuck_after` is stuck, and the caller that detects it (its deadline passed, or no place was free) kills the actor. The
//! supervisor then treats it like any crashed actor. If the caller's own timer fired late, the whole process was stopped; that time does
//! not count.

mod meter;
mod reply;

use std::sync::Arc;
use std::time::Duration;

use ractor::{ActorCell, ActorStatus, Message, MessagingErr};
use tokio::sync::oneshot;
use tokio::time::Instant;

pub(crate) use meter::{Meter, Permit};
pub use reply::Reply;

use crate::kind::KindState;
use crate::unavailable::Unavailable;

/// Interval at which a waiting caller checks whether the actor ended without reading its message.
const ENDED_CHECK_EVERY: Duration = Duration::from_secs(1);

/// One running actor and the meter of its queue.
#[derive(Clone)]
pub(crate) struct Mailbox {
    actor: ActorCell,
    meter: Arc<Meter>,
}

impl Mailbox {
    pub(crate) fn of(actor: ActorCell, kind: &Arc<KindState>) -> Self {
        Self { actor, meter: Meter::new(kind) }
    }

    /// Takes a place in the queue.
    pub(crate) fn admit(&self) -> Result<Permit, Unavailable> {
        self.meter.admit().ok_or_else(|| {
            // While the queue is full no caller is admitted, so none can time out; therefore the check for stuck actors is here too.
            self.kill_if_stuck();
            self.meter.kind().if_open(Unavailable::Overloaded)
        })
    }

    /// Puts the message into the queue, or returns it if the actor accepts no more messages.
    pub(crate) fn send<M: Message>(&self, message: M) -> Result<(), Option<M>> {
        if self.meter.is_marked_stuck() {
            return Err(Some(message));
        }
        // ractor takes the current span along with the message, and runs the handler in it.
        let sent = self.meter.kind().message_span::<M>().in_scope(|| self.actor.send_message(message));
        sent.map_err(|refused| match refused {
            MessagingErr::SendErr(message) => Some(message),
            MessagingErr::ChannelClosed | MessagingErr::InvalidActorType => None,
        })
    }

    /// Waits for the reply to a message that was sent.
    ///
    /// Takes the mailbox by value and drops it once the actor has ended: a message that reached the queue while the actor crashed stays
    /// there until the last address of the actor is dropped, and its sender would wait for as long.
    pub(crate) async fn answer<T>(self, mut answer: oneshot::Receiver<T>, until: Instant) -> Result<T, Unavailable> {
        let kind = Arc::clone(self.meter.kind());
        let crashed = |_dropped| kind.if_open(Unavailable::Crashed);
        // A check at intervals is cheaper than a subscription: nearly every reply arrives before the first check.
        while self.actor.get_status() != ActorStatus::Stopped {
            let check = until.min(Instant::now() + ENDED_CHECK_EVERY);
            match tokio::time::timeout_at(check, &mut answer).await {
                Ok(answered) => return answered.map_err(crashed),
                Err(_elapsed) if check < until => kind.timer_fired(check),
                Err(_elapsed) => {
                    kind.timer_fired(check);
                    self.kill_if_stuck();
                    return Err(Unavailable::TimedOut);
                }
            }
        }
        drop(self);
        // The actor may have passed the reply to a task that still works on it.
        tokio::time::timeout_at(until, answer).await.map_err(|_elapsed| Unavailable::TimedOut)?.map_err(crashed)
    }

    pub(crate) fn queued(&self) -> u32 {
        self.meter.queued()
    }

    /// Time since the queue last became non-empty or freed a place.
    pub(crate) fn unmoved_for(&self) -> Duration {
        self.meter.unmoved_for()
    }

    /// Age of the oldest message.
    pub(crate) fn oldest_for(&self) -> Duration {
        self.meter.oldest_for()
    }

    /// The request of the message during which the actor panicked.
    pub(crate) fn panicked_request(&self) -> Option<String> {
        self.meter.panicked_request()
    }

    /// Kills the actor if it holds messages and finished none for `stuck_after`.
    ///
    /// The kill takes effect at the next await of the handler. A handler that blocks its thread cannot be killed.
    fn kill_if_stuck(&self) {
        if self.meter.is_stuck() && self.meter.mark_stuck() {
            let (kind, id) = (self.meter.kind().name, self.actor.get_id());
            tracing::error!(actor.kind = kind, actor.id = %id, queued = self.queued(), "killing a stuck actor");
            self.actor.kill();
        }
    }
}
