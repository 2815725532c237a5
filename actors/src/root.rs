//! The root of everything that lives: starts the children, keeps them alive inside a budget, and ends them in good order.
//!
//! 1. Children are started one after the other, from the top of the list to the bottom: each may rely on those above it.
//! 2. A child that dies is started again after its [`RestartPolicy`](crate::RestartPolicy)'s delay; its handle then points to the new
//!    actor. A start that fails or takes too long counts like a death.
//! 3. A child that used up its budget makes the root give up: it drains everything, and the process exits for the service manager
//!    to start it afresh.
//! 4. Draining closes every address to new work, then lets the children finish one after the other, from the bottom to the top, and
//!    kills what is left at the deadline.
//!
//! **If it crashes:** its children die with it, and [`Root::outcome`] answers [`TreeExit::GaveUp`].

mod child;
mod supervisor;
mod tree;

use std::fmt;
use std::time::Duration;

use domain::Rng;
use ractor::{Actor, ActorRef, SpawnErr};
use tokio::sync::{oneshot, watch};

pub(crate) use child::{ActorCounts, Address};

use crate::handle::Unavailable;
pub use child::{ChildSpec, Role};
use supervisor::{RootMessage, Supervisor};
pub use tree::{LastFailure, Node, Status};

/// The root's own limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RootSettings {
    /// A child that is not up after this long has failed to start.
    pub start_deadline: Duration,
    /// How long children may take to finish when the root gives up.
    pub give_up_deadline: Duration,
    /// How long the root waits for killed children before it leaves without them.
    pub kill_grace: Duration,
}

impl Default for RootSettings {
    fn default() -> Self {
        Self {
            start_deadline: Duration::from_secs(30),
            give_up_deadline: Duration::from_secs(10),
            kill_grace: Duration::from_secs(1),
        }
    }
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeExit {
    /// Every child finished what it had.
    Drained,
    /// Some child had to be killed at the deadline.
    DeadlineHit,
    /// [`Root::kill_now`] was called.
    Killed,
    /// A child used up its restarts.
    GaveUp {
        /// The name of that child.
        child: String,
    },
}

/// The living root. Clones are the same root; dropping them ends nothing.
#[derive(Clone)]
pub struct Root {
    supervisor: ActorRef<RootMessage>,
    progress: watch::Receiver<Progress>,
}

/// How far the root is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Progress {
    Rising,
    Up,
    Ended(TreeExit),
}

impl Root {
    /// Begins to start `children` from first to last; [`up`](Self::up) waits for them.
    pub async fn start(settings: RootSettings, rng: Rng, children: Vec<ChildSpec>) -> Result<Self, SpawnErr> {
        let (told, progress) = watch::channel(Progress::Rising);
        let supervisor = Supervisor { settings, rng, progress: told };
        let (supervisor, _task) = Supervisor::spawn(None, supervisor, children).await?;
        Ok(Self { supervisor, progress })
    }

    /// Waits until every child is up, or until the root has ended without that.
    pub async fn up(&self) -> Result<(), TreeExit> {
        match self.reach(|progress| *progress != Progress::Rising).await {
            Progress::Ended(outcome) => Err(outcome),
            Progress::Rising | Progress::Up => Ok(()),
        }
    }

    /// Closes every address to new work, lets the children finish until `deadline`, and then kills them. A root that is ending already
    /// keeps its first deadline.
    pub async fn drain(&self, deadline: Duration) -> TreeExit {
        // Fails only if the root is gone, which has an outcome too.
        let _ = self.supervisor.send_message(RootMessage::Drain(deadline));
        self.outcome().await
    }

    /// Kills every child without waiting for what it does.
    pub fn kill_now(&self) {
        // Fails only if the root is gone.
        let _ = self.supervisor.send_message(RootMessage::KillNow);
    }

    /// Waits until the root has ended, for whatever reason.
    pub async fn outcome(&self) -> TreeExit {
        match self.reach(|progress| matches!(progress, Progress::Ended(_))).await {
            Progress::Ended(outcome) => outcome,
            Progress::Rising | Progress::Up => crashed(),
        }
    }

    /// What lives right now, for the operator.
    pub async fn tree(&self, deadline: Duration) -> Result<Node, Unavailable> {
        let (reply, tree) = oneshot::channel();
        let gone = || Unavailable::NotRunning { retry_after: Duration::from_secs(1) };
        self.supervisor.send_message(RootMessage::Tree(reply)).map_err(|_| gone())?;
        tokio::time::timeout(deadline, tree).await.map_err(|_| Unavailable::TimedOut)?.map_err(|_| gone())
    }

    async fn reach(&self, there: impl FnMut(&Progress) -> bool) -> Progress {
        let mut progress = self.progress.clone();
        let reached = progress.wait_for(there).await;
        reached.map_or_else(|_crashed| Progress::Ended(crashed()), |progress| progress.clone())
    }
}

/// The root itself crashed, and took everything with it.
fn crashed() -> TreeExit {
    TreeExit::GaveUp { child: "root".to_owned() }
}

impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Root")
    }
}
