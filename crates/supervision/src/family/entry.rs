//! The entry of one keyed actor: its state while it is idle, its inbox while it is busy.
//!
//! 1. A message that finds the state in the entry takes it and starts a turn ([`StateGuard`]): the handler runs at once, in the sender's
//!    task. If the handler has to wait, the turn moves to a separate task.
//! 2. Messages that arrive during a turn wait in the inbox. The turn handles them one by one, and returns the state to the entry when the
//!    inbox is empty.
//! 3. An actor ends when it was asked to leave and its inbox is empty, when a handler fails or panics, or when it is killed. Its state and
//!    its inbox are then dropped, and its owner receives the reason.
//!
//! Locks are held for a few assignments only, and never while code of an actor runs.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Waker};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{AbortHandle, Abortable};
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use tracing::{Instrument as _, Level, Span};

use crate::causes::{panic_message, with_causes};
use crate::keyed::{Facts, Inbox, KeyedActor, SelfRef};
use crate::kind::KindState;
use crate::mailbox::{Meter, Permit};
use crate::unavailable::Unavailable;

/// The registry of the entry. It removes the entry of an ended actor.
pub(crate) trait Owner<A: KeyedActor>: Send + Sync {
    /// The actor ended; `crash` is the reason, if it failed.
    fn ended(&self, entry: &Entry<A>, crash: Option<&str>);
}

pub(crate) struct Entry<A: KeyedActor> {
    key: A::Key,
    subject: A::Subject,
    actor: A,
    owner: Weak<dyn Owner<A>>,
    meter: Arc<Meter>,
    queue: Mutex<EntryQueue<A>>,
}

struct EntryQueue<A: KeyedActor> {
    /// Present while the actor is idle; the inbox is then empty. Boxed, because every turn moves it twice.
    state: Option<Box<A::State>>,
    /// Each message with the span in which it is handled.
    inbox: VecDeque<(A::Message, Span)>,
    phase: Phase,
    /// Aborts the task of the turn.
    task: Option<AbortHandle>,
    /// Dropped when the actor has ended; absent while no sender waits for that.
    end: Option<watch::Sender<()>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The actor accepts messages.
    Open,
    /// The actor handles its inbox and ends.
    Leaving,
    /// The actor ends without handling its inbox.
    Ending,
    /// The actor has ended, and the owner has removed it.
    Ended,
}

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

impl<A: KeyedActor> Entry<A> {
    /// Starts an actor; `None` if it crashed. It is not registered yet, and handles no message before [`settle`](Self::settle).
    pub(crate) async fn start(
        key: A::Key,
        actor: A,
        arguments: A::Arguments,
        kind: &Arc<KindState>,
        owner: Weak<dyn Owner<A>>,
        deadline: Duration,
    ) -> Option<StateGuard<A>> {
        let queue = EntryQueue { state: None, inbox: VecDeque::new(), phase: Phase::Open, task: None, end: None };
        let subject = A::subject(&arguments);
        let entry = Arc::new(Self { key, subject, actor, owner, meter: Meter::new(kind), queue: Mutex::new(queue) });
        let mut turn = StateGuard::of(&entry, None);
        let starting = AssertUnwindSafe(entry.actor.start(&turn.myself, arguments)).catch_unwind();
        let failure = match tokio::time::timeout(deadline, starting).await {
            Ok(Ok(Ok(state))) => {
                turn.state = Some(Box::new(state));
                return Some(turn);
            }
            Ok(Ok(Err(error))) => with_causes(&*error),
            Ok(Err(panic)) => panic_message(&*panic),
            Err(_elapsed) => format!("it did not start within {deadline:?}"),
        };
        turn.crash = Some(failure);
        None
    }

    /// Ends the start: returns the state to the entry, or starts to handle messages that the actor sent to itself.
    pub(crate) fn settle(mut turn: StateGuard<A>) {
        if let Some((message, span)) = turn.next() {
            let entry = Arc::clone(&turn.entry);
            entry.spawn(Box::pin(work(turn, message)), span);
        }
    }

