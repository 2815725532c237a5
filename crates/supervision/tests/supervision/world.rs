//! One world for each test: it counts the test's actors, and fails the test if one is left at its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use domain::Rng;
use ractor::{ActorProcessingErr, ActorRef};
use supervision::{
    ActorSettings, ChildSpec, Handle, Jitter, Kind, Reply, RestartSettings, Root, RootSettings, TreeExit,
};

/// Exceeds every wait of these tests.
pub const TIME_LIMIT: Duration = Duration::from_hours(1);

/// A kind of actor named by the test.
#[derive(Debug, Clone, Copy)]
pub struct TestKind(pub &'static str);

impl Kind for TestKind {
    const METRICS_PREFIX: &'static str = "attache";

    fn name(self) -> &'static str {
        self.0
    }
}

/// The same jitter in every run.
pub fn jitter() -> Jitter {
    let rng = Rng::seeded(1);
    Jitter::new(move || rng.fraction())
}

/// Owned by the test for its duration.
#[derive(Default)]
pub struct World {
    census: Census,
    counted: bool,
}

/// Number of live actors.
#[derive(Clone, Default)]
pub struct Census(Arc<AtomicUsize>);

/// Counts one live actor.
pub struct Alive(Census);

impl World {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn census(&self) -> Census {
        self.census.clone()
    }

    pub fn alive(&self) -> usize {
        self.census.0.load(Ordering::SeqCst)
    }

    /// Starts a root over these children and waits until they run.
    pub async fn root(&self, children: Vec<ChildSpec>) -> Root {
        let root = Root::start(RootSettings::default(), jitter(), children).await.unwrap();
        root.up().await.unwrap();
        root
    }

    /// Drains the root and checks that no actor is left.
    pub async fn end(self, root: Root) {
        assert_eq!(root.drain(Duration::from_secs(10)).await, TreeExit::Drained);
        self.deserted().await;
    }

    /// Checks that no actor is left.
    pub async fn deserted(mut self) {
        eventually("every actor has ended", || self.alive() == 0).await;
        self.counted = true;
    }
}

impl Census {
    pub fn born(&self) -> Alive {
        self.0.fetch_add(1, Ordering::SeqCst);
        Alive(self.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let counted = self.counted || std::thread::panicking();
        assert!(counted, "the test did not look whether an actor was left running");
    }
}

/// Waits for a condition, up to 10 s.
pub async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), waiting).await.unwrap_or_else(|_| panic!("not in time: {what}"));
}

pub fn settings() -> ActorSettings {
    ActorSettings {
        restart: RestartSettings { restarts_max: 3, jitter: 0.0, ..RestartSettings::default() },
        ..ActorSettings::default()
    }
}

/// An actor that follows every instruction, including to crash or to hang.
#[derive(Clone)]
pub struct Probe {
    census: Census,
    /// How often it was started.
    pub starts: Arc<AtomicUsize>,
    /// It fails to start while this is set.
    pub sick: Arc<AtomicBool>,
    /// It takes this long to end.
    pub slow_end: Duration,
}

pub enum Do {
    /// Returns the number of its start, from 1.
    Count(Reply<usize>),
    /// Replies after this long.
    Work(Duration, Reply<()>),
    Panic(Reply<()>),
    Fail(Reply<()>),
    /// Never finishes.
    Hang(Reply<()>),
    Stop(Reply<()>),
    Keep(Reply<()>),
}

impl Probe {
    pub fn new(world: &World) -> Self {
        Self { census: world.census(), starts: Arc::default(), sick: Arc::default(), slow_end: Duration::ZERO }
    }

    pub fn child(&self, handle: &Handle<Do>) -> ChildSpec {
        let probe = self.clone();
        ChildSpec::singleton(handle, move || (probe.clone(), ()))
    }

    pub fn starts(&self) -> usize {
        self.starts.load(Ordering::SeqCst)
    }
}

pub struct ProbeState {
    incarnation: usize,
    kept: Vec<Reply<()>>,
    _alive: Alive,
}

#[ractor::actor(message = Do, state = ProbeState)]
impl Probe {
    async fn pre_start(&self, _myself: ActorRef<Do>, (): ()) -> Result<ProbeState, ActorProcessingErr> {
        let incarnation = self.starts.fetch_add(1, Ordering::SeqCst) + 1;
        if self.sick.load(Ordering::SeqCst) {
            return Err("too sick to start".into());
        }
        Ok(ProbeState { incarnation, kept: Vec::new(), _alive: self.census.born() })
    }

    #[ractor::rpc(Do::Count)]
    fn count(&self, state: &ProbeState) -> usize {
        state.incarnation
    }

    #[ractor::message(Do::Work(time, reply))]
    async fn work(&self, time: Duration, reply: Reply<()>) {
        tokio::time::sleep(time).await;
        reply.send(());
    }

    #[ractor::message(Do::Panic(reply))]
    fn panic(&self, reply: Reply<()>) {
        panic!("told to panic, with {reply:?} in its hands");
    }

    #[ractor::message(Do::Fail(reply))]
    fn fail(&self, reply: Reply<()>) -> Result<(), ActorProcessingErr> {
        drop(reply);
        Err("told to fail".into())
    }

    #[ractor::message(Do::Hang(reply))]
    async fn hang(&self, reply: Reply<()>) {
        std::future::pending::<()>().await;
        reply.send(());
    }

    #[ractor::message(Do::Stop(reply))]
    fn stop(&self, myself: ActorRef<Do>, reply: Reply<()>) {
        drop(reply);
        myself.stop(None);
    }

    #[ractor::message(Do::Keep(reply))]
    fn keep(&self, reply: Reply<()>, state: &mut ProbeState) {
        state.kept.push(reply.park());
    }

    async fn post_stop(&self, _myself: ActorRef<Do>, _state: &mut ProbeState) -> Result<(), ActorProcessingErr> {
        tokio::time::sleep(self.slow_end).await;
        Ok(())
    }
}
