//! An actor that does one thing again and again: sequencing, watching, cleaning up.
//!
//! What it guards: that one pass ends before the next begins, and that a pass which hangs is cut off. A pass that fails is counted and
//! retried instead of crashing the actor. The log has one line when passes begin to fail and one when they succeed again; between
//! the two, [`Passes`] says since when and why.
//!
//! **If it crashes:** it starts afresh with a first pass at once; passes read from the store whatever they go on from.

mod passes;

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::time::Duration;

use domain::Chance;
use ractor::{ActorProcessingErr, ActorRef};

use crate::handle::{Handle, Reply};
use crate::settings::ActorSettings;
pub use passes::{FailingPasses, Passes};

/// Why a pass failed. It is reported with its causes.
pub type PassError = Box<dyn Error + Send + Sync>;

/// What is done.
pub trait Pass: Clone + Send + Sync + 'static {
    /// What one pass carries over to the next; lost in a crash.
    type Memory: Default + Send + 'static;

    /// Does it once. `Ok(true)`: there is more to do right now.
    fn run(&self, memory: &mut Self::Memory) -> impl Future<Output = Result<bool, PassError>> + Send;
}

/// When it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rhythm {
    /// Pause between the end of a pass and the next, ± 10 % so that nodes do not march in step.
    pub every: Duration,
    /// A pass that takes longer is cut off.
    pub deadline: Duration,
}

/// Sent by the actor's own timer, and by whoever wants a pass right now.
pub enum PeriodicMessage {
    /// Time for a pass.
    Tick,
    /// A pass now; answered when it is over, with its error if it failed.
    Now {
        /// How it went.
        reply: Reply<Result<(), String>>,
    },
}

impl fmt::Debug for PeriodicMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tick => "Tick",
            Self::Now { .. } => "Now",
        })
    }
}

/// The actor.
#[derive(Debug, Clone)]
pub struct Periodic<P> {
    pass: P,
    rhythm: Rhythm,
    chance: Chance,
    passes: Passes,
}

impl<P: Pass> Periodic<P> {
    /// `name` is the name in logs and metrics.
    pub fn new(name: &'static str, pass: P, rhythm: Rhythm, chance: Chance) -> Self {
        Self { pass, rhythm, chance, passes: Passes::new(name) }
    }

    /// How its passes go, through every restart.
    pub fn passes(&self) -> &Passes {
        &self.passes
    }

    /// The address of such an actor.
    pub fn handle(kind: &'static str, settings: &ActorSettings) -> Handle<PeriodicMessage> {
        Handle::new(kind, settings)
    }

    async fn pass(&self, memory: &mut P::Memory) -> Result<bool, String> {
        let run = tokio::time::timeout(self.rhythm.deadline, self.pass.run(memory)).await;
        let outcome = run.unwrap_or_else(|_| Err(format!("cut off after {:?}", self.rhythm.deadline).into()));
        outcome.inspect(|_| self.passes.succeeded()).map_err(|error| {
            let error = domain::reasons(&*error);
            self.passes.failed(&error);
            error
        })
    }

    fn pause(&self) -> Duration {
        self.rhythm.every.mul_f64(0.9 + 0.2 * self.chance.fraction())
    }
}

#[ractor::actor(message = PeriodicMessage, state = P::Memory)]
impl<P: Pass> Periodic<P> {
    async fn pre_start(&self, myself: ActorRef<PeriodicMessage>, (): ()) -> Result<P::Memory, ActorProcessingErr> {
        myself.cast(PeriodicMessage::Tick)?;
        Ok(P::Memory::default())
    }

    #[ractor::message(PeriodicMessage::Tick)]
    async fn tick(&self, myself: ActorRef<PeriodicMessage>, memory: &mut P::Memory) -> Result<(), ActorProcessingErr> {
        if self.pass(memory).await.unwrap_or(false) {
            myself.cast(PeriodicMessage::Tick)?;
        } else {
            // The timer's task ends by itself when the actor does.
            drop(myself.send_after(self.pause(), || PeriodicMessage::Tick));
        }
        Ok(())
    }

    #[ractor::message(PeriodicMessage::Now { reply })]
    async fn now(&self, reply: Reply<Result<(), String>>, memory: &mut P::Memory) {
        reply.send(self.pass(memory).await.map(drop));
    }
}
