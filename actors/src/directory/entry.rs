//! One actor as the directory keeps it: its state while it is idle, its inbox while it is not.
//!
//! 1. A message that finds the state at home takes it out and begins a [`StateGuard`]: the handler runs at once, in the turn of the sender. If it
//!    has to wait, a task of its own goes on with it.
//! 2. Messages that arrive during a turn wait in the inbox. The turn takes them one by one, and when none is left the state goes home.
//! 3. An actor ends when it is told to leave and its inbox is empty, when a handler fails or panics, or when it is killed. Its state and what
//!    its inbox holds are then dropped, and the directory learns why.
//!
//! Locks are held for a few assignments only, never while code of an actor runs.

use std::any::Any;
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

use super::Shared;
use crate::handle::{Kind, Meter, Permit, Unavailable};
use crate::keyed::{KeyedActor, SelfRef};

/// The actor of one key.
pub(crate) struct Entry<A: KeyedActor> {
    key: A::Key,
    actor: A,
    directory: Weak<Shared<A>>,
    meter: Arc<Meter>,
    desk: Mutex<EntryQueue<A>>,
}

struct EntryQueue<A: KeyedActor> {
    /// Here while the actor is idle, and then the inbox is empty. Boxed, because every turn moves it twice.
    state: Option<Box<A::State>>,
    inbox: VecDeque<A::Message>,
    phase: Phase,
    /// Ends the task in which a turn goes on.
    task: Option<AbortHandle>,
    /// Dropped when the actor has ended; absent while nothing waits for that.
    end: Option<watch::Sender<()>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It takes messages.
    Open,
    /// It handles what is in its inbox and ends.
    Leaving,
    /// It ends at once.
    Ending,
    /// It is gone, and the directory knows.
    Ended,
}

/// A boxed turn.
type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

impl<A: KeyedActor> Entry<A> {
    /// Starts an actor; `None` if it crashed. It is not in the directory yet, and handles nothing before [`settle`](Self::settle).
    pub(crate) async fn start(
        key: A::Key,
        actor: A,
        arguments: A::Arguments,
        directory: &Arc<Shared<A>>,
        deadline: Duration,
    ) -> Option<StateGuard<A>> {
        let desk = EntryQueue { state: None, inbox: VecDeque::new(), phase: Phase::Open, task: None, end: None };
        let (meter, directory) = (Meter::new(&directory.kind), Arc::downgrade(directory));
        let entry = Arc::new(Self { key, actor, directory, meter, desk: Mutex::new(desk) });
        let mut turn = StateGuard::of(&entry, None);
        let starting = AssertUnwindSafe(entry.actor.start(&turn.myself, arguments)).catch_unwind();
        let failure = match tokio::time::timeout(deadline, starting).await {
            Ok(Ok(Ok(state))) => {
                turn.state = Some(Box::new(state));
                return Some(turn);
            }
            Ok(Ok(Err(error))) => domain::reasons(&*error),
            Ok(Err(panic)) => words(&*panic),
            Err(_elapsed) => format!("it did not start within {deadline:?}"),
        };
        turn.crash = Some(failure);
        None
    }

    /// The end of the start: the state goes home, or on to what the actor sent itself.
    pub(crate) fn settle(mut turn: StateGuard<A>) {
        if let Some(message) = turn.next() {
            let entry = Arc::clone(&turn.myself.0);
            entry.run_apart(Box::pin(work(turn, message)));
        }
    }

    pub(super) fn key(&self) -> &A::Key {
        &self.key
    }

    pub(super) fn kind(&self) -> &Arc<Kind> {
        self.meter.kind()
    }

    /// Takes a place in the queue; `None` if the actor takes no more messages. A place would be a heartbeat of an actor that hangs while it
    /// leaves.
    pub(super) fn admit(self: &Arc<Self>) -> Result<Option<Permit>, Unavailable> {
        if self.desk().phase != Phase::Open {
            return Ok(None);
        }
        self.meter.admit().map(Some).ok_or_else(|| {
            // When the queue stays full nobody gets in to time out, so the stuck are looked for here too.
            self.kill_if_stuck();
            self.kind().if_open(Unavailable::Overloaded)
        })
    }

