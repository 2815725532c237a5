//! An actor that runs the same pass repeatedly: signing, watching, purging.
//!
//! An actor with idle passes may rest ([`Rest`]): its passes are then rarer until a [`Waker`] announces work.
//!
//! Passes do not overlap, and a hanging pass is cut off at its deadline. A failed pass is counted and retried; it does not crash the actor.
//! The log has one line for the first failed pass and one for the next successful one; between the two, [`Passes`] gives the time and the
//! reason.
//!
//! **If it crashes:** the next actor runs a pass at once; passes read their position from the store.

pub(crate) mod passes;

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use ractor::{ActorProcessingErr, ActorRef};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::Instrument as _;

pub use passes::{FailingPasses, Passes};

use crate::causes::with_causes;
use crate::handle::Handle;
use crate::jitter::Jitter;
use crate::kind::Kind;
use crate::root::ChildSpec;
use crate::settings::ActorSettings;

/// Why a pass failed. The log and the tree show it with its causes.
pub type PassError = Box<dyn Error + Send + Sync>;

/// The work of a periodic actor.
pub trait Pass: Clone + Send + Sync + 'static {
    /// State passed from one pass to the next; lost in a crash.
    type Memory: Default + Send + 'static;

    /// Runs one pass.
    fn run(&self, memory: &mut Self::Memory) -> impl Future<Output = Result<Next, PassError>> + Send;
}

/// When the next pass starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Next {
    /// At once, because this pass did not finish all work.
    AtOnce,
    /// After the pause of the schedule.
    AfterPause,
    /// The pass found no work: after the pause of the schedule, or after the pause of [`Rest`] if the actor may rest.
    Idle,
}

impl Next {
    /// [`AtOnce`](Self::AtOnce) if there is more to do.
    pub fn at_once_if(is_more: bool) -> Self {
        if is_more { Self::AtOnce } else { Self::AfterPause }
    }

    /// The sooner one of two.
    #[must_use]
    pub fn sooner(self, other: Self) -> Self {
        self.min(other)
    }
}

/// The times of the passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// Pause between the end of a pass and the next, ± 10 %, so that nodes do not run in step. The first pass runs at once after each start
    /// and restart, and a failed pass is retried after the same pause. For work at a time of day choose a short pause, and let the store
    /// record whether the day is done.
    pub every: Duration,
    /// Timeout of a pass.
    pub deadline: Duration,
}

/// The schedule of a periodic actor, which may be replaced while the actor runs. Clones share it.
#[derive(Debug, Clone)]
pub struct LiveSchedule(Arc<ArcSwap<Schedule>>);

impl LiveSchedule {
    /// A schedule that is in force until it is replaced.
    pub fn new(schedule: Schedule) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(schedule)))
    }

    /// Replaces the schedule: from the next pass on. A pause that has begun keeps its length.
    pub fn set(&self, schedule: Schedule) {
        self.0.store(Arc::new(schedule));
    }

    fn get(&self) -> Schedule {
        **self.0.load()
    }
}

impl From<Schedule> for LiveSchedule {
    fn from(schedule: Schedule) -> Self {
        Self::new(schedule)
    }
}

/// How an actor rests while its passes find no work.
#[derive(Debug, Clone)]
pub struct Rest {
    /// Time without work and without a wake after which it rests.
    pub after: Duration,
    /// Pause between passes while it rests, ± 10 %: the bound for work that is not announced.
    pub every: Duration,
    /// Ends the rest.
    pub waker: Waker,
}

/// Wakes a resting periodic actor: its next pass starts at once, but no sooner after the last one than the pause of the schedule. A wake
/// during a pass causes another pass. Clones wake the same actor.
#[derive(Debug, Clone, Default)]
pub struct Waker(Arc<Notify>);

impl Waker {
    /// Announces work.
    pub fn wake(&self) {
        self.0.notify_one();
    }
}

/// Sent by the actor's own timer.
#[derive(Debug)]
pub enum PeriodicMessage {
    /// Run a pass.
    Tick,
    /// Run a pass: work was announced.
    Woken,
}

/// The periodic actor of one pass.
#[derive(Debug, Clone)]
pub struct Periodic<P> {
    pass: P,
    schedule: LiveSchedule,
    rest: Option<Rest>,
    jitter: Jitter,
    passes: Passes,
}

/// The state that an actor keeps from one pass to the next.
#[derive(Debug)]
pub struct PeriodicState<M> {
    memory: M,
    /// Time of the last work or wake.
    active_at: Instant,
    /// The timer of a rest, aborted with the actor: otherwise it would take a wake from the next one.
    timer: Option<AbortOnDrop>,
}

