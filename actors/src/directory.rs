//! The actors of which there is one per key, as their senders see them.
//!
//! 1. A message for a living actor goes straight to its entry (`directory/entry.rs`): one look into a sharded map.
//! 2. If none lives, the sender loads what the actor needs from the store; an unknown key ends here and never starts anything.
//! 3. The family, the one supervisor of the kind, starts the actor, or finds that another sender was faster: one key, one actor.
//! 4. A message that meets an actor on its way out (passivated, finished or crashed) waits until that actor is gone, loads afresh,
//!    because the store may have moved, and goes to the successor.
//!
//! **If an actor crashes:** senders whose message it held get [`Unavailable::Crashed`]; the next message activates a new one. A key
//! whose actors crash too often is quarantined by itself; siblings never notice.

mod entry;

use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dashmap::DashMap;
use ractor::ActorCell;
use tokio::time::Instant;

pub(crate) use entry::Entry;

use crate::family::{Activation, FamilyMessage, NotActivated, Quarantine};
use crate::handle::{Handle, Kind, Permit, Reply, Unavailable};
use crate::keyed::KeyedActor;
use crate::root::{ActorCounts, Address};
use crate::settings::ActorSettings;

/// Activations that may wait for one family: above what any number of connections asks for at once, since each takes microseconds.
const ACTIVATIONS_MAX: u32 = 16_384;

/// Departures are counted per stripe of keys: enough that a busy kind rarely mistakes a neighbour's departure for its own.
const STRIPES: usize = 1024;

