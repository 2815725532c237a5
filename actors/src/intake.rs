//! Event intake: every event is forwarded, held, or answered by the statistics service (specification, *Event intake*).
//!
//! 1. HTTP reads the body strictly and hands it over with the sender's credential.
//! 2. A factory gives it to a worker, sticky by chain: one event per chain at a time and in order, different chains side by side.
//! 3. The worker finds out for whom the sender may speak and judges (`domain::held`).
//! 4. What may be forwarded goes to the statistics service; the sender is answered after that one's answer.
//! 5. What may not is held: stored durably, then answered 202 with a warning.
//!
//! Workers run apart from the request: a client that hangs up at any byte changes nothing.
//!
//! **If a worker crashes:** its event's sender gets 424 and sends it again, which is never counted twice; the factory replaces the
//! worker. If the factory crashes, the root starts another.

mod desk;
mod hold;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::envelope::{AgentKinds, Sealed, Unreadable};
use domain::held::MachineFacts;
use domain::ids::{ReceiptId, RegistrationId, UserAccountId};
use ractor::factory::{
    DiscardMode, DiscardSettings, Factory, FactoryArguments, FactoryMessage, Job, Worker, WorkerId, queues, routing,
    worker_builder,
};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use statistics::contract::Passed;
use store::held::{HeldEntry, Sender as HeldSender};

pub use desk::Desk;
pub use hold::HeldLedger;

use crate::handle::{Handle, Reply, Unavailable};
use crate::root::{ChildSpec, Role};
use crate::settings::ActorSettings;
use crate::trouble::Trouble;

/// Who sends, from the credential alone.
#[derive(Debug, Clone)]
pub enum Sender {
    /// An agent that nobody has claimed.
    Unclaimed(RegistrationId),
    /// A computer.
    Machine {
        /// What the store knows of it.
        facts: MachineFacts,
        /// Whether some of its events are held, so that a resend may heal one.
        has_held: bool,
    },
    /// A person's browser, or an agent that acts for the account.
    Account {
        /// The account.
        account: UserAccountId,
        /// The agent, if it was one.
        agent: Option<RegistrationId>,
    },
}

/// What becomes of an event.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// 202 `{receipt_id}`.
    Forwarded(ReceiptId),
    /// 202 `{held: true, warning}`.
    Held {
        /// Reason, and the first offending place.
        warning: String,
    },
    /// The statistics service's own answer, byte for byte.
    Passed(Passed),
    /// 424: nothing happened that a resend could double.
    Unavailable {
        /// For the body of the answer.
        reason: &'static str,
        /// When it makes sense to send it again.
        retry_after: Duration,
    },
}

/// One event on its way.
#[derive(Debug)]
pub struct Submit {
    sender: Sender,
    body: Bytes,
    opened: Result<Sealed, Unreadable>,
    reply: Reply<Verdict>,
}

/// Events of one slot are handled one after the other. Two chains share a slot once in 2^64 times, which costs them nothing but turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChainSlot(u64);

type Message = FactoryMessage<ChainSlot, Submit>;
type IntakeFactory = Factory<
    ChainSlot,
    Submit,
    (),
    IntakeWorker,
    routing::StickyQueuerRouting<ChainSlot, Submit>,
    queues::DefaultQueue<ChainSlot, Submit>,
>;

/// What HTTP talks to.
#[derive(Debug, Clone)]
pub struct Intake {
    handle: Handle<Message>,
    desk: Arc<Desk>,
    slots: RandomState,
    body_bytes_max: usize,
    agents: Arc<AgentKinds>,
}

impl Intake {
    /// Before its factory runs.
    pub fn new(desk: Desk, body_bytes_max: usize, agents: AgentKinds, settings: &ActorSettings) -> Self {
        Self {
            handle: Handle::new("intake", settings),
            desk: Arc::new(desk),
            slots: RandomState::new(),
            body_bytes_max,
            agents: Arc::new(agents),
        }
    }

