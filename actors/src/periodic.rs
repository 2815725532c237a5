//! An actor that does one thing again and again: sequencing, watching, cleaning up.
//!
//! What it guards: that one pass ends before the next begins, that a pass which hangs is cut off, and that a failing pass is told
//! once in the log and tried again, instead of taking the actor with it.
//!
//! **If it crashes:** it starts afresh with a first pass at once; passes read from the store whatever they go on from.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use domain::Chance;
use ractor::{ActorProcessingErr, ActorRef};

use crate::handle::{Handle, Reply};
use crate::settings::ActorSettings;

/// What is done.
pub trait Pass: Clone + Send + Sync + 'static {
    /// What one pass carries over to the next; lost in a crash.
    type Memory: Default + Send + 'static;

    /// Does it once. `Ok(true)`: there is more to do right now. An error is logged.
    fn run(&self, memory: &mut Self::Memory) -> impl Future<Output = Result<bool, String>> + Send;
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
    name: &'static str,
    pass: P,
    rhythm: Rhythm,
    chance: Chance,
}

impl<P: Pass> Periodic<P> {
    /// `name` is the name in logs.
    pub fn new(name: &'static str, pass: P, rhythm: Rhythm, chance: Chance) -> Self {
        Self { name, pass, rhythm, chance }
    }

    /// The address of such an actor.
    pub fn handle(kind: &'static str, settings: &ActorSettings) -> Handle<PeriodicMessage> {
        Handle::new(kind, settings)
    }

    async fn pass(&self, memory: &mut P::Memory) -> Result<bool, String> {
        let run = tokio::time::timeout(self.rhythm.deadline, self.pass.run(memory)).await;
        let outcome = run.unwrap_or_else(|_| Err(format!("cut off after {:?}", self.rhythm.deadline)));
        if let Err(error) = &outcome {
            tracing::warn!(actor.name = self.name, error, "a pass failed and will be tried again");
        }
        outcome
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
