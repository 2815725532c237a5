//! Puts acts of the operator's commands on record (`docs/decisions/0038-acts-of-operators.md`).

pub mod verified;

use std::error::Error;

use clap::Args;
use domain::act::{ActKind, ActOutcome, ActReason, Door, Operator, OperatorAct};
use domain::{Clock, Rng};
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
    let by = Operator { door: Door::Shell, uid: rustix::process::getuid().as_raw(), sudo_uid };
    OperatorAct::new(kind, by, app::host_name())
}

/// An act whose effect is executed with [`Acting::store`].
pub struct Acting<'c> {
    /// Records the act in the transaction of the effect.
    pub(super) store: Store,
    clock: &'c Clock,
}

impl<'c> Acting<'c> {
    /// Prepares the record of an act.
    pub fn new(store: &Store, (clock, rng): (&'c Clock, &Rng), act: OperatorAct) -> Self {
        Self { store: store.acting(rng.uuid_v7(clock.now()).into(), act), clock }
    }

    /// Returns the outcome of the effect. An effect that was refused or failed is recorded as such.
    pub async fn settle<T, E: Error + 'static>(self, outcome: Result<T, E>) -> Result<T, Failure> {
        let ended = if outcome.is_ok() { ActOutcome::Refused } else { ActOutcome::Failed };
        let settled = self.store.act_settle(ended, self.clock.now()).await;
        let value = outcome.map_err(Failure::caused)?;
        settled.map_err(Failure::caused)?;
        Ok(value)
    }

    /// Records an act without an effect in the main database, before its work or its answer.
    pub async fn record(self, outcome: ActOutcome) -> Done {
        self.store.act_settle(outcome, self.clock.now()).await.map_err(Failure::caused)
    }
}
