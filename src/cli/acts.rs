//! Puts acts of the operator's commands on record (`docs/decisions/0038-acts-of-operators.md`).

pub mod verified;

use std::error::Error;

use clap::Args;
use domain::act::{ActAuthor, ActDoor, ActKind, ActOutcome, ActReason, OperatorAct};
use domain::{Clock, Rng, Timestamp};
use store::Store;

use super::failure::{Done, Failure};

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
    let by = ActAuthor { door: ActDoor::Shell, uid: Some(rustix::process::getuid().as_raw()), sudo_uid };
    OperatorAct::new(kind, by, app::host_name())
}

/// An act of a signal to this process.
pub fn by_signal(kind: ActKind) -> OperatorAct {
    OperatorAct::new(kind, ActAuthor { door: ActDoor::Signal, uid: None, sudo_uid: None }, app::host_name())
}

/// An act with an effect that [`Acting::store`] executes.
pub struct Acting {
    /// Records the act in the transaction of the effect.
    pub(super) store: Store,
    /// Who acts, in words.
    pub(super) author: String,
    at: Timestamp,
}

impl Acting {
    /// Prepares the record of an act that is done now.
    pub fn new(store: &Store, (clock, rng): (&Clock, &Rng), act: OperatorAct) -> Self {
        let (author, at) = (act.by.to_string(), clock.now());
        Self { store: store.acting(rng.uuid_v7(at).into(), act), author, at }
    }

    /// Returns the outcome of the effect. An effect that was refused or failed is recorded as such.
    pub async fn settle<T, E: Error + 'static>(self, outcome: Result<T, E>) -> Result<T, Failure> {
        // A further write could fail, and the answer of the command be lost, for example a secret.
        if outcome.is_ok() && self.store.act_is_written() {
            return outcome.map_err(Failure::caused);
        }
        let ended = if outcome.is_ok() { ActOutcome::Refused } else { ActOutcome::Failed };
        let settled = self.store.act_settle(ended, self.at).await;
        let value = outcome.map_err(Failure::caused)?;
        settled.map_err(Failure::caused)?;
        Ok(value)
    }

    /// Records an act without an effect in the main database, before its work or its answer. It may be repeated after a failure.
    pub async fn record(&self, outcome: ActOutcome) -> Done {
        self.store.act_settle(outcome, self.at).await.map_err(Failure::caused)
    }
}
