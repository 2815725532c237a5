//! The existing actors of one keyed kind, shared by the directory's senders and the family.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use dashmap::DashMap;
use tokio::time::Instant;

use super::entry::{Entry, Owner};
use super::quarantine::{CrashedKey, Quarantine};
use crate::address::{BusyKey, milliseconds};
use crate::causes::current_request;
use crate::directory::KeyedState;
use crate::keyed::KeyedActor;
use crate::kind::{Kind, KindState};
use crate::settings::ActorSettings;
use crate::unavailable::Unavailable;

/// Number of departure counters. Each counts for a share of the keys; with this many, a departure rarely affects another key of a busy
/// kind.
const STRIPES: usize = 1024;

/// Longest delay that senders to a refused key are given, since the refusal may end early.
const REFUSED_RETRY_MAX: Duration = Duration::from_mins(1);

/// The entries by key, their number, and the quarantine. Only the family adds entries; an entry is removed when its actor has ended.
pub(crate) struct Registry<A: KeyedActor> {
    pub(crate) kind: Arc<KindState>,
    entries: DashMap<A::Key, Arc<Entry<A>>>,
    live: AtomicUsize,
    quarantine: Mutex<Quarantine<A::Key>>,
    /// Keys that are refused regardless of crashes, by their ids in log lines.
    refused: ArcSwap<HashMap<String, Instant>>,
    departures: Box<[AtomicU32]>,
    stripes: RandomState,
}

impl<A: KeyedActor> Registry<A> {
    pub(crate) fn new(kind: impl Kind, settings: &ActorSettings) -> Arc<Self> {
        Arc::new(Self {
            kind: KindState::new(kind, settings),
            entries: DashMap::new(),
            live: AtomicUsize::new(0),
            quarantine: Mutex::default(),
            refused: ArcSwap::default(),
            departures: (0..STRIPES).map(|_| AtomicU32::new(0)).collect(),
            stripes: RandomState::new(),
        })
    }

    /// The owner of the entries, as the entries refer to it.
    pub(crate) fn as_owner(self: &Arc<Self>) -> Weak<dyn Owner<A>> {
        let owner: Weak<Self> = Arc::downgrade(self);
        owner
    }

    pub(crate) fn entry(&self, key: &A::Key) -> Option<Arc<Entry<A>>> {
        self.entries.get(key).map(|entry| Arc::clone(&entry))
    }

    pub(crate) fn entries(&self) -> Vec<Arc<Entry<A>>> {
        self.entries.iter().map(|entry| Arc::clone(&entry)).collect()
    }

    /// Number of actors.
    pub(crate) fn live(&self) -> usize {
        self.live.load(Ordering::Acquire)
    }

    /// Messages that wait or are being handled, of all actors.
    pub(crate) fn queued(&self) -> u64 {
        self.entries.iter().map(|entry| u64::from(entry.queued())).sum()
    }

    /// The actors with the most messages.
    pub(crate) fn busiest(&self, number: usize) -> Vec<BusyKey> {
        let entries = self.entries.iter().map(|entry| (entry.queued(), Arc::clone(&entry)));
        let mut busy: Vec<_> = entries.filter(|(queued, _)| *queued > 0).collect();
        busy.sort_unstable_by_key(|(queued, _)| Reverse(*queued));
        let described = |(queued, entry): (u32, Arc<Entry<A>>)| BusyKey {
            key: entry.subject().to_string(),
            queued,
            unmoved_ms: milliseconds(entry.unmoved_for()),
        };
        busy.into_iter().take(number).map(described).collect()
    }

    /// The actor with this subject.
    pub(crate) fn shown(&self, subject: &str) -> Option<KeyedState> {
        let entry = self.entries().into_iter().find(|entry| entry.subject().to_string() == subject)?;
        let (queued, unmoved_ms) = (entry.queued(), milliseconds(entry.unmoved_for()));
        Some(KeyedState { queued, unmoved_ms, facts: entry.facts() })
    }

    /// Keys in quarantine and refused keys.
    pub(crate) fn quarantined(&self) -> usize {
        let now = Instant::now();
        self.quarantine().count(now) + self.refused.load().values().filter(|&&until| now < until).count()
    }

    /// The keys with recent crashes.
    pub(crate) fn crashed_keys(&self) -> Vec<CrashedKey> {
        self.quarantine().crashed(self.kind.settings().quarantine_window, Instant::now())
    }

    /// Ends the quarantine of the keys with this subject.
    pub(crate) fn release(&self, subject: &str) -> bool {
        self.quarantine().release(subject, Instant::now())
    }

    /// Lets the actors with such subjects handle their inboxes and end. Returns their number.
    pub(crate) fn end(&self, is_meant: impl Fn(&str) -> bool) -> usize {
        let entries = self.entries().into_iter().filter(|entry| is_meant(&entry.subject().to_string()));
        entries.map(|entry| entry.leave()).count()
    }

