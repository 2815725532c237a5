//! The actor behind one batch.
//!
//! With the lease the actor leads: it prepares items concurrently, commits their outcomes one after the other, and publishes them. Without
//! the lease it follows: it reads the outcomes that another process commits, and takes over when the lease expires.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use domain::batch::{BatchEnd, BatchKind, Item, ItemOutcome, Journal};
use domain::clock::date_time;
use domain::filter::FilterSettings;
use domain::ids::{BatchId, UserAccountId};
use domain::item::Fault;
use domain::service_pause::ServicePart;
use futures_util::FutureExt;
use knowledge::Prepared;
use knowledge::prepare::ItemPosition;
use store::StoreError;
use store::batch::{Batch, Lease};
use store::memory::{Put, Restored};
use supervision::{ActorError, Facts, KeyedActor, Reply, SelfRef};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::Instrument as _;

use super::dependencies::Dependencies;

/// The journal of a batch, as it grows.
pub type JournalReceiver = watch::Receiver<Journal>;

/// Why an item is not stored when the account's limit is reached.
const QUOTA_EXCEEDED: &str = "the account keeps as much as it may: delete something first";

/// Interval at which a follower reads the outcomes that the leader committed.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);

/// Interval at which a paused batch looks whether the pause has ended.
const CONTINUE_EVERY: Duration = Duration::from_secs(1);

/// Sent by [`super::Ingestion`], and by the actor to itself.
#[derive(Debug)]
pub enum BatchMessage {
    /// A reader of the stream joins.
    Join {
        /// Receives the journal as it grows.
        reply: Reply<JournalReceiver>,
    },
    /// The batch was cancelled.
    Cancel {
        /// Replied to when the batch has ended or is about to end.
        reply: Reply<()>,
    },
    /// The batch appeared to have no lease.
    Wake {
        /// Replied to when an actor works on the batch.
        reply: Reply<()>,
    },
    /// The process stops: the work ends, and the lease is released.
    HandOver,
    /// Sent by the actor's timer: renew the lease.
    Tick,
    /// Sent by the actor's timer while an operator has paused batches: continue, if the pause has ended.
    Continue,
    /// Sent by the actor's tasks: an item is ready to be committed.
    Ready {
        /// Position of the item in the batch, from 0.
        index: usize,
        /// The prepared item; `None` if it has to be prepared again.
        prepared: Option<Box<Prepared>>,
    },
}

/// The actor: wiring only.
#[derive(Debug, Clone)]
pub struct BatchAdd {
    dependencies: Arc<Dependencies>,
}

/// The cached rows, and the items in preparation.
#[derive(Debug)]
pub struct BatchState {
    batch: Batch,
    journal: watch::Sender<Journal>,
    /// Items that wait for their preparation, in order, each with the host of its URL.
    waiting: VecDeque<(usize, Option<String>)>,
    /// Items that are being prepared.
    working: Vec<(usize, Option<String>)>,
    /// Lines of an import that wait for the commit of earlier lines.
    prepared: BTreeMap<usize, Prepared>,
    /// Preparation tasks, which end with the actor.
    tasks: JoinSet<()>,
    /// Whether a pause holds items back, and [`BatchMessage::Continue`] follows.
    is_paused: bool,
    /// Rules for new content; read when the work starts.
    filter: Option<Arc<FilterSettings>>,
}

impl BatchAdd {
    pub(super) fn new(dependencies: Arc<Dependencies>) -> Self {
        Self { dependencies }
    }
}

/// What an operator sees of a batch.
pub fn facts(batch: &Batch) -> Facts {
    facts_with(batch, &batch.journal)
}

/// The facts of a batch with a journal that may be newer than its row.
fn facts_with(batch: &Batch, journal: &Journal) -> Facts {
    vec![
        ("kind", <&str>::from(batch.kind).to_owned()),
        ("account", batch.account.to_string()),
        ("request", batch.request.clone().unwrap_or_else(|| "unknown".to_owned())),
        ("created_at", date_time(batch.created_at)),
        ("cancelled_at", batch.cancelled_at.map_or_else(|| "never".to_owned(), date_time)),
        ("total", journal.total().to_string()),
        ("processed", journal.processed().to_string()),
        ("has_ended", journal.has_ended().to_string()),
    ]
}

