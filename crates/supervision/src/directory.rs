//! The addresses of the actors of one keyed kind.
//!
//! 1. A message for a running actor is delivered directly to its entry (`family/entry.rs`): one lookup in a sharded map.
//! 2. If no actor runs, the sender loads the arguments of its start. An unknown key fails here and starts no actor.
//! 3. The family, the supervisor of the kind, starts the actor, unless another sender's request has already started it: one key, one actor.
//! 4. A message for an actor that is ending (passivated, finished or crashed) waits until that actor has ended, loads again, because the
//!    stored data may have changed, and goes to the successor.
//!
//! **If an actor crashes:** senders of its messages get [`Unavailable::Crashed`]; the next message starts another actor. A key with
//! repeatedly crashing actors is quarantined; other keys are unaffected.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorCell};
use tokio::time::Instant;

use crate::address::{ActorCounts, Address, BusyKey};
use crate::family::entry::Entry;
pub use crate::family::quarantine::CrashedKey;
use crate::family::registry::Registry;
use crate::family::{Activation, Family, FamilyMessage, NotActivated};
use crate::handle::Handle;
use crate::keyed::{Facts, Inbox as _, KeyedActor};
use crate::kind::{Kind, KindState};
use crate::mailbox::{Permit, Reply};
use crate::root::ChildSpec;
use crate::settings::ActorSettings;
use crate::unavailable::Unavailable;

/// Activations that may wait for one family. It exceeds the concurrent activations of all connections, since each takes microseconds.
const ACTIVATIONS_MAX: u32 = 16_384;

