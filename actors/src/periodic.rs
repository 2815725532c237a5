//! An actor that does one thing again and again: sequencing, watching, cleaning up.
//!
//! What it guards: that one pass ends before the next begins, and that a pass which hangs is cut off. A pass that fails is counted and
//! retried instead of crashing the actor. The log has one line when passes begin to fail and one when they succeed again; between
//! the two, [`Passes`] says since when and why.
//!
//! **If it crashes:** it starts afresh with a first pass at once; passes read from the store whatever they go on from.

mod passes;

use std::error::Error;
use std::future::Future;
use std::time::Duration;

use domain::Rng;
use ractor::{ActorProcessingErr, ActorRef};

use crate::handle::Handle;
use crate::settings::ActorSettings;
pub use passes::{FailingPasses, Passes};

/// Why a pass failed. It is reported with its causes.
pub type PassError = Box<dyn Error + Send + Sync>;

/// What is done.
pub trait Pass: Clone + Send + Sync + 'static {
    /// What one pass carries over to the next; lost in a crash.
    type Memory: Default + Send + 'static;

    /// Does it once.
    fn run(&self, memory: &mut Self::Memory) -> impl Future<Output = Result<Next, PassError>> + Send;
}

/// When the next pass begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// At once: this pass left work behind.
    AtOnce,
    /// After the pause.
    AfterPause,
}

impl Next {
    /// At once if there is more to do.
    pub fn at_once_if(is_more: bool) -> Self {
        if is_more { Self::AtOnce } else { Self::AfterPause }
    }
}

/// When it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// Pause between the end of a pass and the next, ± 10 % so that nodes do not march in step.
    pub every: Duration,
    /// A pass that takes longer is cut off.
    pub deadline: Duration,
}

/// Sent by the actor's own timer.
#[derive(Debug)]
pub enum PeriodicMessage {
    /// Time for a pass.
    Tick,
}

/// The actor.
#[derive(Debug, Clone)]
pub struct Periodic<P> {
    pass: P,
    rhythm: Schedule,
    rng: Rng,
    passes: Passes,
}

impl<P: Pass> Periodic<P> {
    /// `name` is the name in logs and metrics.
    pub fn new(name: &'static str, pass: P, rhythm: Schedule, rng: Rng) -> Self {
        Self { pass, rhythm, rng, passes: Passes::new(name) }
    }

    /// How its passes go, through every restart.
    pub fn passes(&self) -> &Passes {
        &self.passes
    }

    /// The address of such an actor.
    pub fn handle(kind: &'static str, settings: &ActorSettings) -> Handle<PeriodicMessage> {
        Handle::new(kind, settings)
    }

    /// One pass, and its place in the record. A pass that failed is retried after the pause.
    async fn pass(&self, memory: &mut P::Memory) -> Next {
        let run = tokio::time::timeout(self.rhythm.deadline, self.pass.run(memory)).await;
        match run.unwrap_or_else(|_| Err(format!("cut off after {:?}", self.rhythm.deadline).into())) {
            Ok(next) => {
                self.passes.succeeded();
                next
            }
            Err(error) => {
                self.passes.failed(&domain::reasons(&*error));
                Next::AfterPause
            }
        }
    }

    fn pause(&self) -> Duration {
        self.rhythm.every.mul_f64(0.9 + 0.2 * self.rng.fraction())
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
        match self.pass(memory).await {
            Next::AtOnce => myself.cast(PeriodicMessage::Tick)?,
            // The timer's task ends by itself when the actor does.
            Next::AfterPause => drop(myself.send_after(self.pause(), || PeriodicMessage::Tick)),
        }
        Ok(())
    }
}