    /// Handles the message, up to its first wait in the turn of the caller; or puts it into the inbox of a busy actor; or gives it back if
    /// the actor takes no more.
    pub(super) fn deliver(self: &Arc<Self>, message: A::Message) -> Result<(), A::Message> {
        if let Some(mut work) = self.accept(message)? {
            // Whoever wakes it before the task polls it again wakes nobody; the task polls it in any case.
            if work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                self.run_apart(work);
            }
        }
        Ok(())
    }

    /// Like [`deliver`](Self::deliver), but nothing runs in the turn of the caller.
    pub(crate) fn enqueue(self: &Arc<Self>, message: A::Message) -> Result<(), A::Message> {
        if let Some(work) = self.accept(message)? {
            self.run_apart(work);
        }
        Ok(())
    }

    /// The turn of this message, if the state is at home.
    fn accept(self: &Arc<Self>, message: A::Message) -> Result<Option<Work>, A::Message> {
        let mut desk = self.desk();
        if desk.phase != Phase::Open {
            return Err(message);
        }
        let state = desk.state.take();
        if state.is_none() {
            desk.inbox.push_back(message);
            return Ok(None);
        }
        drop(desk);
        Ok(Some(Box::pin(work(StateGuard::of(self, state), message))))
    }

    /// Goes on with a turn in a task of its own.
    fn run_apart(&self, work: Work) {
        let (task, registration) = AbortHandle::new_pair();
        let mut desk = self.desk();
        if desk.phase == Phase::Ending {
            // Killed meanwhile. What the work holds ends the actor when it is dropped.
            drop(desk);
            return drop(work);
        }
        desk.task = Some(task);
        // Not while the lock is held: a runtime that shuts down drops the task here.
        drop(desk);
        tokio::spawn(Abortable::new(work, registration));
    }

    /// Waits for the answer to a message that was delivered.
    pub(super) async fn answer<T>(
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
                self.kill_if_stuck();
                Err(Unavailable::TimedOut)
            }
        }
    }

    /// Waits until the actor has ended and the directory knows.
    pub(crate) async fn ended(&self) {
        let Some(mut end) = self.desk().end().map(watch::Sender::subscribe) else { return };
        // No value is ever sent: the sender is dropped.
        let _ = end.changed().await;
    }

    /// The same for a sender, up to a deadline. At most as many senders wait as the queue has places.
    pub(super) async fn ended_until(self: &Arc<Self>, until: Instant) -> Result<(), Unavailable> {
        self.kill_if_stuck();
        let end = {
            let mut desk = self.desk();
            let Some(end) = desk.end() else { return Ok(()) };
            (end.receiver_count() < self.kind().settings.queue_max as usize).then(|| end.subscribe())
        };
        let mut end = end.ok_or_else(|| self.kind().if_open(Unavailable::Overloaded))?;
        let ended = tokio::time::timeout_at(until, end.changed()).await;
        ended.map(drop).map_err(|_elapsed| {
            self.kill_if_stuck();
            Unavailable::TimedOut
        })
    }

    /// Takes no more messages, handles what is in the inbox, and ends.
    pub(crate) fn leave(self: &Arc<Self>) {
        let mut desk = self.desk();
        if desk.phase == Phase::Open {
            desk.phase = Phase::Leaving;
            // It has the whole of `stuck_after` to end, no matter how long it was idle before.
            self.meter.moves();
            let idle = desk.state.take();
            drop(desk);
            if idle.is_some() {
                drop(StateGuard::of(self, idle));
            }
        }
    }

    /// Ends without handling what is in the inbox. A handler ends where it waits; one that blocks its thread cannot be ended by anyone.
    pub(crate) fn kill(self: &Arc<Self>) {
        let mut desk = self.desk();
        if matches!(desk.phase, Phase::Open | Phase::Leaving) {
            desk.phase = Phase::Ending;
            let (idle, task) = (desk.state.take(), desk.task.take());
            drop(desk);
            if idle.is_some() {
                drop(StateGuard::of(self, idle));
            }
            if let Some(task) = task {
                task.abort();
            }
        }
    }

    /// Kills an actor that finished no message for `stuck_after` although it holds some, or that has not ended for as long after it began
    /// to leave.
    fn kill_if_stuck(self: &Arc<Self>) {
        let is_leaving = self.desk().phase == Phase::Leaving;
        if self.meter.is_stuck() || is_leaving && self.meter.is_still() {
            self.condemn();
        }
    }

    pub(crate) fn condemn(self: &Arc<Self>) {
        if self.meter.condemn() {
            tracing::error!(actor.kind = self.kind().name, queued = self.queued(), "killing a stuck actor");
            self.kill();
        }
    }

    pub(crate) fn was_condemned(&self) -> bool {
        self.meter.was_condemned()
    }

    /// Whether it takes no more messages but has not ended; `None` if it has.
    pub(crate) fn is_leaving(&self) -> Option<bool> {
        let phase = self.desk().phase;
        (phase != Phase::Ended).then_some(phase != Phase::Open)
    }

    /// Messages waiting or in its hands.
    pub(crate) fn queued(&self) -> u32 {
        self.meter.queued()
    }

    /// How long it has not finished a message.
    pub(crate) fn unmoved_for(&self) -> Duration {
        self.meter.unmoved_for()
    }

    fn end(&self, state: Option<Box<A::State>>, crash: Option<&str>) {
        let inbox = {
            let mut desk = self.desk();
            desk.phase = Phase::Ending;
            desk.task = None;
            std::mem::take(&mut desk.inbox)
        };
        // Code of the actor: its panic is a crash like any other, and must not keep the key.
        let dropped = std::panic::catch_unwind(AssertUnwindSafe(|| drop(state)));
        let crash = crash.or(dropped.is_err().then_some("its state panicked while it was dropped"));
        if let Some(directory) = self.directory.upgrade() {
            directory.ended(self, crash);
        }
        // Their senders learn of it when the key is free again.
        drop(inbox);
        let end = {
            let mut desk = self.desk();
            desk.phase = Phase::Ended;
            desk.end.take()
        };
        drop(end);
    }

    fn desk(&self) -> MutexGuard<'_, EntryQueue<A>> {
        // Every update is a few assignments: a panic in between leaves nothing half done.
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A: KeyedActor> EntryQueue<A> {
    /// The channel that closes when the actor ends; `None` after that.
    fn end(&mut self) -> Option<&watch::Sender<()>> {
        (self.phase != Phase::Ended).then(|| &*self.end.get_or_insert_with(|| watch::Sender::new(())))
    }
}