    /// Takes one event; answers when it is safe, or when somebody said no.
    pub async fn submit(&self, sender: Sender, body: Bytes) -> Result<Verdict, Unavailable> {
        let opened = Sealed::open(&body, self.body_bytes_max, &self.agents);
        let slot = ChainSlot(match &opened {
            Ok(sealed) => self.slots.hash_one(sealed.envelope.chain_key()),
            Err(_) => self.slots.hash_one(&body),
        });
        let deadline = self.handle.settings().ask_deadline;
        let make = |reply| FactoryMessage::Dispatch(Job::new(slot, Submit { sender, body, opened, reply }));
        self.handle.ask(make, deadline).await
    }

    /// Sends a held event through again, as if its sender had sent it now, and settles the entry when it is forwarded.
    pub async fn release(&self, entry: &HeldEntry, body: Bytes) -> Result<Verdict, Trouble> {
        let sender = match (&entry.sender, &entry.account) {
            (HeldSender::Machine(machine), _) => match self.desk.store.machine_facts(*machine).await? {
                Some(known) => Sender::Machine { facts: known.facts, has_held: known.has_held },
                None => return Err(Trouble::Internal("the computer that sent it is not registered any more".into())),
            },
            (HeldSender::Account(account), _) => Sender::Account { account: account.clone(), agent: None },
            (HeldSender::Registration(agent), Some(account)) => {
                Sender::Account { account: account.clone(), agent: Some(*agent) }
            }
            (HeldSender::Registration(agent), None) => Sender::Unclaimed(*agent),
        };
        let verdict = self.submit(sender, body).await?;
        if let Verdict::Forwarded(receipt) = verdict {
            // Already settled if the event was found by its id.
            self.desk.store.held_release(entry.id, receipt, self.desk.clock.now()).await?;
        }
        Ok(verdict)
    }

    /// The factory, for the supervisor. `workers`: how many events are handled at once.
    pub fn spec(&self, workers: usize) -> ChildSpec {
        let desk = Arc::clone(&self.desk);
        let queue_max = usize::try_from(self.handle.settings().queue_max).unwrap_or(usize::MAX);
        let start = move |root| {
            let desk = Arc::clone(&desk);
            let arguments = FactoryArguments::builder()
                .worker_builder(Box::new(worker_builder(move |_| (IntakeWorker { desk: Arc::clone(&desk) }, ()))))
                .num_initial_workers(workers)
                .queue(queues::DefaultQueue::default())
                .router(routing::StickyQueuerRouting::default())
                // The handle admits no more than this; the factory's own limit is the second wall.
                .discard_settings(DiscardSettings::Static { limit: queue_max, mode: DiscardMode::Newest })
                .build();
            async move { Ok(Actor::spawn_linked(None, IntakeFactory::default(), arguments, root).await?.0) }
        };
        ChildSpec::started_by(Role::Factory, &self.handle, start)
            .stopped_by(|factory| drop(ActorRef::<Message>::from(factory.clone()).cast(FactoryMessage::DrainRequests)))
    }
}

/// Handles one event at a time.
struct IntakeWorker {
    desk: Arc<Desk>,
}

impl Worker for IntakeWorker {
    type Key = ChainSlot;
    type Message = Submit;
    type State = ();
    type Arguments = ();

    async fn pre_start(
        &self,
        _worker: WorkerId,
        _factory: &ActorRef<Message>,
        (): (),
    ) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        _worker: WorkerId,
        _factory: &ActorRef<Message>,
        Job { msg, key, .. }: Job<ChainSlot, Submit>,
        (): &mut (),
    ) -> Result<ChainSlot, ActorProcessingErr> {
        domain::failpoint!("intake.worker");
        let Submit { sender, body, opened, reply } = msg;
        reply.send(self.desk.handle(&sender, &body, opened).await);
        Ok(key)
    }
}
