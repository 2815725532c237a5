//! The actor in front of the embedded log: many senders, one commit.
//!
//! 1. An event that arrives is buffered. Once every task that is ready has run, a flush follows in the mailbox behind the events that arrived
//!    meanwhile: this short wait makes groups several times larger, and each event cheaper.
//! 2. The flush hands the events to the log. An SQLite file has a thread that owns its connection and takes all that waits in one visit,
//!    so the next group is handed over while the last one is being committed. On PostgreSQL each group is a statement, so the actor hands over
//!    one, and a second one beside it once that is large: a database has more than one processor, and small groups would cost it more. Events of
//!    a chain with an event in a group wait for its end, so that they stay in order. Those of chains that another node has locked leave their
//!    group and are tried again beside the next ones, for less than a second.
//! 3. Each sender is answered after the commit of its group, by the log itself.
//!
//! **If it crashes:** buffered events get no answer, and their senders send them again; events that were passed to the log are
//! committed and answered without the actor. If the thread of the log panics, the actor ends with the same error, so that its
//! supervisor counts it, and the thread reads the log again before it takes the next group.

#![expect(clippy::unused_async, reason = "handlers have one form, whether or not they wait")]

use std::collections::HashSet;
use std::fmt;
use std::mem;
use std::sync::Arc;

use domain::chain::ChainKey;
use ractor::{ActorProcessingErr, ActorRef};
use statistics::log::{Append, AppendOutcome, AppendReply, Log, LogError};
use supervision::Reply;
use supervision::periodic::Waker;

/// The outcome of an event, or the reason why its group was not committed.
pub type Appended = Result<AppendOutcome, Arc<LogError>>;

/// PostgreSQL: groups that are committed at a time.
const GROUPS_MAX: usize = 2;

/// PostgreSQL: events that are worth a second group. Groups of 8 cost the database twice as much for each event as groups of 23.
const SECOND_GROUP_MIN: usize = 16;

/// Sent by intake and the outbox, and by the actor and the log to the actor.
pub enum AppendMessage {
    /// Append this event; the answer follows the commit.
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
    /// The group of these chains is committed, or was refused (PostgreSQL).
    Settled(HashSet<ChainKey>),
    /// The thread of the log panicked, with these words.
    WriterCrashed(String),
}

impl fmt::Debug for AppendMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add { .. } => "Add",
            Self::Gather => "Gather",
            Self::Flush => "Flush",
            Self::Settled(_) => "Settled",
            Self::WriterCrashed(_) => "WriterCrashed",
        })
    }
}

/// The actor that owns the way into the embedded log.
#[derive(Debug, Clone)]
pub struct Appender {
    log: Log,
    /// Number of buffered events that are passed to the log without a further wait.
    group_max: usize,
    /// Wakes the actor that sequences the events.
    appended: Waker,
}

/// The events that arrived since the last flush.
pub struct AppenderState {
    waiting: Vec<(Append, AppendReply)>,
    /// PostgreSQL: groups that are being committed.
    groups: usize,
    /// PostgreSQL: chains of these groups.
    busy: HashSet<ChainKey>,
}

impl AppenderState {
    /// Takes at most `group_max` waiting events of chains that are in no group, in their order; none if the group would be too small.
    fn next_group(&mut self, group_max: usize) -> Option<Vec<(Append, AppendReply)>> {
        let group_min = match self.groups {
            0 => 1,
            1..GROUPS_MAX => SECOND_GROUP_MIN.min(group_max),
            _ => return None,
        };
        let is_free = |(event, _): &(Append, AppendReply)| !self.busy.contains(&event.chain_key());
        if self.waiting.iter().filter(|each| is_free(each)).take(group_min).count() < group_min {
            return None;
        }
        let mut count = 0;
        let mut takes = |each: &mut (Append, AppendReply)| {
            let takes = count < group_max && is_free(each);
            count += usize::from(takes);
            takes
        };
        Some(self.waiting.extract_if(.., &mut takes).collect())
    }
}

impl Appender {
    /// Appends to `log`, at most `group_max` events at once, and announces each group.
    pub fn new(log: Log, group_max: usize, appended: Waker) -> Self {
        Self { log, group_max, appended }
    }

