//! An address that outlives the actor behind it.
//!
//! A [`Handle`] is made before its actor is started and cloned to whoever talks to it. [`Root`](crate::Root) points it at the actor,
//! and at the next one after every restart. A question that cannot be answered fails at once if nobody is there or the queue is
//! full, and otherwise no later than its deadline.

mod mailbox;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use ractor::{ActorCell, Message};
use tokio::time::Instant;

pub(crate) use mailbox::{Door, Kind, Meter, Permit};

use crate::root::{ActorCounts, Address};
use crate::settings::ActorSettings;
pub use mailbox::Reply;

/// Why an actor did not answer. The request may be sent again; `retry_after` says when that makes sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// It is not running; its supervisor will start it after this delay.
    #[error("the actor is not running")]
    NotRunning {
        /// Until the next attempt to start it.
        retry_after: Duration,
    },
    /// It crashed, or was killed, while it held the message. The message may have had its effect.
    #[error("the actor crashed before it answered")]
    Crashed,
    /// The deadline passed. The message may still have its effect.
    #[error("the actor did not answer in time")]
    TimedOut,
    /// Its queue is full, or too many actors of its kind live already.
    #[error("the actor has too much to do")]
    Overloaded,
    /// Actors under this key crashed too often of late.
    #[error("the actor is quarantined")]
    Quarantined {
        /// Until the key is tried again.
        retry_after: Duration,
    },
    /// The process is shutting down.
    #[error("the process is shutting down")]
    Draining,
}

impl Unavailable {
    /// How long the sender should wait before it tries again.
    pub fn retry_after(&self) -> Duration {
        match self {
            Self::NotRunning { retry_after } | Self::Quarantined { retry_after } => *retry_after,
            Self::Crashed | Self::TimedOut | Self::Overloaded => Duration::from_secs(1),
            Self::Draining => Duration::from_secs(5),
        }
    }

    /// One word for logs, metrics and the `reason` of an error body.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotRunning { .. } => "not_running",
            Self::Crashed => "crashed",
            Self::TimedOut => "timed_out",
            Self::Overloaded => "overloaded",
            Self::Quarantined { .. } => "quarantined",
            Self::Draining => "draining",
        }
    }
}

/// The address of one actor that takes messages `M`. Clones share the address.
pub struct Handle<M> {
    shared: Arc<Shared>,
    messages: PhantomData<fn(M)>,
}

struct Shared {
    kind: Arc<Kind>,
    station: ArcSwap<Target>,
}

/// Where a handle points.
enum Target {
    Down { until: Instant },
    Up(Door),
}

impl<M: Message> Handle<M> {
    /// An address with nobody behind it yet. `kind` is the name in configuration, logs and metrics, such as `intake`.
    ///
    /// Metric handles are taken here: install the metrics recorder first.
    pub fn new(kind: &'static str, settings: &ActorSettings) -> Self {
        Self::of_kind(Kind::new(kind, settings))
    }

    pub(crate) fn of_kind(kind: Arc<Kind>) -> Self {
        let station = ArcSwap::from_pointee(Target::Down { until: Instant::now() });
        Self { shared: Arc::new(Shared { kind, station }), messages: PhantomData }
    }

    /// The name of the kind.
    pub fn kind(&self) -> &'static str {
        self.shared.kind.name
    }

    /// The limits of the kind.
    pub fn settings(&self) -> &ActorSettings {
        &self.shared.kind.settings
    }

    /// Sends the message that `make` writes around a [`Reply`], and waits up to `deadline` for the answer.
    ///
    /// A caller that stops waiting (drops the future) takes nothing back: the message stays in the queue.
    pub async fn ask<T>(&self, make: impl FnOnce(Reply<T>) -> M, deadline: Duration) -> Result<T, Unavailable> {
        self.ask_uncounted(make, Instant::now() + deadline)
            .await
            .inspect_err(|refusal| self.shared.kind.refused(refusal))
    }

    /// For a caller that counts its refusals itself.
    pub(crate) async fn ask_uncounted<T>(
        &self,
        make: impl FnOnce(Reply<T>) -> M,
        until: Instant,
    ) -> Result<T, Unavailable> {
        let mailbox = self.mailbox()?;
        let (reply, answer) = Reply::awaited(mailbox.admit()?);
        mailbox.send(make(reply)).map_err(|_| self.down())?;
        mailbox.answer(answer, until).await
    }

    /// Sends the message and waits for nothing but a place in the queue; the [`Reply`] in the message has nobody behind it.
    pub fn tell<T>(&self, make: impl FnOnce(Reply<T>) -> M) -> Result<(), Unavailable> {
        let told = self.mailbox().and_then(|mailbox| {
            let reply = Reply::unheard(mailbox.admit()?);
            mailbox.send(make(reply)).map_err(|_| self.down())
        });
        told.inspect_err(|refusal| self.shared.kind.refused(refusal))
    }

    fn mailbox(&self) -> Result<Door, Unavailable> {
        if self.shared.kind.is_closed() {
            return Err(Unavailable::Draining);
        }
        match &**self.shared.station.load() {
            Target::Up(mailbox) => Ok(mailbox.clone()),
            Target::Down { until } => Err(Unavailable::NotRunning { retry_after: *until - Instant::now() }),
        }
    }

    /// The actor died a moment ago, and its supervisor has not noticed yet.
    fn down(&self) -> Unavailable {
        self.shared.kind.if_open(Unavailable::NotRunning { retry_after: self.settings().restart.backoff_min })
    }
}

impl<M: Message> Address for Handle<M> {
    fn kind(&self) -> &Kind {
        &self.shared.kind
    }

    fn point_at(&self, actor: ActorCell) {
        self.shared.station.store(Arc::new(Target::Up(Door::to(actor, &self.shared.kind))));
    }

    fn down_until(&self, until: Instant) {
        self.shared.station.store(Arc::new(Target::Down { until }));
    }

    fn census(&self) -> ActorCounts {
        match &**self.shared.station.load() {
            Target::Up(mailbox) => {
                let queued = mailbox.queued();
                let unmoved_for = (queued > 0).then(|| mailbox.unmoved_for());
                ActorCounts { live: 1, queued: u64::from(queued), quarantined: 0, unmoved_for }
            }
            Target::Down { .. } => ActorCounts::default(),
        }
    }
}

impl<M> Clone for Handle<M> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), messages: PhantomData }
    }
}

impl<M> fmt::Debug for Handle<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({})", self.shared.kind.name)
    }
}
