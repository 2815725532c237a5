//! Event intake: every event is forwarded, held, or answered by the statistics service (`docs/protocol/events.md#intake`).
//!
//! 1. The connection's task parses the body strictly and hashes it. Each event is judged once (`domain::held`): an event of a computer
//!    here, by the facts of its credential; an event of an account when its turn comes, since only the store knows the computer that it
//!    names.
//! 2. An event of a computer that may be forwarded to the embedded log takes one hop, to the actor [`grouped`]: the log checks it against
//!    the head of its chain, commits it with others, and answers after the commit.
//! 3. Every other event goes to the actor `ordered`: events of accounts, events to hold, events of a computer that had one held within the
//!    last minute (`intake/lately.rs`), and all events for an external service. It handles one event of a chain at a time and in order. What it
//!    forwards to the embedded log takes the hop of step 2.
//! 4. An event that may not be forwarded is held: stored durably, then answered 202 with a warning.
//!
//! An event that has reached an actor is finished independently of the request: a client that disconnects at any byte changes nothing.
//!
//! **If handling an event crashes:** its sender gets 424 and sends it again, which is never counted twice. If an actor crashes, the events
//! that it was handling end with it, and the root starts another.

mod contract;
pub mod grouped;
mod hold;
mod lately;
mod ordered;
mod processor;
pub mod tap;
mod turns;

use std::hash::{BuildHasher, RandomState};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::Bytes;
use domain::envelope::{AgentKinds, Sealed};
use domain::live::Live;
use futures_util::FutureExt as _;
use store::held::{HeldEntry, Sender as HeldSender};
use supervision::{ActorSettings, ChildSpec, Handle, Unavailable};

pub use contract::{IntakeOutcome, Sender};
pub use hold::HeldBatch;
pub use lately::HeldLately;
use ordered::{ChainSlot, OrderMessage, OrderedIntake};
pub use processor::{EventProcessor, QUOTA_EXCEEDED};

use crate::infra_error::InfraError;
use crate::kind::ActorKind;
use tap::Taps;

/// The intake of events: checks, quotas, and the handle of the actor `ordered`. The handle of the actor `intake` (`grouped.rs`) is in
/// `Upstream::Embedded`.
#[derive(Debug, Clone)]
pub struct Intake {
    ordered: Handle<OrderMessage>,
    processor: Arc<EventProcessor>,
    slots: RandomState,
    body_bytes_max: Live<usize>,
    agents: Arc<AgentKinds>,
    /// The samples that operators watch.
    pub taps: Taps,
}

impl Intake {
    /// `body_bytes_max`: maximum size of an envelope; `settings`: limits of the ordered path. The actors do not run yet.
    pub fn new(
        processor: EventProcessor,
        body_bytes_max: Live<usize>,
        agents: AgentKinds,
        settings: &ActorSettings,
    ) -> Self {
        Self {
            ordered: Handle::new(ActorKind::Ordered, settings),
            processor: Arc::new(processor),
            slots: RandomState::new(),
            body_bytes_max,
            agents: Arc::new(agents),
            taps: Taps::default(),
        }
    }

    /// Accepts one event. Returns when it is durable, or refused.
    #[boxed]
    pub async fn submit(&self, sender: Sender, body: Bytes) -> Result<IntakeOutcome, Unavailable> {
        let tapped = self.taps.begin(&sender, &body);
        let outcome = self.charged(sender, body).await;
        if let Some(event) = tapped {
            let now = self.processor.clock.now();
            self.taps.end(&event, outcome.as_ref(), now, (**self.body_bytes_max.get(), &self.agents));
        }
        outcome
    }

    /// Accepts one event and charges it to the quota of its sender.
    async fn charged(&self, sender: Sender, body: Bytes) -> Result<IntakeOutcome, Unavailable> {
        if let Err(paused) = self.processor.check_pauses(&sender, None) {
            return Ok(IntakeOutcome::Paused(paused).counted());
        }
        let payer = sender.payer();
        // A sender that disconnects after this point is charged too: its event may be recorded.
        let (then, bytes) = (self.processor.clock.now(), body.len());
        if let Some(refusal) = self.processor.charge(&payer, bytes, then).await {
            return Ok(refusal);
        }
        let outcome = self.pass(sender, body).await;
        if outcome.as_ref().is_ok_and(IntakeOutcome::returns_quota) {
            self.processor.budgets.give_back(&payer, bytes, then);
        }
        outcome
    }

    /// Accepts one event without charging it to a quota.
    async fn pass(&self, sender: Sender, body: Bytes) -> Result<IntakeOutcome, Unavailable> {
        // A panic over one event ends only its request.
        let grouped = AssertUnwindSafe(async {
            let opened = Sealed::open(&body, **self.body_bytes_max.get(), &self.agents);
            let lane = opened.as_ref().ok().map(|sealed| sealed.envelope.lane);
            if let Err(paused) = self.processor.check_pauses(&sender, lane) {
                return Ok(IntakeOutcome::Paused(paused).counted());
            }
            self.processor.grouped(self.processor.received(sender, body, opened)).await
        });
        let event = match grouped.catch_unwind().await.map_err(|_panic| Unavailable::Crashed)? {
            Ok(outcome) => return Ok(outcome),
            Err(event) => event,
        };
        let slot = ChainSlot(match &event.opened {
            Ok(sealed) => self.slots.hash_one(sealed.envelope.chain_key()),
            Err(_) => self.slots.hash_one(&event.body),
        });
        let deadline = self.ordered.ask_deadline();
        self.ordered.ask(|reply| OrderMessage::submit(slot, event, reply), deadline).await
    }

    /// Submits a held event again with the authority of its sender, and settles the entry when it is forwarded.
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

    /// The actor of the ordered path, for the supervisor. `workers`: how many events are handled at once.
    pub fn ordered(&self, workers: usize) -> ChildSpec {
        OrderedIntake::new(Arc::clone(&self.processor), workers).spec(&self.ordered)
    }
}