/// Why a keyed actor did not reply. `E` is the error of the sender's `load`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError<E> {
    /// `load` returned `None`: the key is unknown.
    #[error("nothing is known under this key")]
    Unknown,
    /// `load` failed.
    #[error("loading the state of the actor")]
    Load(#[source] E),
    /// The actor did not reply.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// The addresses of the keyed actors `A`. Clones share them.
pub struct Directory<A: KeyedActor> {
    registry: Arc<Registry<A>>,
    family: Handle<FamilyMessage<A>>,
}

impl<A: KeyedActor> Directory<A> {
    /// An empty directory. [`Root`](crate::Root) starts its family, from [`child`](Self::child).
    ///
    /// Metrics are registered here: install the metrics recorder first.
    pub fn new(kind: impl Kind, settings: &ActorSettings) -> Self {
        Self { registry: Registry::new(kind, settings), family: Handle::new(kind, &of_the_family(settings)) }
    }

    /// The family of these actors, for the supervisor. Each actor is a clone of `prototype`.
    pub fn child(&self, prototype: A) -> ChildSpec {
        let registry = Arc::clone(&self.registry);
        let start = move |root: ActorCell| {
            let family = Family { registry: Arc::clone(&registry), prototype: prototype.clone() };
            async move { Ok(Family::spawn_linked(None, family, (), root).await?.0.get_cell()) }
        };
        // Stopped rather than drained: while a family stops, its actors finish and waiting activations are refused.
        ChildSpec::family(self.clone(), start).stopped_by(|family| family.stop(None))
    }

    /// The name of the kind.
    pub fn kind(&self) -> &'static str {
        self.registry.kind.name
    }

    /// How long a caller waits for an answer, by the settings in force.
    pub fn ask_deadline(&self) -> Duration {
        self.registry.kind.settings().ask_deadline
    }

    /// Number of actors that exist, idle ones included.
    pub fn live(&self) -> usize {
        self.registry.live()
    }

    /// Sends the message that `make` builds to the actor of `key`, and waits up to `deadline`, loading included, for the reply.
    ///
    /// `load` is called only if no actor exists, and again if an actor of the key ended during the call; `Ok(None)` means that the key is
    /// unknown. It runs in the sender's future, which may be cancelled, so it must only read.
    pub async fn ask<T, E, F: Future<Output = Result<Option<A::Arguments>, E>>>(
        &self,
        key: &A::Key,
        load: impl Fn() -> F,
        make: impl FnOnce(Reply<T>) -> A::Message,
        deadline: Duration,
    ) -> Result<T, AskError<E>> {
        let until = Instant::now() + deadline;
        let write = |permit| {
            let (reply, answer) = Reply::awaited(permit);
            (make(reply), answer)
        };
        let request = async {
            let Delivered { entry, answer, _place } = self.deliver(key, load, write, until).await?;
            Ok(entry.answer(answer, until).await?)
        };
        request.await.inspect_err(|error| self.count_refusal(error))
    }

    /// Like [`ask`](Self::ask), but returns as soon as the message is in the actor's inbox. The reply is discarded.
    pub async fn send<T, E, F: Future<Output = Result<Option<A::Arguments>, E>>>(
        &self,
        key: &A::Key,
        load: impl Fn() -> F,
        make: impl FnOnce(Reply<T>) -> A::Message,
        deadline: Duration,
    ) -> Result<(), AskError<E>> {
        let write = |permit| (make(Reply::unheard(permit)), ());
        let sent = self.deliver(key, load, write, Instant::now() + deadline).await;
        sent.map(|_| ()).inspect_err(|error| self.count_refusal(error))
    }

    /// Sends a message only if an actor exists for `key`: for hints about data that an actor reads when it starts. Returns whether the
    /// message was sent.
    pub fn hint<T>(&self, key: &A::Key, make: impl FnOnce(Reply<T>) -> A::Message) -> bool {
        let Some(entry) = self.registry.entry(key).filter(|_| !self.registry.kind.is_closed()) else { return false };
        let Ok(Some(permit)) = entry.admit() else { return false };
        entry.deliver(make(Reply::unheard(permit))).is_ok()
    }

    /// Sends a message to every existing actor, without a place in its queue. Actors that are ending are left out. Returns the number of
    /// actors that received it.
    pub fn announce(&self, make: impl Fn() -> A::Message) -> usize {
        self.registry.entries().into_iter().filter(|entry| Arc::clone(entry).put(make())).count()
    }

    async fn deliver<W, E, F: Future<Output = Result<Option<A::Arguments>, E>>>(
        &self,
        key: &A::Key,
        load: impl Fn() -> F,
        write: impl FnOnce(Permit) -> (A::Message, W),
        until: Instant,
    ) -> Result<Delivered<A, W>, AskError<E>> {
        if self.registry.kind.is_closed() {
            return Err(Unavailable::Draining.into());
        }
        let mut candidate = self.registry.entry(key);
        let mut outgoing = Outgoing::Unwritten(write);
        loop {
            let entry = match candidate.take() {
                Some(entry) => entry,
                None => self.activate(key, &load, until).await?,
            };
            let Some(place) = entry.admit()? else {
                entry.ended_until(until).await?;
                continue;
            };
            // A message holds a place in the first queue that it was written for; for a later queue the sender holds the place.
            let (message, answer, place) = match outgoing {
                Outgoing::Unwritten(write) => {
                    let (message, answer) = write(place);
                    (message, answer, None)
                }
                Outgoing::Written(message, answer) => (message, answer, Some(place)),
            };
            match entry.deliver(message) {
                Ok(()) => return Ok(Delivered { entry, answer, _place: place }),
                Err(message) => outgoing = Outgoing::Written(message, answer),
            }
            drop(place);
            // Until the actor has ended, it may still commit changes that arguments loaded now would lack.
            entry.ended_until(until).await?;
        }
    }

    async fn activate<E, F: Future<Output = Result<Option<A::Arguments>, E>>>(
        &self,
        key: &A::Key,
        load: &impl Fn() -> F,
        until: Instant,
    ) -> Result<Arc<Entry<A>>, AskError<E>> {
        while Instant::now() < until {
            self.registry.may_activate(key)?;
            let departures = self.registry.departures(key);
            let loaded = tokio::time::timeout_at(until, load()).await.map_err(|_elapsed| Unavailable::TimedOut)?;
            let arguments = loaded.map_err(AskError::Load)?.ok_or(AskError::Unknown)?;
            let activate =
                |reply| FamilyMessage::Activate(Activation { key: key.clone(), departures, arguments, reply });
            match self.family.ask_uncounted(activate, until).await? {
                Ok(entry) => return Ok(entry),
                Err(NotActivated::OutOfDate) => {}
                Err(NotActivated::Unavailable(refusal)) => return Err(refusal.into()),
            }
        }
        Err(Unavailable::TimedOut.into())
    }

    fn count_refusal<E>(&self, error: &AskError<E>) {
        if let AskError::Unavailable(refusal) = error {
            self.registry.kind.count_refusal(refusal);
        }
    }
}

