//! Kinds of actor with one actor for each key.
//!
//! Such an actor has its own identity, inbox, supervision and failure domain. While it is idle it consists only of its state, in an entry
//! of the [`Directory`](crate::Directory): no task, no channel, no timer. This permits a great number of mostly idle actors.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

/// The key of one actor.
pub trait Key: Eq + Hash + Clone + Send + Sync + 'static {}

impl<K: Eq + Hash + Clone + Send + Sync + 'static> Key for K {}

/// Why a start or a handler failed. For the actor this is a crash, as a panic is.
pub type ActorError = Box<dyn Error + Send + Sync>;

/// Names and values for an operator.
pub type Facts = Vec<(&'static str, String)>;

/// A kind of actor with one actor for each key.
///
/// The value itself holds the dependencies and is cloned for every actor: keep it as small as an `Arc`. The memory of one actor is its
/// [`State`](Self::State).
pub trait KeyedActor: Clone + Send + Sync + Sized + 'static {
    /// Identifies one actor.
    type Key: Key;
    /// The id in the log lines of this actor. A key may be a secret or its hash; this is neither.
    type Subject: fmt::Display + Send + Sync + 'static;
    /// The messages. A message that a [`Directory`](crate::Directory) sends carries a [`Reply`](crate::Reply), its place in the queue.
    type Message: Send + 'static;
    /// The data that the sender of the first message loads to start the actor.
    type Arguments: Send + 'static;
    /// The memory that an actor keeps between two messages.
    type State: Send + 'static;

    /// The id of what the arguments describe.
    fn subject(arguments: &Self::Arguments) -> Self::Subject;

    /// Builds the state from the loaded arguments. It blocks activations of other keys, so it must not do IO.
    fn start(
        &self,
        myself: &SelfRef<Self>,
        arguments: Self::Arguments,
    ) -> impl Future<Output = Result<Self::State, ActorError>> + Send;

    /// What an operator sees of the state: names and values, without secrets. It does not wait.
    fn facts(_state: &Self::State) -> Facts {
        Facts::new()
    }

    /// Handles one message. Messages of the same key are handled one at a time.
    ///
    /// Up to its first wait it runs in the sender's task, and after that in a separate task: a cancelled sender does not cancel it.
    fn handle(
        &self,
        myself: &SelfRef<Self>,
        message: Self::Message,
        state: &mut Self::State,
    ) -> impl Future<Output = Result<(), ActorError>> + Send;
}

/// The inbox of a keyed actor, as seen by the actor.
pub(crate) trait Inbox<M>: Send + Sync {
    /// Puts a message into the inbox without a place in the queue. Returns `false` if the actor accepts no more messages.
    fn put(self: Arc<Self>, message: M) -> bool;

    /// Accepts no more messages, and ends once the inbox is empty.
    fn leave(self: Arc<Self>);
}

/// The address of a keyed actor for itself and for the tasks that it starts.
pub struct SelfRef<A: KeyedActor>(pub(crate) Arc<dyn Inbox<A::Message>>);

impl<A: KeyedActor> SelfRef<A> {
    /// Sends a message that takes no place in the queue. Returns `false` if the actor accepts no more messages.
    pub fn send(&self, message: A::Message) -> bool {
        Arc::clone(&self.0).put(message)
    }

    /// Sends a message after a delay, if the actor still exists.
    pub fn send_after(&self, delay: Duration, make: impl FnOnce() -> A::Message + Send + 'static) {
        let inbox = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            if let Some(inbox) = inbox.upgrade() {
                inbox.put(make());
            }
        });
    }

    /// Accepts no more messages, and ends once the inbox is empty. The next message for the key starts another actor.
    pub fn leave(&self) {
        Arc::clone(&self.0).leave();
    }
}

impl<A: KeyedActor> Clone for SelfRef<A> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<A: KeyedActor> fmt::Debug for SelfRef<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SelfRef")
    }
}
