//! Event intake: every event is forwarded, held, or answered by the statistics service (`docs/protocol/events.md#intake`).
//!
//! 1. The task of the connection reads the body strictly and hashes it. An event of a computer for the embedded log is judged there by
//!    the facts of the sender's credential (`domain::held`).
//! 2. An event of a computer that may go to the embedded log takes one hop, to the log's own actor ([`crate::append`]): that one owns
//!    the heads of the chains, groups the events and answers after the commit.
//! 3. Every other event goes to the intake actor: those for which the store has to be asked (an account's), those that are held, and all
//!    that go to an external service. The actor judges it, again if step 1 did, and this decision counts. It handles one event per chain at a time and in order,
//!    and as many chains side by side as `events.workers` says.
//! 4. What may not be forwarded is held: stored durably, then answered 202 with a warning.
//!
//! What has reached an actor is finished apart from the request: a client that hangs up at any byte changes nothing.
//!
//! **If handling an event crashes:** its sender gets 424 and sends it again, which is never counted twice. If the actor crashes, the
//! events that it was handling end with it, and the root starts another.

#![expect(clippy::unused_async, reason = "handlers have one form, whether or not they wait")]

mod contract;
mod hold;
mod lately;
mod processor;
mod turns;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::Bytes;
use domain::envelope::{AgentKinds, Sealed, Unreadable};
use domain::trace::TraceContext;
use futures_util::FutureExt as _;
use ractor::{ActorProcessingErr, ActorRef};
use store::held::{HeldEntry, Sender as HeldSender};
use supervision::{ActorSettings, ChildSpec, Handle, Reply, Unavailable};
use tokio::task::JoinSet;
use tracing::{Instrument as _, Span};

pub use contract::{IntakeOutcome, Sender};
pub use hold::HeldBatch;
pub use lately::HeldLately;
pub use processor::{EventProcessor, QUOTA_EXCEEDED};
use turns::PerKeyQueue;

use crate::infra_error::InfraError;
use crate::kind::ActorKind;
use async_recursion::async_recursion as boxed;

/// One event on its way.
#[derive(Debug)]
pub struct Submit {
    sender: Sender,
    body: Bytes,
    opened: Result<Sealed, Unreadable>,
    reply: Reply<IntakeOutcome>,
    /// The span of the message, in which the event is also handled if it has to wait for its turn.
    span: Span,
    /// The trace of the sender's request, which a request to an external statistics service continues.
    trace: Option<TraceContext>,
}

/// Events of one slot are handled one after the other. Two chains share a slot once in 2^64 times, which costs them nothing but turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChainSlot(u64);

/// Sent by [`Intake`], and by the actor to itself.
pub enum IntakeMessage {
    /// Forward or hold this event.
    Submit {
        /// Its chain, or its bytes if it has none.
        slot: ChainSlot,
        /// The event with its sender and reply.
        submit: Box<Submit>,
    },
    /// An event of the chain is handled.
    Handled(ChainSlot),
    /// Finish the accepted events, then end.
    Finish,
}

impl fmt::Debug for IntakeMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Submit { .. } => "Submit",
            Self::Handled(_) => "Handled",
            Self::Finish => "Finish",
        })
    }
}

/// The intake of events.
#[derive(Debug, Clone)]
pub struct Intake {
    handle: Handle<IntakeMessage>,
    processor: Arc<EventProcessor>,
    slots: RandomState,
    body_bytes_max: usize,
    agents: Arc<AgentKinds>,
}

impl Intake {
    /// Before its actor runs.
    pub fn new(processor: EventProcessor, body_bytes_max: usize, agents: AgentKinds, settings: &ActorSettings) -> Self {
        Self {
            handle: Handle::new(ActorKind::Intake, settings),
            processor: Arc::new(processor),
            slots: RandomState::new(),
            body_bytes_max,
            agents: Arc::new(agents),
        }
    }

    /// Accepts one event. Returns when it is durable, or refused.
    #[boxed]
    pub async fn submit(&self, sender: Sender, body: Bytes) -> Result<IntakeOutcome, Unavailable> {
        let payer = sender.payer();
        // A sender that hangs up from here on is charged too: its event may be recorded.
        let (then, bytes) = (self.processor.clock.now(), body.len());
        if let Some(refusal) = self.processor.charge(&payer, bytes, then).await {
            return Ok(refusal);
        }
        let outcome = self.pass(sender, body).await;
        if outcome.as_ref().is_ok_and(IntakeOutcome::came_to_nothing) {
            self.processor.budgets.give_back(&payer, bytes, then);
        }
        outcome
    }

    /// The same without a budget.
    async fn pass(&self, sender: Sender, body: Bytes) -> Result<IntakeOutcome, Unavailable> {
        // A panic over one event is the end of its request alone.
        let direct = AssertUnwindSafe(async {
            let opened = Sealed::open(&body, self.body_bytes_max, &self.agents);
            self.processor.direct(sender, &body, opened).await
        });
        let (sender, opened) = match direct.catch_unwind().await.map_err(|_panic| Unavailable::Crashed)? {
            Ok(verdict) => return Ok(verdict),
            Err(indirect) => indirect,
        };
        let slot = ChainSlot(match &opened {
            Ok(sealed) => self.slots.hash_one(sealed.envelope.chain_key()),
            Err(_) => self.slots.hash_one(&body),
        });
        let deadline = self.handle.settings().ask_deadline;
        let make = |reply| IntakeMessage::Submit {
            slot,
            submit: Box::new(Submit {
                sender,
                body,
                opened,
                reply,
                span: Span::none(),
                trace: statistics::trace::current(),
            }),
        };
        self.handle.ask(make, deadline).await
    }

