//! An actor that runs the same pass repeatedly: signing, watching, purging.
//!
//! It guards that one pass ends before the next begins, and that a pass which hangs is cut off. A failed pass is counted and retried; it does
//! not crash the actor. The log has one line when passes begin to fail and one when they succeed again; between the two, [`Passes`] gives the
//! time and the reason.
//!
//! **If it crashes:** the next actor runs a pass at once; passes read from the store where they have to continue.

pub(crate) mod passes;

use std::error::Error;
use std::future::Future;
use std::time::Duration;

use ractor::{ActorProcessingErr, ActorRef};
use tracing::Instrument as _;

pub use passes::{FailingPasses, Passes};

use crate::causes::with_causes;
use crate::handle::Handle;
use crate::jitter::Jitter;
use crate::kind::Kind;
use crate::root::ChildSpec;
use crate::settings::ActorSettings;

/// Why a pass failed. Log and tree show it with its causes.
pub type PassError = Box<dyn Error + Send + Sync>;

/// The work of a periodic actor.
pub trait Pass: Clone + Send + Sync + 'static {
    /// State that one pass leaves to the next; lost in a crash.
    type Memory: Default + Send + 'static;

    /// Runs one pass.
    fn run(&self, memory: &mut Self::Memory) -> impl Future<Output = Result<Next, PassError>> + Send;
}

/// When the next pass begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// At once, because this pass did not finish all work.
    AtOnce,
    /// After the pause of the schedule.
    AfterPause,
}

impl Next {
    /// [`AtOnce`](Self::AtOnce) if there is more to do.
    pub fn at_once_if(is_more: bool) -> Self {
        if is_more { Self::AtOnce } else { Self::AfterPause }
    }
}

/// The times of the passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// Pause between the end of a pass and the next, ± 10 %, so that nodes do not run in step.
    pub every: Duration,
    /// A pass that takes longer is cut off.
    pub deadline: Duration,
}

/// Sent by the actor's own timer.
#[derive(Debug)]
pub enum PeriodicMessage {
    /// Run a pass.
    Tick,
}

/// The periodic actor of one pass.
#[derive(Debug, Clone)]
pub struct Periodic<P> {
    pass: P,
    schedule: Schedule,
    jitter: Jitter,
    passes: Passes,
}

impl<P: Pass> Periodic<P> {
    /// An actor of this kind, which gives its name in logs and metrics. `jitter` varies the pauses.
    ///
    /// Metrics are registered here: install the metrics recorder first.
    pub fn new(kind: impl Kind, pass: P, schedule: Schedule, jitter: Jitter) -> Self {
        Self { pass, schedule, jitter, passes: Passes::new(kind) }
    }

    /// The record of its passes, which restarts keep.
    pub fn passes(&self) -> &Passes {
        &self.passes
    }

    /// The address of such an actor.
    pub fn handle(kind: impl Kind, settings: &ActorSettings) -> Handle<PeriodicMessage> {
        Handle::new(kind, settings)
    }

    /// This actor behind `handle`, for the supervisor. The tree shows failing passes.
    pub fn child(self, handle: &Handle<PeriodicMessage>) -> ChildSpec {
        let passes = self.passes.clone();
        ChildSpec::singleton(handle, move || (self.clone(), ())).with_passes(passes)
    }

    /// Runs one pass and records its result. A failed pass is retried after the pause.
    async fn pass(&self, memory: &mut P::Memory) -> Next {
        let run = tokio::time::timeout(self.schedule.deadline, self.pass.run(memory));
        let run = run.instrument(tracing::debug_span!("pass", actor.name = self.passes.name())).await;
        match run.unwrap_or_else(|_| Err(format!("cut off after {:?}", self.schedule.deadline).into())) {
            Ok(next) => {
                self.passes.succeeded();
                next
            }
            Err(error) => {
                self.passes.failed(&with_causes(&*error));
                Next::AfterPause
            }
        }
    }

    fn pause(&self) -> Duration {
        self.schedule.every.mul_f64(0.9 + 0.2 * self.jitter.fraction())
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