    pub(crate) fn key(&self) -> &A::Key {
        &self.key
    }

    pub(crate) fn subject(&self) -> &A::Subject {
        &self.subject
    }

    fn kind(&self) -> &Arc<KindState> {
        self.meter.kind()
    }

    /// Takes a place in the queue; `None` if the actor accepts no more messages. A place must not be taken then: it would count as a
    /// heartbeat of an actor that hangs while it leaves.
    pub(crate) fn admit(self: &Arc<Self>) -> Result<Option<Permit>, Unavailable> {
        if self.queue().phase != Phase::Open {
            return Ok(None);
        }
        self.meter.admit().map(Some).ok_or_else(|| {
            // While the queue is full no sender is admitted, so none can time out; therefore the check for stuck actors is here too.
            self.kill_if_stuck();
            self.kind().if_open(Unavailable::Overloaded)
        })
    }

    /// Handles the message, up to its first wait, in the sender's task; or puts it into the inbox of a busy actor; or returns it if the
    /// actor accepts no more messages.
    pub(crate) fn deliver(self: &Arc<Self>, message: A::Message) -> Result<(), A::Message> {
        let span = || self.kind().message_span::<A::Message>();
        if let Some(mut work) = self.accept(message, span)? {
            // Most messages are handled by this poll, in the sender's task and span: a separate span would cost more than the handler.
            let first = if tracing::enabled!(Level::DEBUG) { span() } else { Span::none() };
            // A wake-up before the spawned task polls the work is lost, but the task polls it in any case.
            let polled = first.in_scope(|| work.as_mut().poll(&mut Context::from_waker(Waker::noop())));
            if polled.is_pending() {
                self.spawn(work, if first.is_none() { span() } else { first });
            }
        }
        Ok(())
    }

    /// Returns a turn for this message if the actor is idle. Otherwise puts the message into the inbox, or returns it.
    fn accept(self: &Arc<Self>, message: A::Message, span: impl FnOnce() -> Span) -> Result<Option<Work>, A::Message> {
        let mut queue = self.queue();
        if queue.phase != Phase::Open {
            return Err(message);
        }
        let state = queue.state.take();
        if state.is_none() {
            queue.inbox.push_back((message, span()));
            return Ok(None);
        }
        drop(queue);
        Ok(Some(Box::pin(work(StateGuard::of(self, state), message))))
    }

    /// Continues a turn in a separate task, in the span of its first message.
    fn spawn(&self, work: Work, span: Span) {
        let (task, registration) = AbortHandle::new_pair();
        let mut queue = self.queue();
        if queue.phase == Phase::Ending {
            // The actor was killed before the spawn. The guard inside the work ends the actor when it is dropped.
            drop(queue);
            return drop(work);
        }
        queue.task = Some(task);
        // Not while the lock is held: a runtime that shuts down drops the task here.
        drop(queue);
        tokio::spawn(Abortable::new(work.instrument(span), registration));
    }

    /// Waits for the reply to a message that was delivered.
    pub(crate) async fn answer<T>(
        self: &Arc<Self>,
        mut answer: oneshot::Receiver<T>,
        until: Instant,
    ) -> Result<T, Unavailable> {
        let crashed = || self.kind().if_open(Unavailable::Crashed);
        match answer.try_recv() {
            Ok(answered) => return Ok(answered),
            Err(TryRecvError::Closed) => return Err(crashed()),
            Err(TryRecvError::Empty) => {}
        }
        match tokio::time::timeout_at(until, answer).await {
            Ok(answered) => answered.map_err(|_dropped| crashed()),
            Err(_elapsed) => {
                self.kind().timer_fired(until);
                self.kill_if_stuck();
                Err(Unavailable::TimedOut)
            }
        }
    }

    /// Waits until the actor has ended and the owner has removed it.
    pub(crate) async fn ended(&self) {
        let Some(mut end) = self.queue().end().map(watch::Sender::subscribe) else { return };
        // No value is ever sent: the sender is dropped.
        let _ = end.changed().await;
    }

