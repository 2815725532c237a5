//! The specification of a child: its address, how it is started, how it is stopped.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use ractor::{Actor, ActorCell, ActorRef, Message, SpawnErr};
use serde::{Deserialize, Serialize};

use crate::address::Address;
use crate::handle::Handle;
use crate::periodic::passes::Passes;

/// The form of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The root itself.
    Root,
    /// One actor.
    Singleton,
    /// A supervisor with one actor for each key.
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
    /// One actor behind `handle`. `make` returns the actor and its arguments, for the first start and for every restart.
    pub fn singleton<A: Actor>(
        handle: &Handle<A::Msg>,
        make: impl Fn() -> (A, A::Arguments) + Send + Sync + 'static,
    ) -> Self {
        Self::started_by(Role::Singleton, handle, move |root| {
            let (actor, arguments) = make();
            async move { Ok(A::spawn_linked(None, actor, arguments, root).await?.0) }
        })
    }

    /// Any other child that accepts messages `M`. `start` must link the actor to the root that it receives.
    pub fn started_by<M: Message, F>(
        role: Role,
        handle: &Handle<M>,
        start: impl Fn(ActorCell) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<ActorRef<M>, SpawnErr>> + Send + 'static,
    {
        Self::new(role, handle.clone(), move |root| {
            let starting = start(root);
            async move { Ok(starting.await?.get_cell()) }
        })
    }

    /// The supervisor of keyed actors, behind their common address.
    pub(crate) fn family<F>(address: impl Address, start: impl Fn(ActorCell) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<ActorCell, SpawnErr>> + Send + 'static,
    {
        Self::new(Role::Family, address, start)
    }

    /// Sets the name, for kinds with several children. By default a child has the name of its kind.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets how the child is asked to finish its messages and end. By default its mailbox is drained.
    #[must_use]
    pub fn stopped_by(mut self, stop: impl Fn(&ActorCell) + Send + Sync + 'static) -> Self {
        self.stop = Arc::new(stop);
        self
    }

    /// Shows the failing passes of this record in the tree.
    #[must_use]
    pub(crate) fn with_passes(mut self, passes: Passes) -> Self {
        self.passes = Some(passes);
        self
    }

    fn new<F>(role: Role, address: impl Address, start: impl Fn(ActorCell) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<ActorCell, SpawnErr>> + Send + 'static,
    {
        Self {
            name: address.kind().name.to_owned(),
            role,
            address: Arc::new(address),
            start: Arc::new(move |root| -> Starting { Box::pin(start(root)) }),
            // Fails only if the child has ended already.
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
