//! What the root is told about each child: its address and how to start it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorRef, Message, SpawnErr};
use serde::Serialize;
use tokio::time::Instant;

use crate::directory::Directory;
use crate::family::Family;
use crate::handle::{Handle, Kind};
use crate::keyed::KeyedActor;
use crate::periodic::{Pass, Passes, Periodic, PeriodicMessage};

/// What a child is to its supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The root itself.
    Root,
    /// One actor.
    Singleton,
    /// A supervisor of one actor per key.
    Family,
}

/// One child of the root.
pub struct ChildSpec {
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) address: Arc<dyn Address>,
    pub(super) start: Start,
    pub(super) stop: Arc<dyn Fn(&ActorCell) + Send + Sync>,
    pub(super) passes: Option<Passes>,
}

pub(super) type Starting = Pin<Box<dyn Future<Output = Result<ActorCell, SpawnErr>> + Send>>;
pub(super) type Start = Arc<dyn Fn(ActorCell) -> Starting + Send + Sync>;

impl ChildSpec {
    /// One actor behind `handle`; `make` gives it and its arguments, for the first start and for every further one.
    pub fn singleton<A: Actor>(
        handle: &Handle<A::Msg>,
        make: impl Fn() -> (A, A::Arguments) + Send + Sync + 'static,
    ) -> Self {
        Self::started_by(Role::Singleton, handle, move |root| {
            let (actor, arguments) = make();
            async move { Ok(A::spawn_linked(None, actor, arguments, root).await?.0) }
        })
    }

    /// An actor that runs passes; the tree shows those that fail.
    pub fn periodic<P: Pass>(handle: &Handle<PeriodicMessage>, periodic: Periodic<P>) -> Self {
        let passes = periodic.passes().clone();
        Self { passes: Some(passes), ..Self::singleton(handle, move || (periodic.clone(), ())) }
    }

    /// The supervisor of the per-key actors in `directory`, each a clone of `prototype`.
    pub fn family<A: KeyedActor>(directory: &Directory<A>, prototype: A) -> Self {
        let shared = Arc::clone(&directory.shared);
        let start = move |root| -> Starting {
            let family = Family { shared: Arc::clone(&shared), prototype: prototype.clone() };
            Box::pin(async move { Ok(Family::spawn_linked(None, family, (), root).await?.0.get_cell()) })
        };
        // Stopped rather than drained: on its way out a family lets its actors finish, and waiting activations are refused.
        Self::new(Role::Family, directory.clone(), start).stopped_by(|family| family.stop(None))
    }

    /// Anything else that takes messages `M`: `start` must link what it starts to the root that it is given.
    pub fn started_by<M: Message, F>(
        role: Role,
        handle: &Handle<M>,
        start: impl Fn(ActorCell) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<ActorRef<M>, SpawnErr>> + Send + 'static,
    {
        let start = move |root| -> Starting {
            let starting = start(root);
            Box::pin(async move { Ok(starting.await?.get_cell()) })
        };
        Self::new(role, handle.clone(), start)
    }

    /// A name of its own, for one of several children of a kind. By default a child is named like its kind.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// How the child is asked to finish what it has and end. By default its mailbox is drained.
    #[must_use]
    pub fn stopped_by(mut self, stop: impl Fn(&ActorCell) + Send + Sync + 'static) -> Self {
        self.stop = Arc::new(stop);
        self
    }

    fn new(role: Role, address: impl Address, start: impl Fn(ActorCell) -> Starting + Send + Sync + 'static) -> Self {
        Self {
            name: address.kind().name.to_owned(),
            role,
            address: Arc::new(address),
            start: Arc::new(start),
            // Fails only if the child is gone already.
            stop: Arc::new(|child| drop(child.drain())),
            passes: None,
        }
    }
}

impl fmt::Debug for ChildSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChildSpec({}, {:?})", self.name, self.role)
    }
}

/// What a supervisor does with the address of its child.
pub(crate) trait Address: Send + Sync + 'static {
    fn kind(&self) -> &Kind;

    /// The child is up.
    fn point_at(&self, actor: ActorCell);

    /// The child is down, and is started again at `until`.
    fn down_until(&self, until: Instant);

    /// No new work from here on.
    fn close(&self) {
        self.kind().close();
    }

    fn census(&self) -> ActorCounts;
}

/// How much lives behind an address.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ActorCounts {
    pub(crate) live: u64,
    pub(crate) queued: u64,
    pub(crate) quarantined: u64,
    /// How long nothing was finished although messages wait; `None` where none waits, and where several actors share the address.
    pub(crate) unmoved_for: Option<Duration>,
}