/// The state away from home. When this is dropped before the state went home, as by a crash or with a task that was ended, the actor ends.
pub(crate) struct StateGuard<A: KeyedActor> {
    myself: SelfRef<A>,
    /// Absent before the actor has started, and after the state went home.
    state: Option<Box<A::State>>,
    is_over: bool,
    /// Why a handler or the start failed.
    crash: Option<String>,
}

impl<A: KeyedActor> StateGuard<A> {
    fn of(entry: &Arc<Entry<A>>, state: Option<Box<A::State>>) -> Self {
        Self { myself: SelfRef(Arc::clone(entry)), state, is_over: false, crash: None }
    }

    pub(crate) fn entry(&self) -> &Arc<Entry<A>> {
        &self.myself.0
    }

    /// The next message. Without one the turn is over: the state went home, or the actor ends with the turn.
    fn next(&mut self) -> Option<A::Message> {
        let mut desk = self.myself.0.desk();
        if desk.phase == Phase::Ending {
            return None;
        }
        let next = desk.inbox.pop_front();
        if next.is_none() && desk.phase == Phase::Open {
            // Gives back the memory of a queue that was needed once.
            desk.inbox = VecDeque::new();
            desk.task = None;
            desk.state = self.state.take();
            self.is_over = true;
        }
        next
    }
}

impl<A: KeyedActor> Drop for StateGuard<A> {
    fn drop(&mut self) {
        if !self.is_over {
            self.myself.0.end(self.state.take(), self.crash.as_deref());
        }
    }
}

/// Handles this message and those that arrive meanwhile.
async fn work<A: KeyedActor>(mut turn: StateGuard<A>, message: A::Message) {
    let mut message = message;
    loop {
        let StateGuard { myself, state: Some(state), .. } = &mut turn else { return };
        let handled = AssertUnwindSafe(myself.0.actor.handle(myself, message, state)).catch_unwind().await;
        turn.crash = match handled {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(domain::reasons(&*error)),
            Err(panic) => Some(words(&*panic)),
        };
        if turn.crash.is_some() {
            return;
        }
        match turn.next() {
            Some(next) => message = next,
            None => return,
        }
        // A busy actor neither keeps the sender of its first message nor its thread to itself.
        tokio::task::yield_now().await;
    }
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("it panicked").to_owned()
}