#[derive(Debug)]
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<P: Pass> Periodic<P> {
    /// An actor of this kind; the kind's name appears in logs and metrics. `jitter` varies the pauses.
    ///
    /// Metrics are registered here: install the metrics recorder first.
    pub fn new(kind: impl Kind, pass: P, schedule: impl Into<LiveSchedule>, jitter: Jitter) -> Self {
        Self { pass, schedule: schedule.into(), rest: None, jitter, passes: Passes::new(kind) }
    }

    /// Lets the actor rest while its passes return [`Next::Idle`].
    #[must_use]
    pub fn resting(mut self, rest: Option<Rest>) -> Self {
        self.rest = rest;
        self
    }

    /// The record of the passes; it survives restarts.
    pub fn passes(&self) -> &Passes {
        &self.passes
    }

    /// The address of a periodic actor.
    pub fn handle(kind: impl Kind, settings: &ActorSettings) -> Handle<PeriodicMessage> {
        Handle::new(kind, settings)
    }

    /// This actor behind `handle`, for the supervisor. The tree shows failing passes.
    pub fn child(self, handle: &Handle<PeriodicMessage>) -> ChildSpec {
        let passes = self.passes.clone();
        ChildSpec::singleton(handle, move || (self.clone(), ())).with_passes(passes)
    }

    /// Runs one pass and records its result. A failed pass is retried after the pause.
    async fn pass(&self, memory: &mut P::Memory, deadline: Duration) -> Next {
        let run: Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(self.pass.run(memory));
        let run = tokio::time::timeout(deadline, run);
        let start = Instant::now();
        let run = run.instrument(tracing::debug_span!("pass", actor.name = self.passes.name())).await;
        self.passes.ended(start.elapsed());
        match run.unwrap_or_else(|_| Err(format!("cut off after {deadline:?}").into())) {
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

    fn varied(&self, pause: Duration) -> Duration {
        pause.mul_f64(0.9 + 0.2 * self.jitter.fraction())
    }

    async fn step(
        &self,
        myself: &ActorRef<PeriodicMessage>,
        state: &mut PeriodicState<P::Memory>,
    ) -> Result<(), ActorProcessingErr> {
        drop(state.timer.take());
        let Schedule { every, deadline } = self.schedule.get();
        let pause = self.varied(every);
        match (self.pass(&mut state.memory, deadline).await, &self.rest) {
            (Next::AtOnce, _) => {
                state.active_at = Instant::now();
                myself.cast(PeriodicMessage::Tick)?;
            }
            (Next::Idle, Some(rest)) if state.active_at.elapsed() >= rest.after => {
                let (least, most) = (Instant::now() + pause, self.varied(rest.every));
                self.passes.next_after(most);
                let (waker, myself) = (rest.waker.clone(), myself.clone());
                state.timer = Some(AbortOnDrop(tokio::spawn(async move {
                    let message = tokio::select! {
                        () = tokio::time::sleep(most) => PeriodicMessage::Tick,
                        () = waker.0.notified() => {
                            tokio::time::sleep_until(least).await;
                            PeriodicMessage::Woken
                        }
                    };
                    // Fails only if the actor has ended.
                    let _ = myself.cast(message);
                })));
            }
            (next, _) => {
                if next == Next::AfterPause {
                    state.active_at = Instant::now();
                }
                self.passes.next_after(pause);
                // The timer's task ends with the actor.
                drop(myself.send_after(pause, || PeriodicMessage::Tick));
            }
        }
        Ok(())
    }
}

#[ractor::actor(message = PeriodicMessage, state = PeriodicState<P::Memory>)]
impl<P: Pass> Periodic<P> {
    async fn pre_start(
        &self,
        myself: ActorRef<PeriodicMessage>,
        (): (),
    ) -> Result<PeriodicState<P::Memory>, ActorProcessingErr> {
        myself.cast(PeriodicMessage::Tick)?;
        Ok(PeriodicState { memory: P::Memory::default(), active_at: Instant::now(), timer: None })
    }

    #[ractor::message(PeriodicMessage::Tick)]
    async fn tick(
        &self,
        myself: ActorRef<PeriodicMessage>,
        state: &mut PeriodicState<P::Memory>,
    ) -> Result<(), ActorProcessingErr> {
        self.step(&myself, state).await
    }

    #[ractor::message(PeriodicMessage::Woken)]
    async fn woken(
        &self,
        myself: ActorRef<PeriodicMessage>,
        state: &mut PeriodicState<P::Memory>,
    ) -> Result<(), ActorProcessingErr> {
        state.active_at = Instant::now();
        self.step(&myself, state).await
    }
}