impl KeyedActor for BatchAdd {
    type Key = BatchId;
    type Subject = BatchId;
    type Message = BatchMessage;
    type Arguments = Batch;
    type State = BatchState;

    fn subject(batch: &Batch) -> BatchId {
        batch.id
    }

    fn facts(state: &BatchState) -> Facts {
        // The journal of the stream is ahead of the one that was read at the start.
        let mut facts = facts_with(&state.batch, &state.journal.borrow());
        facts.push(("leads", state.leads().to_string()));
        facts.push(("items_waiting", state.waiting.len().to_string()));
        facts.push(("items_in_preparation", state.working.len().to_string()));
        facts.push(("is_paused", state.is_paused.to_string()));
        facts
    }

    async fn start(&self, myself: &SelfRef<Self>, batch: Batch) -> Result<BatchState, ActorError> {
        myself.send(BatchMessage::Tick);
        let journal = watch::Sender::new(batch.journal.clone());
        let (waiting, working, tasks) = (VecDeque::new(), Vec::new(), JoinSet::new());
        Ok(BatchState {
            batch,
            journal,
            waiting,
            working,
            prepared: BTreeMap::new(),
            tasks,
            is_paused: false,
            filter: None,
        })
    }

    async fn handle(
        &self,
        myself: &SelfRef<Self>,
        message: BatchMessage,
        state: &mut BatchState,
    ) -> Result<(), ActorError> {
        match message {
            BatchMessage::Join { reply } => {
                reply.send(state.journal.subscribe());
            }
            BatchMessage::Wake { reply } => {
                reply.send(());
            }
            BatchMessage::Cancel { reply } => {
                if state.leads() {
                    Self::settle(myself, self.cancel(state).await, state);
                }
                reply.send(());
            }
            BatchMessage::HandOver => self.hand_over(state).await,
            BatchMessage::Tick => self.on_tick(myself, state).await,
            BatchMessage::Continue => {
                state.is_paused = false;
                Self::settle(myself, self.fill(myself, state).await, state);
            }
            BatchMessage::Ready { index, prepared } => self.on_ready(myself, index, prepared, state).await,
        }
        Ok(())
    }
}

impl BatchAdd {
    async fn on_tick(&self, myself: &SelfRef<Self>, state: &mut BatchState) {
        let result = self.keep(myself, state).await;
        Self::settle(myself, result, state);
        let pause = if state.leads() { self.dependencies.settings.get().lease / 3 } else { FOLLOW_EVERY };
        myself.send_after(pause, || BatchMessage::Tick);
    }

    /// Releases the lease, so that another process continues at once. That process prepares the uncommitted items again.
    async fn hand_over(&self, state: &mut BatchState) {
        if !state.leads() {
            return;
        }
        state.stop();
        let Dependencies { store, runner, .. } = &*self.dependencies;
        match store.batch_lease_end(state.batch.id, runner).await {
            Ok(()) => tracing::info!(batch.id = %state.batch.id, "the lease of a batch was given back"),
            Err(error) => tracing::warn!(
                batch.id = %state.batch.id,
                error = domain::reasons(&error),
                "the lease of a batch could not be given back; it ends by itself"
            ),
        }
    }

    async fn on_ready(
        &self,
        myself: &SelfRef<Self>,
        index: usize,
        prepared: Option<Box<Prepared>>,
        state: &mut BatchState,
    ) {
        domain::failpoint!("batches.ready");
        while state.tasks.try_join_next().is_some() {}
        // Ignores the messages of aborted tasks.
        let Some(at) = state.working.iter().position(|(working, _)| *working == index) else { return };
        state.working.swap_remove(at);
        let committed = match prepared {
            Some(prepared) => self.commit_in_turn(index, *prepared, state).await,
            None => Ok(false),
        };
        let result = match committed {
            Ok(true) => self.fill(myself, state).await,
            // The rows differ from the cached ones or could not be read; the next tick reloads them.
            Ok(false) => {
                state.stop();
                Ok(())
            }
            Err(error) => {
                state.stop();
                Err(error)
            }
        };
        Self::settle(myself, result, state);
    }

