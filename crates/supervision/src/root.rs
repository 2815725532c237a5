//! The root of the supervision tree: starts the children, restarts them within a budget, and drains them in order.
//!
//! 1. Children are started in order: each may rely on the children before it.
//! 2. A child that ends is started again after the delay of its [`RestartPolicy`](crate::RestartPolicy); its address then points to the
//!    new actor. A start that fails or exceeds its deadline counts like a crash.
//! 3. When a child has used up its budget, the root gives up: it drains the tree, and the process exits, so that the service manager
//!    restarts it.
//! 4. Draining closes every address to new messages, lets the children finish one after the other, from last to first, and kills the
//!    remaining ones at the deadline.
//!
//! **If it crashes:** its children end with it, and [`Root::outcome`] returns [`TreeExit::GaveUp`].

mod child;
mod exit;
mod settings;
mod supervisor;
mod tree;

use std::fmt;
use std::time::Duration;

use ractor::{Actor, ActorRef, SpawnErr};
use tokio::sync::{oneshot, watch};

pub use crate::address::BusyKey;
pub use crate::periodic::passes::LastPass;
pub use crate::times::MessageTimes;
pub use child::{ChildSpec, Role};
use exit::Progress;
pub use exit::TreeExit;
pub use settings::RootSettings;
use supervisor::{RootMessage, Supervisor};
pub use tree::{BUSIEST_MAX, Budget, ChildFailure, FAILURES_MAX, Node, NotReplaced, Status};

use crate::jitter::Jitter;
use crate::kind::Kind;
use crate::settings::ActorSettings;
use crate::unavailable::Unavailable;

/// The running root. Clones refer to the same root; dropping them does not end it.
#[derive(Clone)]
pub struct Root {
    supervisor: ActorRef<RootMessage>,
    progress: watch::Receiver<Progress>,
}

impl Root {
    /// Starts `children` in order, without waiting for them; see [`up`](Self::up). `jitter` spreads the restarts.
    pub async fn start(settings: RootSettings, jitter: Jitter, children: Vec<ChildSpec>) -> Result<Self, SpawnErr> {
        let (sender, progress) = watch::channel(Progress::Starting);
        let supervisor = Supervisor { settings, jitter, progress: sender };
        let (supervisor, _task) = Supervisor::spawn(None, supervisor, children).await?;
        Ok(Self { supervisor, progress })
    }

    /// Waits until every child runs, or until the root has ended before that.
    pub async fn up(&self) -> Result<(), TreeExit> {
        match self.reach(|progress| *progress != Progress::Starting).await {
            Progress::Ended(outcome) => Err(outcome),
            Progress::Starting | Progress::Up => Ok(()),
        }
    }

    /// Closes every address to new messages, lets the children finish until `deadline`, and then kills them. A root that is already
    /// ending keeps its first deadline.
    pub async fn drain(&self, deadline: Duration) -> TreeExit {
        // Fails only if the root has ended, and then there is an outcome.
        let _ = self.supervisor.send_message(RootMessage::Drain(deadline));
        self.outcome().await
    }

    /// Kills every child at its next await.
    pub fn kill_now(&self) {
        // Fails only if the root has ended.
        let _ = self.supervisor.send_message(RootMessage::KillNow);
    }

    /// Waits until the root has ended.
    pub async fn outcome(&self) -> TreeExit {
        match self.reach(|progress| matches!(progress, Progress::Ended(_))).await {
            Progress::Ended(outcome) => outcome,
            Progress::Starting | Progress::Up => crashed(),
        }
    }

    /// A snapshot of the tree, for the operator.
    pub async fn tree(&self, deadline: Duration) -> Result<Node, Unavailable> {
        self.ask(RootMessage::Tree, deadline).await
    }

    /// Replaces the settings of the children of `kind` while they run, and returns how many there are. `README.md`, *Changed settings*,
    /// has the effect of each setting.
    pub async fn retune(
        &self,
        kind: impl Kind,
        settings: ActorSettings,
        deadline: Duration,
    ) -> Result<usize, Unavailable> {
        self.ask(|reply| RootMessage::Retune { kind: kind.name(), settings, reply }, deadline).await
    }

    /// Ends the actor of a child, and starts another at once: after its messages, or with `kill` at its next await, which loses them. A
    /// child that waits for its restart is started at once. The restart budget is not touched.
    pub async fn replace(
        &self,
        child: &str,
        kill: bool,
        deadline: Duration,
    ) -> Result<Result<(), NotReplaced>, Unavailable> {
        self.ask(|reply| RootMessage::Replace { child: child.to_owned(), kill, reply }, deadline).await
    }

    async fn ask<T>(
        &self,
        make: impl FnOnce(oneshot::Sender<T>) -> RootMessage,
        deadline: Duration,
    ) -> Result<T, Unavailable> {
        let (reply, answer) = oneshot::channel();
        let gone = || Unavailable::NotRunning { retry_after: Duration::from_secs(1) };
        self.supervisor.send_message(make(reply)).map_err(|_| gone())?;
        tokio::time::timeout(deadline, answer).await.map_err(|_| Unavailable::TimedOut)?.map_err(|_| gone())
    }

    async fn reach(&self, is_reached: impl FnMut(&Progress) -> bool) -> Progress {
        let mut progress = self.progress.clone();
        let reached = progress.wait_for(is_reached).await;
        reached.map_or_else(|_crashed| Progress::Ended(crashed()), |progress| progress.clone())
    }
}

/// The outcome if the root itself crashed, which ended all children.
fn crashed() -> TreeExit {
    TreeExit::GaveUp { child: "root".to_owned() }
}

impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Root")
    }
}
