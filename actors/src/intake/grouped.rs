//! The grouped path, the hop that every event for the embedded log takes: many senders, one commit. The log checks each event against the
//! head of its chain.
//!
//! 1. An arriving event is buffered. Once every ready task has run, a flush follows in the mailbox behind the events that arrived by then:
//!    this short wait makes groups several times larger, and each event cheaper.
//! 2. The flush passes the events to the log. For SQLite one thread owns the connection and takes all waiting events at once, so the next
//!    group is passed while the last one is being committed. On PostgreSQL one group is committed at a time; events of chains that another
//!    node has locked leave their group and are tried again with the next groups, for less than a second.
//! 3. The log answers each sender after the commit of its group.
//!
//! **If it crashes:** buffered events get no response, and their senders send them again; the log commits and answers the events that were
//! passed to it. If the thread of the log panics, the actor ends with the same error, so that its supervisor counts it, and the thread
//! reads the log again before it takes the next group.

#![expect(clippy::unused_async, reason = "handlers have one form, whether or not they wait")]

use std::fmt;
use std::sync::Arc;

use domain::log_part::LogPart;
use ractor::{ActorProcessingErr, ActorRef};
use statistics::log::{Append, AppendOutcome, AppendReply, LogError};
use statistics::parts::PartSlot;
use supervision::Reply;
use supervision::periodic::Waker;

/// The outcome of an event, or the reason why its group was not committed.
pub type Appended = Result<AppendOutcome, Arc<LogError>>;

/// Sent through [`Upstream`](crate::upstream::Upstream), and by the actor and the log to the actor.
pub enum GroupMessage {
    /// Append this event; the reply follows the commit.
    Add {
        /// The event with its receipt and time of arrival.
        event: Box<Append>,
        /// Receives the outcome.
        reply: Reply<Appended>,
    },
    /// Let other tasks run, then flush.
    Gather,
    /// Pass the buffered events to the log.
    Flush,
    /// The group that was passed to the log is committed, or was refused (PostgreSQL).
    Settled,
    /// The thread of the log panicked, with this message.
    WriterCrashed(String),
}

impl fmt::Debug for GroupMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add { .. } => "Add",
            Self::Gather => "Gather",
            Self::Flush => "Flush",
            Self::Settled => "Settled",
            Self::WriterCrashed(_) => "WriterCrashed",
        })
    }
}

/// A part of the log on the server of an actor.
#[derive(Debug, Clone)]
pub struct AppendedPart {
    /// Its number.
    pub part: LogPart,
    /// Its log, once it is open.
    pub log: PartSlot,
    /// Wakes the actor that sequences the events.
    pub appended: Waker,
}

/// The actor that appends to the parts of the embedded log on one database server. It takes the parts in turn: several groups at once
/// would be smaller, and each costs the server the same.
#[derive(Debug, Clone)]
pub struct GroupedIntake {
    parts: Arc<[AppendedPart]>,
    /// Number of buffered events that are passed to the log without a further wait.
    group_max: usize,
}

/// The events that arrived since the last flush.
pub struct WaitingEvents {
    /// In the order of the parts.
    waiting: Vec<Vec<(Append, AppendReply)>>,
    /// The next part.
    next: usize,
    /// PostgreSQL: a group is being committed.
    is_busy: bool,
}

impl GroupedIntake {
    /// Appends to these parts, at most `group_max` events at once, and announces each group.
    pub fn new(parts: Vec<AppendedPart>, group_max: usize) -> Self {
        Self { parts: parts.into(), group_max }
    }

    async fn hand_over(&self, myself: &ActorRef<GroupMessage>, state: &mut WaitingEvents) {
        for _ in 0..self.parts.len() {
            if state.is_busy {
                return;
            }
            let turn = state.next;
            state.next = (turn + 1) % self.parts.len();
            let group = std::mem::take(&mut state.waiting[turn]);
            if !group.is_empty() {
                self.hand_over_of(&self.parts[turn], group, (myself, turn), state).await;
            }
        }
    }

    async fn hand_over_of(
        &self,
        AppendedPart { part, log, appended }: &AppendedPart,
        mut group: Vec<(Append, AppendReply)>,
        (myself, turn): (&ActorRef<GroupMessage>, usize),
        state: &mut WaitingEvents,
    ) {
        let Some(log) = log.get() else {
            let away = Arc::new(LogError::PartAway(*part));
            for (_, reply) in group {
                reply(Err(Arc::clone(&away)));
            }
            return;
        };
        if log.queues() {
            // A queue has no contended events.
            drop(log.submit(group).await);
            appended.wake();
            return;
        }
        state.waiting[turn] = group.split_off(group.len().min(self.group_max));
        state.is_busy = true;
        let (log, myself, appended) = (log.clone(), myself.clone(), appended.clone());
        // In a separate task, so that the mailbox still accepts events. The actor receives `Settled` even if the task panics.
        let settled = OnDrop(Some(move || drop(myself.cast(GroupMessage::Settled))));
        drop(tokio::spawn(async move {
            let contended = log.submit(group).await;
            appended.wake();
            drop(settled);
            if let Some(contended) = contended {
                contended.settle().await;
                appended.wake();
            }
        }));
    }
}

#[ractor::actor(message = GroupMessage, state = WaitingEvents)]
impl GroupedIntake {
    async fn pre_start(&self, _myself: ActorRef<GroupMessage>, (): ()) -> Result<WaitingEvents, ActorProcessingErr> {
        let waiting = self.parts.iter().map(|_| Vec::new()).collect();
        Ok(WaitingEvents { waiting, next: 0, is_busy: false })
    }

    #[ractor::message(GroupMessage::Add { event, reply })]
    async fn add(
        &self,
        myself: ActorRef<GroupMessage>,
        event: Box<Append>,
        reply: Reply<Appended>,
        state: &mut WaitingEvents,
    ) -> Result<(), ActorProcessingErr> {
        if state.waiting.iter().all(Vec::is_empty) {
            myself.cast(GroupMessage::Gather)?;
        }
        let part = self.parts.iter().position(|part| part.part == event.part()).unwrap_or_default();
        let address = myself.clone();
        let answer: AppendReply = Box::new(move |appended: Appended| {
            if let Err(error) = &appended
                && error.is_crash()
            {
                // Fails only if the actor has ended.
                drop(address.cast(GroupMessage::WriterCrashed(domain::reasons(&**error))));
            }
            reply.send(appended);
        });
        state.waiting[part].push((*event, answer));
        if state.waiting[part].len() >= self.group_max {
            self.hand_over(&myself, state).await;
        }
        Ok(())
    }

    #[ractor::message(GroupMessage::Gather)]
    async fn gather(&self, myself: ActorRef<GroupMessage>) -> Result<(), ActorProcessingErr> {
        tokio::task::yield_now().await;
        Ok(myself.cast(GroupMessage::Flush)?)
    }

    #[ractor::message(GroupMessage::Flush)]
    async fn flush(&self, myself: ActorRef<GroupMessage>, state: &mut WaitingEvents) {
        self.hand_over(&myself, state).await;
    }

    #[ractor::message(GroupMessage::Settled)]
    async fn settled(&self, myself: ActorRef<GroupMessage>, state: &mut WaitingEvents) {
        state.is_busy = false;
        self.hand_over(&myself, state).await;
    }

    #[ractor::message(GroupMessage::WriterCrashed(error))]
    async fn writer_crashed(&self, error: String) -> Result<(), ActorProcessingErr> {
        Err(error.into())
    }
}

/// Runs a closure when it is dropped.
struct OnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(run) = self.0.take() {
            run();
        }
    }
}