    /// Replaces the refused keys. Returns whether a key was added.
    pub(crate) fn refuse(&self, keys: HashMap<String, Instant>) -> bool {
        let before = self.refused.load();
        let now = Instant::now();
        let is_added = keys.keys().any(|key| before.get(key).is_none_or(|until| *until <= now));
        if !keys.is_empty() || !before.is_empty() {
            self.refused.store(Arc::new(keys));
        }
        is_added
    }

    /// Fails while the key of these arguments is refused.
    pub(crate) fn check_start(&self, arguments: &A::Arguments) -> Result<(), Unavailable> {
        if self.refused.load().is_empty() {
            return Ok(());
        }
        self.check_subject(&A::subject(arguments).to_string())
    }

    /// Fails while the key with this id in log lines is refused.
    pub(crate) fn check_subject(&self, subject: &str) -> Result<(), Unavailable> {
        let now = Instant::now();
        match self.refused.load().get(subject) {
            Some(&until) if now < until => {
                Err(Unavailable::Quarantined { retry_after: (until - now).min(REFUSED_RETRY_MAX) })
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn may_activate(&self, key: &A::Key) -> Result<(), Unavailable> {
        if self.live() >= self.kind.settings().live_max {
            return Err(Unavailable::Overloaded);
        }
        self.quarantine().check(key, Instant::now()).map_err(|retry_after| Unavailable::Quarantined { retry_after })
    }

    fn quarantine(&self) -> MutexGuard<'_, Quarantine<A::Key>> {
        // Every update is one assignment: a panic in between leaves a consistent value.
        self.quarantine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of ended actors with keys of the same stripe. Arguments that were loaded before a departure may be stale after it.
    pub(crate) fn departures(&self, key: &A::Key) -> u32 {
        self.stripe(key).load(Ordering::Acquire)
    }

    pub(crate) fn add(&self, entry: &Arc<Entry<A>>) {
        if self.entries.insert(entry.key().clone(), Arc::clone(entry)).is_none() {
            let live = self.live.fetch_add(1, Ordering::AcqRel) + 1;
            self.show(live);
        }
    }

    fn crashed(&self, entry: &Entry<A>, error: &str) {
        let (kind, key) = (&self.kind, entry.subject());
        kind.crashes.increment(1);
        tracing::error!(actor.kind = kind.name, actor.key = %key, error, "a per-key actor crashed");
        let settings = kind.settings();
        let crash = (entry.key().clone(), key.to_string(), error, current_request());
        if self.quarantine().on_crash(&settings, crash, Instant::now()) {
            kind.quarantines.increment(1);
            tracing::error!(
                actor.kind = kind.name,
                actor.key = %key,
                seconds = settings.quarantine_for.as_secs(),
                "a key whose actors keep crashing is quarantined"
            );
        }
    }

    /// Waits until every existing actor has ended.
    pub(crate) async fn all_ended(&self) {
        for entry in self.entries() {
            entry.ended().await;
        }
    }

    /// Removes all entries: their actors ended together with the family that owned them.
    pub(crate) fn clear(&self) {
        for stripe in &self.departures {
            stripe.fetch_add(1, Ordering::AcqRel);
        }
        // One by one: an actor that ends at this moment is counted by its own removal from the map.
        self.entries.retain(|_, _| {
            self.live.fetch_sub(1, Ordering::AcqRel);
            false
        });
        self.show(self.live());
    }

    fn stripe(&self, key: &A::Key) -> &AtomicU32 {
        #[expect(clippy::cast_possible_truncation, reason = "any part of the hash will do")]
        let hash = self.stripes.hash_one(key) as usize;
        &self.departures[hash % STRIPES]
    }

    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float; the count is far below 2^52")]
    fn show(&self, live: usize) {
        self.kind.live.set(live as f64);
    }
}

impl<A: KeyedActor> Owner<A> for Registry<A> {
    fn ended(&self, entry: &Entry<A>, crash: Option<&str>) {
        // Recorded first, so that the successor is refused if this crash puts the key into quarantine.
        let killed = entry.is_marked_stuck().then_some("killed: it finished no message in time");
        if let Some(error) = crash.or(killed) {
            self.crashed(entry, error);
        }
        // In this order: a sender that finds the key free must also see the new count.
        self.stripe(entry.key()).fetch_add(1, Ordering::AcqRel);
        let is_this = |_: &A::Key, other: &Arc<Entry<A>>| std::ptr::eq(Arc::as_ptr(other), entry);
        if self.entries.remove_if(entry.key(), is_this).is_some() {
            let live = self.live.fetch_sub(1, Ordering::AcqRel) - 1;
            self.show(live);
        }
    }
}