    /// Like [`ended`](Self::ended), for a sender with a deadline. At most `queue_max` senders wait.
    pub(crate) async fn ended_until(self: &Arc<Self>, until: Instant) -> Result<(), Unavailable> {
        self.kill_if_stuck();
        let end = {
            let mut queue = self.queue();
            let Some(end) = queue.end() else { return Ok(()) };
            (end.receiver_count() < self.kind().settings().queue_max as usize).then(|| end.subscribe())
        };
        let mut end = end.ok_or_else(|| self.kind().if_open(Unavailable::Overloaded))?;
        let ended = tokio::time::timeout_at(until, end.changed()).await;
        ended.map(drop).map_err(|_elapsed| {
            self.kind().timer_fired(until);
            self.kill_if_stuck();
            Unavailable::TimedOut
        })
    }

    /// Accepts no more messages, handles the inbox, and ends.
    pub(crate) fn leave(self: &Arc<Self>) {
        let mut queue = self.queue();
        if queue.phase == Phase::Open {
            queue.phase = Phase::Leaving;
            // The actor has the whole `stuck_after` to end, regardless of its idle time.
            self.meter.moves();
            let idle = queue.state.take();
            drop(queue);
            if idle.is_some() {
                drop(StateGuard::of(self, idle));
            }
        }
    }

    /// Ends the actor without handling its inbox. A handler ends at its next await; one that blocks its thread cannot be killed.
    pub(crate) fn kill(self: &Arc<Self>) {
        let mut queue = self.queue();
        if matches!(queue.phase, Phase::Open | Phase::Leaving) {
            queue.phase = Phase::Ending;
            let (idle, task) = (queue.state.take(), queue.task.take());
            drop(queue);
            if idle.is_some() {
                drop(StateGuard::of(self, idle));
            }
            if let Some(task) = task {
                task.abort();
            }
        }
    }

    /// Kills an actor that holds messages and finished none for `stuck_after`, or that has not ended `stuck_after` after it was asked to
    /// leave.
    fn kill_if_stuck(self: &Arc<Self>) {
        let is_leaving = self.queue().phase == Phase::Leaving;
        if self.meter.is_stuck() || is_leaving && self.meter.is_still() {
            self.mark_stuck_and_kill();
        }
    }

    pub(crate) fn mark_stuck_and_kill(self: &Arc<Self>) {
        if self.meter.mark_stuck() {
            let (kind, key) = (self.kind().name, &self.subject);
            tracing::error!(actor.kind = kind, actor.key = %key, queued = self.queued(), "killing a stuck actor");
            self.kill();
        }
    }

    pub(crate) fn is_marked_stuck(&self) -> bool {
        self.meter.is_marked_stuck()
    }

    /// Whether the actor accepts no more messages but has not ended; `None` if it has ended.
    pub(crate) fn is_leaving(&self) -> Option<bool> {
        let phase = self.queue().phase;
        (phase != Phase::Ended).then_some(phase != Phase::Open)
    }

    /// The facts of the state; `None` while the actor is busy or ends.
    pub(crate) fn facts(self: &Arc<Self>) -> Option<Facts> {
        let state = self.queue().state.take()?;
        // A turn without a message: a message that arrives during it is handled next.
        let turn = StateGuard::of(self, Some(state));
        let facts = turn.state.as_deref().map(A::facts);
        Self::settle(turn);
        facts
    }

    /// Messages that wait or are being handled.
    pub(crate) fn queued(&self) -> u32 {
        self.meter.queued()
    }

    /// Time since the actor last finished a message.
    pub(crate) fn unmoved_for(&self) -> Duration {
        self.meter.unmoved_for()
    }