    async fn hand_over(&self, myself: &ActorRef<AppendMessage>, state: &mut AppenderState) {
        if state.waiting.is_empty() {
            return;
        }
        if self.log.queues() {
            // A queue has no contended events.
            drop(self.log.submit(mem::take(&mut state.waiting)).await);
            self.appended.wake();
            return;
        }
        let Some(group) = state.next_group(self.group_max) else { return };
        let chains: HashSet<ChainKey> = group.iter().map(|(event, _)| event.chain_key()).collect();
        state.busy.extend(chains.iter().cloned());
        state.groups += 1;
        let (log, myself, appended) = (self.log.clone(), myself.clone(), self.appended.clone());
        // In a task of its own, so that the mailbox still takes events. The actor receives `Settled` however the task ends.
        let settled = OnDrop(Some(move || drop(myself.cast(AppendMessage::Settled(chains)))));
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

#[ractor::actor(message = AppendMessage, state = AppenderState)]
impl Appender {
    async fn pre_start(&self, _myself: ActorRef<AppendMessage>, (): ()) -> Result<AppenderState, ActorProcessingErr> {
        Ok(AppenderState { waiting: Vec::new(), groups: 0, busy: HashSet::new() })
    }

    #[ractor::message(AppendMessage::Add { event, reply })]
    async fn add(
        &self,
        myself: ActorRef<AppendMessage>,
        event: Box<Append>,
        reply: Reply<Appended>,
        state: &mut AppenderState,
    ) -> Result<(), ActorProcessingErr> {
        if state.waiting.is_empty() {
            myself.cast(AppendMessage::Gather)?;
        }
        let address = myself.clone();
        let answer: AppendReply = Box::new(move |appended: Appended| {
            if let Err(error) = &appended
                && error.is_crash()
            {
                // Fails only if the actor is gone already.
                drop(address.cast(AppendMessage::WriterCrashed(domain::reasons(&**error))));
            }
            reply.send(appended);
        });
        state.waiting.push((*event, answer));
        if state.waiting.len() >= self.group_max {
            self.hand_over(&myself, state).await;
        }
        Ok(())
    }

    #[ractor::message(AppendMessage::Gather)]
    async fn gather(&self, myself: ActorRef<AppendMessage>) -> Result<(), ActorProcessingErr> {
        tokio::task::yield_now().await;
        Ok(myself.cast(AppendMessage::Flush)?)
    }

    #[ractor::message(AppendMessage::Flush)]
    async fn flush(&self, myself: ActorRef<AppendMessage>, state: &mut AppenderState) {
        self.hand_over(&myself, state).await;
    }

    #[ractor::message(AppendMessage::Settled(chains))]
    async fn settled(&self, myself: ActorRef<AppendMessage>, chains: HashSet<ChainKey>, state: &mut AppenderState) {
        state.groups -= 1;
        state.busy.retain(|chain| !chains.contains(chain));
        self.hand_over(&myself, state).await;
    }

    #[ractor::message(AppendMessage::WriterCrashed(error))]
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use domain::envelope::AgentKinds;
    use domain::envelope::Sealed;
    use domain::{Rng, Timestamp};
    use harness::event::{Chain, Machine};
    use statistics::contract::{RecordScope, Submission};

    use super::*;

    fn computer(number: u8) -> Machine {
        let uuid = format!("01890a5d-ac96-774b-bcce-b302099a80{number:02x}");
        Machine { user_cuid: format!("c{:0>23}", number), uuid, secret: String::new() }
    }

    /// The next events of a chain.
    fn events(chain: &mut Chain, count: usize) -> Vec<(Append, AppendReply)> {
        let rng = Rng::seeded(1);
        let next = |_| {
            let body = Bytes::from(chain.next().to_string());
            let sealed = Sealed::open(&body, usize::MAX, &AgentKinds::new(["codex".to_owned()])).unwrap();
            let submission = Submission::new(body, sealed, RecordScope::default());
            let receipt = rng.uuid_v7(Timestamp::UNIX_EPOCH).into();
            let answer: AppendReply = Box::new(|_| ());
            (Append::new(submission, receipt, Timestamp::UNIX_EPOCH), answer)
        };
        (0..count).map(next).collect()
    }

    fn state() -> AppenderState {
        AppenderState { waiting: Vec::new(), groups: 0, busy: HashSet::new() }
    }

    fn chains(group: &[(Append, AppendReply)]) -> Vec<ChainKey> {
        group.iter().map(|(event, _)| event.chain_key()).collect()
    }

    #[test]
    fn events_of_a_chain_in_a_group_wait_for_its_end() {
        let (mut ours, mut theirs) = (Chain::new(&computer(1)), Chain::new(&computer(2)));
        let mut state = state();
        state.waiting.extend(events(&mut ours, 3));
        let first = state.next_group(2).unwrap();
        assert_eq!((first.len(), state.waiting.len()), (2, 1));
        state.busy.extend(chains(&first));
        state.groups = 1;
        // The third event of the busy chain stays, and so do those behind it.
        state.waiting.extend(events(&mut theirs, SECOND_GROUP_MIN));
        state.waiting.extend(events(&mut ours, 1));
        let second = state.next_group(100).unwrap();
        assert_eq!(second.len(), SECOND_GROUP_MIN);
        assert!(!chains(&second).iter().any(|chain| state.busy.contains(chain)));
        assert_eq!(state.waiting.len(), 2);
        state.busy.clear();
        state.groups = 0;
        assert_eq!((state.next_group(100).unwrap().len(), state.waiting.len()), (2, 0));
    }

    #[test]
    fn a_second_group_is_large_and_there_is_no_third() {
        let mut state = state();
        assert!(state.next_group(100).is_none());
        state.groups = 1;
        state.waiting.extend(events(&mut Chain::new(&computer(1)), SECOND_GROUP_MIN - 1));
        assert!(state.next_group(100).is_none());
        assert_eq!(state.waiting.len(), SECOND_GROUP_MIN - 1);
        // A smaller `batch_max` leaves no larger group.
        assert_eq!(state.next_group(4).unwrap().len(), 4);
        state.groups = GROUPS_MAX;
        assert!(state.next_group(4).is_none());
    }
}