/// The settings of the family itself.
fn of_the_family(settings: &ActorSettings) -> ActorSettings {
    ActorSettings { queue_max: ACTIVATIONS_MAX, ..settings.clone() }
}

/// A message before and after it was written. It is written once, with a place in the first queue that it is sent to.
enum Outgoing<Write, M, W> {
    Unwritten(Write),
    Written(M, W),
}

struct Delivered<A: KeyedActor, W> {
    entry: Arc<Entry<A>>,
    answer: W,
    /// The place of a message that was written for the queue of an earlier actor.
    _place: Option<Permit>,
}

/// A keyed actor, as an operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyedState {
    /// Messages that wait or are being handled.
    pub queued: u32,
    /// Milliseconds since it last finished a message, or since it was started.
    pub unmoved_ms: u64,
    /// What its state says; `None` while it is busy or ends.
    pub facts: Option<Facts>,
}

/// Control of the actors of one keyed kind, by the id that log lines name.
pub trait KeyControl {
    /// The keys with recently crashed actors, by the settings in force.
    fn crashed_keys(&self) -> Vec<CrashedKey>;

    /// The actor of this key; `None` if none runs.
    fn state(&self, key: &str) -> Option<KeyedState>;

    /// Ends the quarantine that crashes of this key's actors led to; the key gets a clean record. Returns whether there was one.
    fn release(&self, key: &str) -> bool;

    /// Lets the actor of this key handle its inbox and end; the next message starts another. Returns whether there was one.
    fn restart(&self, key: &str) -> bool;

    /// Refuses exactly these keys until the times, regardless of crashes. Their actors handle their inboxes and end.
    fn refuse(&self, keys: HashMap<String, Instant>);
}

impl<A: KeyedActor> KeyControl for Directory<A> {
    fn crashed_keys(&self) -> Vec<CrashedKey> {
        self.registry.crashed_keys()
    }

    fn state(&self, key: &str) -> Option<KeyedState> {
        self.registry.shown(key)
    }

    fn release(&self, key: &str) -> bool {
        self.registry.release(key)
    }

    fn restart(&self, key: &str) -> bool {
        self.registry.end(|subject| subject == key) > 0
    }

    fn refuse(&self, keys: HashMap<String, Instant>) {
        if self.registry.refuse(keys) {
            // The family starts the actors one by one: once it handles this message, none of a refused key is being started.
            self.family.notify(FamilyMessage::Refused);
        }
    }
}

impl<A: KeyedActor> Address for Directory<A> {
    fn kind(&self) -> &KindState {
        &self.registry.kind
    }

    fn point_at(&self, family: ActorCell) {
        self.family.point_at(family);
    }

    fn down_until(&self, until: Instant) {
        self.family.down_until(until);
    }

    fn close(&self) {
        self.registry.kind.close();
        self.family.close();
    }

    fn retune(&self, settings: &ActorSettings) {
        self.registry.kind.retune(settings.clone());
        Address::retune(&self.family, &of_the_family(settings));
        self.family.notify(FamilyMessage::Retuned);
    }

    fn counts(&self) -> ActorCounts {
        ActorCounts {
            live: self.live() as u64,
            queued: self.registry.queued(),
            quarantined: self.registry.quarantined() as u64,
            unmoved_for: None,
            oldest_for: None,
        }
    }

    fn busiest(&self, number: usize) -> Vec<BusyKey> {
        self.registry.busiest(number)
    }
}

impl<A: KeyedActor> Clone for Directory<A> {
    fn clone(&self) -> Self {
        Self { registry: Arc::clone(&self.registry), family: self.family.clone() }
    }
}

impl<A: KeyedActor> fmt::Debug for Directory<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Directory({})", self.registry.kind.name)
    }
}