    /// Stops the actor when its batch has ended, and logs a failure.
    fn settle(myself: &SelfRef<Self>, done: Result<(), StoreError>, state: &BatchState) {
        if let Err(error) = done {
            tracing::warn!(batch.id = %state.batch.id, error = domain::reasons(&error), "a batch will be tried again");
        }
        if state.journal.borrow().has_ended() {
            myself.leave();
        }
    }

    /// Takes or renews the lease and works; without the lease, reads the leader's outcomes.
    async fn keep(&self, myself: &SelfRef<Self>, state: &mut BatchState) -> Result<(), StoreError> {
        let Dependencies { store, clock, settings, runner, leaves, .. } = &*self.dependencies;
        if leaves.load(Ordering::Relaxed) {
            return self.reload(state).await;
        }
        if !state.leads() && !store.takes_memories().await {
            // Pages would be fetched that cannot be stored. Another process may reach the database.
            self.reload(state).await?;
            if state.batch.cancelled_at.is_none() {
                return Ok(());
            }
        }
        let now = clock.now();
        let until = now + settings.get().lease;
        let lease = store.batch_lease(state.batch.id, runner, until, now).await?;
        let Lease::Held { is_cancelled } = lease else {
            state.stop();
            return self.reload(state).await;
        };
        if !state.leads() {
            self.reload(state).await?;
            state.filter = Some(Arc::new(store.filter_settings(&state.batch.account).await?));
            state.waiting =
                state.batch.pending.iter().map(|(index, url)| (*index, url.as_deref().and_then(host))).collect();
        }
        if is_cancelled { self.cancel(state).await } else { self.fill(myself, state).await }
    }

    /// Starts preparations up to the limit; at most half of them for one host, since requests to a host are sequential and other hosts
    /// should not wait. Ends the batch when no items are left.
    async fn fill(&self, myself: &SelfRef<Self>, state: &mut BatchState) -> Result<(), StoreError> {
        let Some(filter) = state.filter.clone() else { return Ok(()) };
        let at_once = self.dependencies.settings.get().items_at_once;
        let allowed = self.dependencies.pauses.check_account(ServicePart::Batches, &state.batch.account);
        if !state.waiting.is_empty() && allowed.is_err() {
            if !state.is_paused {
                state.is_paused = true;
                myself.send_after(CONTINUE_EVERY, || BatchMessage::Continue);
            }
            return Ok(());
        }
        while state.working.len() + state.prepared.len() < at_once {
            let busy = |host: &str| state.working.iter().filter(|(_, other)| other.as_deref() == Some(host)).count();
            let may_start = |(_, host): &(usize, Option<String>)| {
                host.as_deref().is_none_or(|host| busy(host) < at_once.div_ceil(2))
            };
            let Some(at) = state.waiting.iter().position(may_start) else { break };
            let Some(entry) = state.waiting.remove(at) else { break };
            let (dependencies, myself) = (Arc::clone(&self.dependencies), myself.clone());
            let (id, index, filter) = (state.batch.id, entry.0, Arc::clone(&filter));
            let account = state.batch.account.clone();
            state.working.push(entry);
            let preparing = async move {
                let prepared = match dependencies.store.batch_item(id, index).await {
                    Ok(Some(item)) => Some(prepare(&dependencies, &account, &item, &filter).await),
                    Ok(None) => None,
                    Err(error) => {
                        tracing::warn!(batch.id = %id, error = domain::reasons(&error), "an item of a batch could not be read");
                        None
                    }
                };
                // Fails only if the actor has ended, and then the item is not needed.
                myself.send(BatchMessage::Ready { index, prepared: prepared.map(Box::new) });
            };
            state.tasks.spawn(preparing.in_current_span());
        }
        if state.working.is_empty() && state.prepared.is_empty() && state.waiting.is_empty() {
            self.end(&[], state).await
        } else {
            Ok(())
        }
    }