    /// Sends a held event through again, as if its sender had sent it now, and settles the entry when it is forwarded.
    #[boxed]
    pub async fn release(&self, entry: &HeldEntry, body: Bytes) -> Result<IntakeOutcome, InfraError> {
        let sender = match (&entry.sender, &entry.account) {
            (HeldSender::Machine(machine), _) => match self.processor.store.machine_facts(*machine).await? {
                Some(known) => Sender::Machine { facts: known.facts, has_held: known.has_held },
                None => {
                    return Err(InfraError::Internal("the computer that sent it is not registered any more".into()));
                }
            },
            (HeldSender::Account(account), _) => Sender::Account { account: account.clone(), agent: None },
            (HeldSender::Registration(agent), Some(account)) => {
                Sender::Account { account: account.clone(), agent: Some(*agent) }
            }
            (HeldSender::Registration(agent), None) => Sender::Unclaimed(*agent),
        };
        let verdict = self.pass(sender, body).await?;
        if let IntakeOutcome::Forwarded(receipt) = verdict {
            // Already settled if the event was found by its id.
            self.processor.store.held_release(entry.id, receipt, self.processor.clock.now()).await?;
        }
        Ok(verdict)
    }

    /// The actor, for the supervisor. `workers`: how many events are handled at once.
    pub fn spec(&self, workers: usize) -> ChildSpec {
        let actor = IntakeActor { processor: Arc::clone(&self.processor), workers };
        ChildSpec::singleton(&self.handle, move || (actor.clone(), ()))
            .stopped_by(|actor| drop(ActorRef::<IntakeMessage>::from(actor.clone()).cast(IntakeMessage::Finish)))
    }
}

/// The actor: it decides whose turn it is, and tasks of its own do the work.
#[derive(Clone)]
struct IntakeActor {
    processor: Arc<EventProcessor>,
    workers: usize,
}

/// The events that were submitted and are not handled yet.
struct IntakeState {
    turns: PerKeyQueue<ChainSlot, Box<Submit>>,
    /// The tasks end with the actor.
    tasks: JoinSet<()>,
    /// Finish the accepted events, then end.
    is_finishing: bool,
}

impl IntakeActor {
    fn start(&self, myself: &ActorRef<IntakeMessage>, slot: ChainSlot, submit: Box<Submit>, state: &mut IntakeState) {
        let (processor, handled) = (Arc::clone(&self.processor), Handled { intake: myself.clone(), slot });
        let Submit { sender, body, opened, reply, span, trace } = *submit;
        let work = async move {
            domain::failpoint!("intake.worker");
            reply.send(processor.handle(sender, &body, opened).await);
            drop(handled);
        };
        let work = work.instrument(span);
        match trace {
            Some(trace) => state.tasks.spawn(statistics::trace::within(trace, work)),
            None => state.tasks.spawn(work),
        };
    }
}

#[ractor::actor(message = IntakeMessage, state = IntakeState)]
impl IntakeActor {
    async fn pre_start(&self, _myself: ActorRef<IntakeMessage>, (): ()) -> Result<IntakeState, ActorProcessingErr> {
        Ok(IntakeState { turns: PerKeyQueue::new(self.workers), tasks: JoinSet::new(), is_finishing: false })
    }

    #[ractor::message(IntakeMessage::Submit { slot, submit })]
    async fn submit(
        &self,
        myself: ActorRef<IntakeMessage>,
        slot: ChainSlot,
        mut submit: Box<Submit>,
        state: &mut IntakeState,
    ) {
        submit.span = Span::current();
        if let Some(submit) = state.turns.arrive(slot, submit) {
            self.start(&myself, slot, submit, state);
        }
    }

    #[ractor::message(IntakeMessage::Handled(slot))]
    async fn handled(&self, myself: ActorRef<IntakeMessage>, slot: ChainSlot, state: &mut IntakeState) {
        // The tasks that have ended; one that panicked has been logged by then, and its sender was answered 424.
        while state.tasks.try_join_next().is_some() {}
        if let Some((slot, submit)) = state.turns.leave(slot) {
            self.start(&myself, slot, submit, state);
        }
        if state.is_finishing && state.turns.is_empty() {
            myself.stop(None);
        }
    }

    #[ractor::message(IntakeMessage::Finish)]
    async fn finish(&self, myself: ActorRef<IntakeMessage>, state: &mut IntakeState) {
        state.is_finishing = true;
        if state.turns.is_empty() {
            myself.stop(None);
        }
    }
}

/// Gives the turn back, however the task ends.
struct Handled {
    intake: ActorRef<IntakeMessage>,
    slot: ChainSlot,
}

impl Drop for Handled {
    fn drop(&mut self) {
        // Fails only if the actor is gone already.
        drop(self.intake.cast(IntakeMessage::Handled(self.slot)));
    }
}
