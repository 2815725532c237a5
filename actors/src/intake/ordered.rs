//! The ordered path: events that are not forwarded to the embedded log at once. It handles one event of a chain at a time, in the order of
//! arrival, and up to `events.workers` chains concurrently.

#![expect(clippy::unused_async, reason = "handlers have one form, whether or not they wait")]

use std::fmt;
use std::sync::Arc;

use domain::trace::TraceContext;
use ractor::{ActorProcessingErr, ActorRef};
use supervision::{ChildSpec, Handle, Reply};
use tokio::task::JoinSet;
use tracing::{Instrument as _, Span};

use super::contract::IntakeOutcome;
use super::processor::{EventProcessor, ReceivedEvent};
use super::turns::PerKeyQueue;

/// An event that waits or is handled.
#[derive(Debug)]
pub struct Submit {
    event: ReceivedEvent,
    reply: Reply<IntakeOutcome>,
    /// The span of the message; the event is handled in it even after it had to wait.
    span: Span,
    /// The trace of the sender's request, which a request to an external statistics service continues.
    trace: Option<TraceContext>,
}

/// Events of one slot are handled one after the other. Two chains share a slot once in 2^64 times and then only wait for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChainSlot(pub u64);

/// Sent by [`Intake`](super::Intake), and by the actor to itself.
pub enum OrderMessage {
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

impl OrderMessage {
    /// An event of the chain `slot`.
    pub fn submit(slot: ChainSlot, event: ReceivedEvent, reply: Reply<IntakeOutcome>) -> Self {
        let submit = Submit { event, reply, span: Span::none(), trace: statistics::trace::current() };
        Self::Submit { slot, submit: Box::new(submit) }
    }
}

impl fmt::Debug for OrderMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Submit { .. } => "Submit",
            Self::Handled(_) => "Handled",
            Self::Finish => "Finish",
        })
    }
}

/// The actor: it assigns the turns, and its tasks do the work.
#[derive(Clone)]
pub struct OrderedIntake {
    processor: Arc<EventProcessor>,
    workers: usize,
}

/// The events that were submitted and are not handled yet.
pub struct OrderedState {
    turns: PerKeyQueue<ChainSlot, Box<Submit>>,
    /// The tasks end with the actor.
    tasks: JoinSet<()>,
    /// Finish the accepted events, then end.
    is_finishing: bool,
}

impl OrderedIntake {
    /// Handles `workers` events at once.
    pub fn new(processor: Arc<EventProcessor>, workers: usize) -> Self {
        Self { processor, workers }
    }

    /// The actor behind `handle`, for the supervisor.
    pub fn spec(self, handle: &Handle<OrderMessage>) -> ChildSpec {
        ChildSpec::singleton(handle, move || (self.clone(), ()))
            .stopped_by(|actor| drop(ActorRef::<OrderMessage>::from(actor.clone()).cast(OrderMessage::Finish)))
    }

    fn start(&self, myself: &ActorRef<OrderMessage>, slot: ChainSlot, submit: Box<Submit>, state: &mut OrderedState) {
        let (processor, handled) = (Arc::clone(&self.processor), Handled { actor: myself.clone(), slot });
        let Submit { event, reply, span, trace } = *submit;
        let work = async move {
            domain::failpoint!("intake.worker");
            reply.send(processor.handle(event).await);
            drop(handled);
        };
        let work = work.instrument(span);
        match trace {
            Some(trace) => state.tasks.spawn(statistics::trace::within(trace, work)),
            None => state.tasks.spawn(work),
        };
    }
}

#[ractor::actor(message = OrderMessage, state = OrderedState)]
impl OrderedIntake {
    async fn pre_start(&self, _myself: ActorRef<OrderMessage>, (): ()) -> Result<OrderedState, ActorProcessingErr> {
        Ok(OrderedState { turns: PerKeyQueue::new(self.workers), tasks: JoinSet::new(), is_finishing: false })
    }

    #[ractor::message(OrderMessage::Submit { slot, submit })]
    async fn submit(
        &self,
        myself: ActorRef<OrderMessage>,
        slot: ChainSlot,
        mut submit: Box<Submit>,
        state: &mut OrderedState,
    ) {
        submit.span = Span::current();
        if let Some(submit) = state.turns.arrive(slot, submit) {
            self.start(&myself, slot, submit, state);
        }
    }

    #[ractor::message(OrderMessage::Handled(slot))]
    async fn handled(&self, myself: ActorRef<OrderMessage>, slot: ChainSlot, state: &mut OrderedState) {
        // Removes ended tasks. A task that panicked has been logged, and its sender was answered 424.
        while state.tasks.try_join_next().is_some() {}
        if let Some((slot, submit)) = state.turns.leave(slot) {
            self.start(&myself, slot, submit, state);
        }
        if state.is_finishing && state.turns.is_empty() {
            myself.stop(None);
        }
    }

    #[ractor::message(OrderMessage::Finish)]
    async fn finish(&self, myself: ActorRef<OrderMessage>, state: &mut OrderedState) {
        state.is_finishing = true;
        if state.turns.is_empty() {
            myself.stop(None);
        }
    }
}

/// Ends the turn when the task ends, even by a panic.
struct Handled {
    actor: ActorRef<OrderMessage>,
    slot: ChainSlot,
}

impl Drop for Handled {
    fn drop(&mut self) {
        // Fails only if the actor has ended.
        drop(self.actor.cast(OrderMessage::Handled(self.slot)));
    }
}