    fn end(&self, state: Option<Box<A::State>>, crash: Option<&str>) {
        let inbox = {
            let mut queue = self.queue();
            queue.phase = Phase::Ending;
            queue.task = None;
            std::mem::take(&mut queue.inbox)
        };
        // Dropping the state runs code of the actor: a panic there is a crash like any other, and must not block the key.
        let dropped = std::panic::catch_unwind(AssertUnwindSafe(|| drop(state)));
        let crash = crash.or(dropped.is_err().then_some("its state panicked while it was dropped"));
        if let Some(owner) = self.owner.upgrade() {
            owner.ended(self, crash);
        }
        // Dropped once the key is free again: the senders of these messages then see the end.
        drop(inbox);
        let end = {
            let mut queue = self.queue();
            queue.phase = Phase::Ended;
            queue.end.take()
        };
        drop(end);
    }

    fn queue(&self) -> MutexGuard<'_, EntryQueue<A>> {
        // Every update is a few assignments: a panic in between leaves a consistent value.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A: KeyedActor> Inbox<A::Message> for Entry<A> {
    fn put(self: Arc<Self>, message: A::Message) -> bool {
        // The current span, not a child of it: a chain of messages to itself would nest without end.
        match self.accept(message, Span::current) {
            Ok(Some(work)) => self.spawn(work, Span::current()),
            Ok(None) => {}
            Err(_refused) => return false,
        }
        true
    }

    fn leave(self: Arc<Self>) {
        Self::leave(&self);
    }
}

impl<A: KeyedActor> EntryQueue<A> {
    /// The channel that closes when the actor ends; `None` after that.
    fn end(&mut self) -> Option<&watch::Sender<()>> {
        (self.phase != Phase::Ended).then(|| &*self.end.get_or_insert_with(|| watch::Sender::new(())))
    }
}

/// A turn: the state outside of its entry. If the guard is dropped with the state, as by a crash or an aborted task, the actor ends.
pub(crate) struct StateGuard<A: KeyedActor> {
    entry: Arc<Entry<A>>,
    myself: SelfRef<A>,
    /// Absent before the actor has started, and after the state was returned.
    state: Option<Box<A::State>>,
    is_returned: bool,
    /// Why a handler or the start failed.
    crash: Option<String>,
}

impl<A: KeyedActor> StateGuard<A> {
    fn of(entry: &Arc<Entry<A>>, state: Option<Box<A::State>>) -> Self {
        let inbox: Arc<Entry<A>> = Arc::clone(entry);
        Self { entry: Arc::clone(entry), myself: SelfRef(inbox), state, is_returned: false, crash: None }
    }

    pub(crate) fn entry(&self) -> &Arc<Entry<A>> {
        &self.entry
    }

    /// The next message. `None` ends the turn: the state was returned to the entry, or the actor ends.
    fn next(&mut self) -> Option<(A::Message, Span)> {
        let mut queue = self.entry.queue();
        if queue.phase == Phase::Ending {
            return None;
        }
        let next = queue.inbox.pop_front();
        if next.is_none() && queue.phase == Phase::Open {
            // Frees the memory of an inbox that has been drained.
            queue.inbox = VecDeque::new();
            queue.task = None;
            queue.state = self.state.take();
            self.is_returned = true;
        }
        next
    }
}

impl<A: KeyedActor> Drop for StateGuard<A> {
    fn drop(&mut self) {
        if !self.is_returned {
            self.entry.end(self.state.take(), self.crash.as_deref());
        }
    }
}

/// Handles this message and the messages that arrive during the turn.
async fn work<A: KeyedActor>(mut turn: StateGuard<A>, message: A::Message) {
    // The first message is handled in the span of the whole work.
    let (mut message, mut span) = (message, Span::none());
    loop {
        let StateGuard { entry, myself, state: Some(state), .. } = &mut turn else { return };
        let handled =
            AssertUnwindSafe(entry.actor.handle(myself, message, state)).catch_unwind().instrument(span).await;
        turn.crash = match handled {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(with_causes(&*error)),
            Err(panic) => Some(panic_message(&*panic)),
        };
        if turn.crash.is_some() {
            return;
        }
        match turn.next() {
            Some(next) => (message, span) = next,
            None => return,
        }
        // A busy actor must not occupy the sender of its first message or that sender's thread.
        tokio::task::yield_now().await;
    }
}