    /// Commits an item of a batch at once, and a line of an import after the lines before it. Returns `false` as [`Self::commit`] does.
    async fn commit_in_turn(
        &self,
        index: usize,
        prepared: Prepared,
        state: &mut BatchState,
    ) -> Result<bool, StoreError> {
        if state.batch.kind == BatchKind::Batch {
            return self.commit(index, prepared, state).await;
        }
        state.prepared.insert(index, prepared);
        loop {
            // The lines are committed in order, so the next line is the number of processed ones.
            let next = state.journal.borrow().processed();
            let Some(prepared) = state.prepared.remove(&next) else { return Ok(true) };
            if !self.commit(next, prepared, state).await? {
                return Ok(false);
            }
        }
    }

    /// Commits the outcome of an item. Returns `false` if another leader has already written one.
    async fn commit(&self, index: usize, prepared: Prepared, state: &mut BatchState) -> Result<bool, StoreError> {
        let Dependencies { store, clock, rng, rag_url, quota, .. } = &*self.dependencies;
        let (now, quota) = (clock.now(), **quota.get());
        let outcome = match prepared {
            Prepared::Memory(draft) => {
                let id = rng.uuid_v7(now).into();
                let Batch { account, spaces, key_spaces, .. } = &state.batch;
                let place = ItemPosition { account, spaces, key_spaces: key_spaces.as_deref() };
                let put = draft.put(store, id, place, quota, now).await?;
                domain::failpoint!("batches.put");
                if let Some(verdict) = &draft.verdict {
                    let id = rng.uuid_v7(now);
                    let Batch { account, id: batch, .. } = &state.batch;
                    store.verdict_add(id, account, (*batch, index), draft.subject(), verdict, now).await?;
                }
                match put {
                    Some(id) => {
                        let url = draft.url.clone().unwrap_or_else(|| format!("{rag_url}/v1/memories/{id}"));
                        ItemOutcome::Success { id, url, existing: None }
                    }
                    None => draft.refused(Fault::QuotaExceeded, QUOTA_EXCEEDED),
                }
            }
            Prepared::Imported { draft, memory } => {
                let Batch { account, key_spaces, .. } = &state.batch;
                let place = ItemPosition { account, spaces: &memory.spaces, key_spaces: key_spaces.as_deref() };
                let restored = Restored {
                    created_at: memory.created_at,
                    updated_at: memory.updated_at,
                    tags: &memory.tags,
                    other_id: memory.other_id,
                };
                let put = draft.restore(store, memory.id, place, quota, &restored).await?;
                domain::failpoint!("batches.put");
                let (id, is_existing) = match put {
                    Put::Created(id) => (Some(id), false),
                    Put::Existing(id) | Put::Updated(id) => (Some(id), true),
                    Put::QuotaExceeded => (None, false),
                };
                match id {
                    Some(id) => {
                        let url = draft.url.clone().unwrap_or_else(|| format!("{rag_url}/v1/memories/{id}"));
                        ItemOutcome::Success { id, url, existing: Some(is_existing) }
                    }
                    None => draft.refused(Fault::QuotaExceeded, QUOTA_EXCEEDED),
                }
            }
            Prepared::NotStored(outcome) => outcome,
            Prepared::Dropped { outcome, verdict, subject } => {
                let id = rng.uuid_v7(now);
                store.verdict_add(id, &state.batch.account, (state.batch.id, index), &subject, &verdict, now).await?;
                outcome
            }
        };
        let place = state.journal.borrow().processed() + 1;
        if !store.batch_item_finish(state.batch.id, &(index, place, &outcome)).await? {
            return Ok(false);
        }
        domain::failpoint!("batches.finished");
        state.journal.send_modify(|journal| journal.finish(index, outcome));
        Ok(true)
    }

