//! Actors of which there is one per key.
//!
//! Such an actor has an identity, an inbox, supervision and a failure domain of its own, but while it is idle it is only its state, in an
//! entry of the [`Directory`](crate::Directory): no task, no channel, no timer. There may be very many of them, and nearly all are idle.

use std::error::Error;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use crate::directory::Entry;

/// What names one actor of a family.
pub trait Key: Eq + Hash + Clone + Send + Sync + 'static {}

impl<K: Eq + Hash + Clone + Send + Sync + 'static> Key for K {}

/// Why a start or a handler failed. For the actor this is a crash, as a panic is.
pub type ActorError = Box<dyn Error + Send + Sync>;

/// A kind of actor. The value itself is wiring, of which every actor holds a clone: keep it as small as an `Arc`. What one actor remembers is
/// its [`State`](Self::State).
pub trait KeyedActor: Clone + Send + Sync + Sized + 'static {
    /// What names one actor.
    type Key: Key;
    /// What it is sent. A message of a [`Directory`](crate::Directory) carries a [`Reply`](crate::Reply), which is its place in the queue.
    type Message: Send + 'static;
    /// What its caller loads from the store to start it.
    type Arguments: Send + 'static;
    /// What it remembers between two messages.
    type State: Send + 'static;

    /// Makes the state from what was loaded. It holds up its siblings, so it must not do IO.
    fn start(
        &self,
        myself: &SelfRef<Self>,
        arguments: Self::Arguments,
    ) -> impl Future<Output = Result<Self::State, ActorError>> + Send;

    /// Handles one message. No other message of the same key is handled meanwhile.
    ///
    /// Up to its first wait it runs in the turn of the sender, and from there on in a task of its own: a sender that goes away cancels nothing.
    fn handle(
        &self,
        myself: &SelfRef<Self>,
        message: Self::Message,
        state: &mut Self::State,
    ) -> impl Future<Output = Result<(), ActorError>> + Send;
}

/// The address of an actor for itself and for the tasks that it starts.
pub struct SelfRef<A: KeyedActor>(pub(crate) Arc<Entry<A>>);

impl<A: KeyedActor> SelfRef<A> {
    /// Sends a message that takes no place in the queue. Returns `false` if the actor takes no more messages.
    pub fn send(&self, message: A::Message) -> bool {
        self.0.enqueue(message).is_ok()
    }

    /// Sends a message later, if the actor is still there then.
    pub fn send_after(&self, delay: Duration, make: impl FnOnce() -> A::Message + Send + 'static) {
        let entry = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            if let Some(entry) = entry.upgrade() {
                Self(entry).send(make());
            }
        });
    }

    /// Takes no more messages, and ends once those in the inbox are handled. The next message to this key starts another actor.
    pub fn leave(&self) {
        self.0.leave();
    }
}

impl<A: KeyedActor> Clone for SelfRef<A> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}
