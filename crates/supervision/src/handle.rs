//! An address that outlives the actor behind it.
//!
//! A [`Handle`] is created before its actor is started, and cloned for every sender. [`Root`](crate::Root) points it at the actor, and at
//! the next actor after every restart. A request that cannot be answered fails at once if no actor runs or the mailbox is full, and
//! otherwise no later than its deadline.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use ractor::{ActorCell, Message};
use tokio::time::Instant;

use crate::address::{ActorCounts, Address};
use crate::kind::{Kind, KindState};
use crate::mailbox::{Mailbox, Reply};
use crate::settings::ActorSettings;
use crate::unavailable::Unavailable;

/// The address of one actor that accepts messages `M`. Clones share the address.
pub struct Handle<M> {
    shared: Arc<Shared>,
    messages: PhantomData<fn(M)>,
}

struct Shared {
    kind: Arc<KindState>,
    target: ArcSwap<Target>,
}

/// The actor that a handle points at.
enum Target {
    Down { until: Instant },
    Up(Mailbox),
}

impl<M: Message> Handle<M> {
    /// An address without an actor.
    ///
    /// Metrics are registered here: install the metrics recorder first.
    pub fn new(kind: impl Kind, settings: &ActorSettings) -> Self {
        let target = ArcSwap::from_pointee(Target::Down { until: Instant::now() });
        Self { shared: Arc::new(Shared { kind: KindState::new(kind, settings), target }), messages: PhantomData }
    }

    /// The name of the kind.
    pub fn kind(&self) -> &'static str {
        self.shared.kind.name
    }

    /// How long a caller waits for an answer, by the settings in force.
    pub fn ask_deadline(&self) -> Duration {
        self.shared.kind.settings().ask_deadline
    }

    /// Sends the message that `make` builds around a [`Reply`], and waits up to `deadline` for the reply.
    ///
    /// Dropping the future does not withdraw the message: it stays in the mailbox.
    pub async fn ask<T>(&self, make: impl FnOnce(Reply<T>) -> M, deadline: Duration) -> Result<T, Unavailable> {
        self.ask_uncounted(make, Instant::now() + deadline)
            .await
            .inspect_err(|refusal| self.shared.kind.count_refusal(refusal))
    }

    /// Like [`ask`](Self::ask), for a caller that counts refusals itself.
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

    /// Sends the message and returns as soon as it is in the mailbox. The reply is discarded.
    pub fn send<T>(&self, make: impl FnOnce(Reply<T>) -> M) -> Result<(), Unavailable> {
        let sent = self.mailbox().and_then(|mailbox| {
            let reply = Reply::unheard(mailbox.admit()?);
            mailbox.send(make(reply)).map_err(|_| self.down())
        });
        sent.inspect_err(|refusal| self.shared.kind.count_refusal(refusal))
    }

    /// Sends a message without a place in the queue, if the actor runs.
    pub(crate) fn notify(&self, message: M) {
        if let Target::Up(mailbox) = &**self.shared.target.load() {
            // Fails only if the actor has ended.
            let _ = mailbox.send(message);
        }
    }

    fn mailbox(&self) -> Result<Mailbox, Unavailable> {
        if self.shared.kind.is_closed() {
            return Err(Unavailable::Draining);
        }
        match &**self.shared.target.load() {
            Target::Up(mailbox) => Ok(mailbox.clone()),
            Target::Down { until } => Err(Unavailable::NotRunning { retry_after: *until - Instant::now() }),
        }
    }

    /// The refusal for an actor that has ended before its supervisor noticed.
    fn down(&self) -> Unavailable {
        self.shared
            .kind
            .if_open(Unavailable::NotRunning { retry_after: self.shared.kind.settings().restart.backoff_min })
    }
}

impl<M: Message> Address for Handle<M> {
    fn kind(&self) -> &KindState {
        &self.shared.kind
    }

    fn point_at(&self, actor: ActorCell) {
        self.shared.target.store(Arc::new(Target::Up(Mailbox::of(actor, &self.shared.kind))));
    }

    fn down_until(&self, until: Instant) {
        self.shared.target.store(Arc::new(Target::Down { until }));
    }

    fn panicked_request(&self) -> Option<String> {
        match &**self.shared.target.load() {
            Target::Up(mailbox) => mailbox.panicked_request(),
            Target::Down { .. } => None,
        }
    }

    fn counts(&self) -> ActorCounts {
        match &**self.shared.target.load() {
            Target::Up(mailbox) => {
                let queued = mailbox.queued();
                let waiting = (queued > 0).then_some(mailbox);
                ActorCounts {
                    live: 1,
                    queued: u64::from(queued),
                    quarantined: 0,
                    unmoved_for: waiting.map(Mailbox::unmoved_for),
                    oldest_for: waiting.map(Mailbox::oldest_for),
                }
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