    /// Gives every unfinished item the outcome of a cancelled one.
    async fn cancel(&self, state: &mut BatchState) -> Result<(), StoreError> {
        let mut left: Vec<usize> = state.waiting.iter().chain(&state.working).map(|(index, _)| *index).collect();
        left.extend(std::mem::take(&mut state.prepared).into_keys());
        left.sort_unstable();
        state.tasks.abort_all();
        let urls: HashMap<usize, &Option<String>> =
            state.batch.pending.iter().map(|(index, url)| (*index, url)).collect();
        let mut titles = self.dependencies.store.batch_titles(state.batch.id).await?;
        let rest: Vec<(usize, ItemOutcome)> = left
            .into_iter()
            .map(|index| {
                let url = urls.get(&index).and_then(|url| (*url).clone());
                let message = "the batch was cancelled before this was added".to_owned();
                (index, ItemOutcome::Error { url, title: titles.remove(&index), error: Fault::Cancelled, message })
            })
            .collect();
        self.end(&rest, state).await
    }

    async fn end(&self, rest: &[(usize, ItemOutcome)], state: &mut BatchState) -> Result<(), StoreError> {
        let Dependencies { store, clock, .. } = &*self.dependencies;
        let first_number = state.journal.borrow().processed() + 1;
        let finished: Vec<_> =
            rest.iter().enumerate().map(|(nth, (index, outcome))| (*index, first_number + nth, outcome)).collect();
        let ended = store.batch_finish(state.batch.id, &finished, &BatchEnd::Complete, clock.now()).await?;
        state.stop();
        if !ended {
            return self.reload(state).await;
        }
        tracing::info!(batch.id = %state.batch.id, "a batch is complete");
        state.journal.send_modify(|journal| {
            for (index, outcome) in rest {
                journal.finish(*index, outcome.clone());
            }
            journal.end(BatchEnd::Complete);
        });
        Ok(())
    }

    /// Reads the committed outcomes, and publishes new ones.
    async fn reload(&self, state: &mut BatchState) -> Result<(), StoreError> {
        let Some(batch) = self.dependencies.store.batch_by_id(state.batch.id, None).await? else {
            // The account was deleted together with the batch.
            state
                .journal
                .send_modify(|journal| journal.end(BatchEnd::Failed("the batch does not exist any more".to_owned())));
            return Ok(());
        };
        state.journal.send_if_modified(|journal| {
            let is_new = *journal != batch.journal;
            journal.clone_from(&batch.journal);
            is_new
        });
        state.batch = batch;
        Ok(())
    }
}

impl BatchState {
    /// Whether this actor leads: only a leader has read the content rules.
    fn leads(&self) -> bool {
        self.filter.is_some()
    }

    /// Stops working until the next tick has determined the leader.
    fn stop(&mut self) {
        self.tasks.abort_all();
        self.waiting.clear();
        self.working.clear();
        self.prepared.clear();
        self.filter = None;
    }
}

/// An item with a panicking preparation gets an error, so that the batch can end.
async fn prepare(
    dependencies: &Dependencies,
    account: &UserAccountId,
    item: &Item,
    filter: &FilterSettings,
) -> Prepared {
    // Each line takes a turn, so that large imports share the places fairly with other accounts.
    let _place = match item {
        Item::Memory(_) => dependencies.lines.acquire(account).await.ok(),
        _ => None,
    };
    let prepared = AssertUnwindSafe(dependencies.pipeline.prepare(account, item, filter)).catch_unwind().await;
    prepared.unwrap_or_else(|_panic| {
        tracing::error!("preparing an item panicked");
        Prepared::NotStored(ItemOutcome::error(item, Fault::ExtractFailed, "its content could not be read"))
    })
}

/// The host of a URL, used only for fairness: an invalid URL gets its error during preparation.
fn host(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    Some(rest[..end].to_ascii_lowercase())
}