/// Why a per-key actor gave no answer. `E` is the error of the caller's own loading.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError<E> {
    /// Loading found nothing under the key.
    #[error("nothing is known under this key")]
    Unknown,
    /// Loading failed.
    #[error("loading what the actor needs")]
    Load(#[source] E),
    /// The actor did not answer.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// The addresses of the per-key actors `A`. Clones share them.
pub struct Directory<A: KeyedActor> {
    pub(crate) shared: Arc<Shared<A>>,
}

/// What callers and the family share. Only the family adds to `living` and removes from it.
pub(crate) struct Shared<A: KeyedActor> {
    pub(crate) kind: Arc<Kind>,
    living: DashMap<A::Key, Arc<Entry<A>>>,
    live: AtomicUsize,
    quarantine: Mutex<Quarantine<A::Key>>,
    departures: Box<[AtomicU32]>,
    stripes: RandomState,
    family: Handle<FamilyMessage<A>>,
}

impl<A: KeyedActor> Directory<A> {
    /// An empty directory; its family is started by [`Root`](crate::Root). `kind` is the name in configuration, logs and metrics.
    pub fn new(kind: &'static str, settings: &ActorSettings) -> Self {
        let family = ActorSettings { queue_max: ACTIVATIONS_MAX, ..settings.clone() };
        let shared = Shared {
            kind: Kind::new(kind, settings),
            living: DashMap::new(),
            live: AtomicUsize::new(0),
            quarantine: Mutex::new(Quarantine::new(settings)),
            departures: (0..STRIPES).map(|_| AtomicU32::new(0)).collect(),
            stripes: RandomState::new(),
            family: Handle::of_kind(Kind::new(kind, &family)),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The name of the kind.
    pub fn kind(&self) -> &'static str {
        self.shared.kind.name
    }

    /// The limits of the kind.
    pub fn settings(&self) -> &ActorSettings {
        &self.shared.kind.settings
    }

    /// How many actors live.
    pub fn live(&self) -> usize {
        self.shared.live()
    }

    /// Sends the message that `make` writes to the actor of `key` and waits up to `deadline`, loading included, for the answer.
    ///
    /// `load` is called only when no actor lives, and again when the key changed hands meanwhile; `Ok(None)` means that the key is unknown.
    /// It runs in the caller's own future, so it must only read.
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
        let asked = async {
            let SendOutcome { entry, answer, _place } = self.deliver(key, load, write, until).await?;
            Ok(entry.answer(answer, until).await?)
        };
        asked.await.inspect_err(|error| self.refused(error))
    }

    /// Like [`ask`](Self::ask), but waits only until the message is in the actor's queue.
    pub async fn tell<T, E, F: Future<Output = Result<Option<A::Arguments>, E>>>(
        &self,
        key: &A::Key,
        load: impl Fn() -> F,
        make: impl FnOnce(Reply<T>) -> A::Message,
        deadline: Duration,
    ) -> Result<(), AskError<E>> {
        let write = |permit| (make(Reply::unheard(permit)), ());
        let told = self.deliver(key, load, write, Instant::now() + deadline).await;
        told.map(|_| ()).inspect_err(|error| self.refused(error))
    }

    /// Sends a message only if an actor lives under `key`, for hints about what a sleeping actor would read from the store anyway.
    /// Says whether it was sent.
    pub fn hint<T>(&self, key: &A::Key, make: impl FnOnce(Reply<T>) -> A::Message) -> bool {
        let Some(entry) = self.shared.living(key).filter(|_| !self.shared.kind.is_closed()) else { return false };
        let Ok(Some(permit)) = entry.admit() else { return false };
        entry.deliver(make(Reply::unheard(permit))).is_ok()
    }

    async fn deliver<W, E, F: Future<Output = Result<Option<A::Arguments>, E>>>(
        &self,
        key: &A::Key,
        load: impl Fn() -> F,
        write: impl FnOnce(Permit) -> (A::Message, W),
        until: Instant,
    ) -> Result<SendOutcome<A, W>, AskError<E>> {
        if self.shared.kind.is_closed() {
            return Err(Unavailable::Draining.into());
        }
        let mut living = self.shared.living(key);
        let mut mail = Outgoing::Unwritten(write);
        loop {
            let entry = match living.take() {
                Some(entry) => entry,
                None => self.activate(key, &load, until).await?,
            };
            let Some(place) = entry.admit()? else {
                entry.ended_until(until).await?;
                continue;
            };
            // A message holds the place in the queue it was first written for; in any later queue the sender holds one for it.
            let (message, answer, place) = match mail {
                Outgoing::Unwritten(write) => {
                    let (message, answer) = write(place);
                    (message, answer, None)
                }
                Outgoing::Written(message, answer) => (message, answer, Some(place)),
            };
            match entry.deliver(message) {
                Ok(()) => return Ok(SendOutcome { entry, answer, _place: place }),
                Err(message) => mail = Outgoing::Written(message, answer),
            }
            drop(place);
            // Until then the actor may still commit what it was sent before, and whatever is loaded now would be out of date.
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
            self.shared.may_activate(key)?;
            let departures = self.shared.departures(key);
            let loaded = tokio::time::timeout_at(until, load()).await.map_err(|_elapsed| Unavailable::TimedOut)?;
            let arguments = loaded.map_err(AskError::Load)?.ok_or(AskError::Unknown)?;
            let activate =
                |reply| FamilyMessage::Activate(Activation { key: key.clone(), departures, arguments, reply });
            match self.shared.family.ask_uncounted(activate, until).await? {
                Ok(entry) => return Ok(entry),
                Err(NotActivated::OutOfDate) => {}
                Err(NotActivated::Unavailable(refusal)) => return Err(refusal.into()),
            }
        }
        Err(Unavailable::TimedOut.into())
    }

    fn refused<E>(&self, error: &AskError<E>) {
        if let AskError::Unavailable(refusal) = error {
            self.shared.kind.refused(refusal);
        }
    }
}

/// A message before and after it was written; it is written once, with a place in the first queue that it is sent to.
enum Outgoing<Write, M, W> {
    Unwritten(Write),
    Written(M, W),
}

struct SendOutcome<A: KeyedActor, W> {
    entry: Arc<Entry<A>>,
    answer: W,
    /// The place of a message that was written for an earlier actor's queue.
    _place: Option<Permit>,
}

impl<A: KeyedActor> Shared<A> {
    pub(crate) fn living(&self, key: &A::Key) -> Option<Arc<Entry<A>>> {
        self.living.get(key).map(|entry| Arc::clone(&entry))
    }

    pub(crate) fn live(&self) -> usize {
        self.live.load(Ordering::Acquire)
    }

    /// Whether a new actor may be started under `key`.
    pub(crate) fn may_activate(&self, key: &A::Key) -> Result<(), Unavailable> {
        if self.live() >= self.kind.settings.live_max {
            return Err(Unavailable::Overloaded);
        }
        self.quarantine().check(key, Instant::now()).map_err(|retry_after| Unavailable::Quarantined { retry_after })
    }

    pub(crate) fn quarantine(&self) -> MutexGuard<'_, Quarantine<A::Key>> {
        // Every update is one assignment: a panic in between leaves nothing half done.
        self.quarantine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many actors have left under keys like this one. Whatever was loaded before a departure may be out of date after it.
    pub(crate) fn departures(&self, key: &A::Key) -> u32 {
        self.stripe(key).load(Ordering::Acquire)
    }

    pub(crate) fn arrived(&self, entry: &Arc<Entry<A>>) {
        if self.living.insert(entry.key().clone(), Arc::clone(entry)).is_none() {
            let live = self.live.fetch_add(1, Ordering::AcqRel) + 1;
            self.gauge(live);
        }
    }

    /// An actor ended. `crash`: why it failed.
    fn ended(&self, entry: &Entry<A>, crash: Option<&str>) {
        // First, so that its successor is refused if this was the last crash that is borne.
        let killed = entry.was_condemned().then_some("killed: it finished no message in time");
        if let Some(error) = crash.or(killed) {
            self.crashed(entry.key(), error);
        }
        // In this order: whoever finds the key free must also find the count moved.
        self.stripe(entry.key()).fetch_add(1, Ordering::AcqRel);
        let mine = |_: &A::Key, living: &Arc<Entry<A>>| std::ptr::eq(Arc::as_ptr(living), entry);
        if self.living.remove_if(entry.key(), mine).is_some() {
            let live = self.live.fetch_sub(1, Ordering::AcqRel) - 1;
            self.gauge(live);
        }
    }

    fn crashed(&self, key: &A::Key, error: &str) {
        let kind = &self.kind;
        kind.crashes.increment(1);
        tracing::error!(actor.kind = kind.name, error, "a per-key actor crashed");
        if self.quarantine().on_crash(key.clone(), Instant::now()) {
            kind.quarantines.increment(1);
            tracing::error!(
                actor.kind = kind.name,
                seconds = kind.settings.quarantine_for.as_secs(),
                "a key whose actors keep crashing is quarantined"
            );
        }
    }

    /// Everything that is still in the directory.
    pub(crate) fn entries(&self) -> Vec<Arc<Entry<A>>> {
        self.living.iter().map(|entry| Arc::clone(&entry)).collect()
    }

    /// Waits until every actor that is in the directory now has ended.
    pub(crate) async fn all_ended(&self) {
        for entry in self.entries() {
            entry.ended().await;
        }
    }

    /// All actors are gone, with the family that owned them.
    pub(crate) fn all_departed(&self) {
        for stripe in &self.departures {
            stripe.fetch_add(1, Ordering::AcqRel);
        }
        // One by one: an actor that ends at this moment is counted by its own removal from the map.
        self.living.retain(|_, _| {
            self.live.fetch_sub(1, Ordering::AcqRel);
            false
        });
        self.gauge(self.live());
    }

    fn stripe(&self, key: &A::Key) -> &AtomicU32 {
        #[expect(clippy::cast_possible_truncation, reason = "any part of the hash will do")]
        let hash = self.stripes.hash_one(key) as usize;
        &self.departures[hash % STRIPES]
    }

    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float; the count is far below 2^52")]
    fn gauge(&self, live: usize) {
        self.kind.live.set(live as f64);
    }
}

impl<A: KeyedActor> Address for Directory<A> {
    fn kind(&self) -> &Kind {
        &self.shared.kind
    }

    fn point_at(&self, family: ActorCell) {
        self.shared.family.point_at(family);
    }

    fn down_until(&self, until: Instant) {
        self.shared.family.down_until(until);
    }

    fn close(&self) {
        self.shared.kind.close();
        self.shared.family.close();
    }

    fn census(&self) -> ActorCounts {
        ActorCounts {
            live: self.live() as u64,
            queued: self.shared.living.iter().map(|entry| u64::from(entry.queued())).sum(),
            quarantined: self.shared.quarantine().count(Instant::now()) as u64,
            unmoved_for: None,
        }
    }
}

impl<A: KeyedActor> Clone for Directory<A> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<A: KeyedActor> fmt::Debug for Directory<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Directory({})", self.shared.kind.name)
    }
}
