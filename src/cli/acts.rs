//! Puts acts of the operator's commands on record (`docs/decisions/0038-acts-of-operators.md`).

pub mod verified;

use app::acts::Acting;
use clap::Args;
use domain::act::{ActAuthor, ActDoor, ActKind, ActOutcome, ActReason, OperatorAct};
use domain::{Clock, Rng};
use store::Store;

use commands::failure::{Done, Failure};

/// Option of commands that are acts.
#[derive(Debug, Clone, Args)]
pub struct Because {
    /// Reason, which the record of this act names
    #[arg(long, value_name = "TEXT")]
    pub(super) reason: Option<ActReason>,
}

/// An act of the user who runs this command.
pub fn by_shell(kind: ActKind) -> OperatorAct {
    let sudo_uid = std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok());
    let by = ActAuthor { uid: Some(rustix::process::getuid().as_raw()), sudo_uid, ..ActAuthor::at(ActDoor::Shell) };
    OperatorAct::new(kind, by, app::host_name())
}

/// An act of a signal to this process.
pub fn by_signal(kind: ActKind) -> OperatorAct {
    OperatorAct::new(kind, ActAuthor::at(ActDoor::Signal), app::host_name())
}

/// Records an act without an effect in the main database.
pub async fn record(store: &Store, act: OperatorAct, outcome: ActOutcome) -> Done {
    let acting = Acting::new(store, (&Clock::system(), &Rng::system()), act);
    acting.record(outcome).await.map_err(Failure::caused)
}
