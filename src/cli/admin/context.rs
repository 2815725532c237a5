//! The resources of the subcommands.

use app::config::Settings;
use domain::act::OperatorAct;
use domain::ids::UserAccountId;
use domain::{Clock, Rng};
use store::Store;

use super::options::{AccountFilter, AccountSelector};
use crate::cli::acts::Acting;
use crate::cli::failure::Failure;

/// Shared state of the commands.
pub struct AdminContext<'s> {
    pub(super) settings: &'s Settings,
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) rng: Rng,
}

impl AdminContext<'_> {
    /// Prepares the record of an act.
    pub(super) fn acting(&self, act: OperatorAct) -> Acting {
        Acting::new(&self.store, (&self.clock, &self.rng), act)
    }

    /// The id of the selected account. An id from `--account` is not checked; the command reports an unknown account.
    pub(super) async fn account(&self, which: &AccountSelector) -> Result<UserAccountId, Failure> {
        match (&which.account, &which.email) {
            (Some(account), _) => Ok(account.clone()),
            (None, Some(email)) => {
                let row = self.store.account_by_email(email).await.map_err(Failure::caused)?;
                row.ok_or_else(no_account)
            }
            (None, None) => Err(no_account()),
        }
    }

    /// The account that a list is limited to; `None` for all accounts. An unknown account is an error.
    pub(super) async fn filter(&self, filter: AccountFilter) -> Result<Option<UserAccountId>, Failure> {
        let AccountFilter { account, email } = filter;
        if account.is_none() && email.is_none() {
            return Ok(None);
        }
        let account = self.account(&AccountSelector { account, email }).await?;
        match self.store.account_by_id(&account).await.map_err(Failure::caused)? {
            Some(_) => Ok(Some(account)),
            None => Err(no_account()),
        }
    }
}

/// The failure of a command for an account that does not exist.
pub fn no_account() -> Failure {
    Failure::not_found("the account does not exist")
}
