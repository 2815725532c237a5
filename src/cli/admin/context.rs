//! The resources of the subcommands.

use app::acts::Acting;
use app::config::Settings;
use domain::act::OperatorAct;
use domain::ids::UserAccountId;
use domain::{Clock, Rng};
use store::Store;

use super::options::{AccountFilter, AccountSelector};
use crate::cli::main_database::open_store;
use commands::failure::Failure;

/// Shared state of the commands.
pub struct AdminContext<'s> {
    pub(in crate::cli) settings: &'s Settings,
    pub(in crate::cli) store: Store,
    pub(in crate::cli) clock: Clock,
    pub(in crate::cli) rng: Rng,
}

impl<'s> AdminContext<'s> {
    /// Opens the main database. Times are written by its clock, as the servers do.
    pub async fn open(settings: &'s Settings) -> Result<Self, Failure> {
        let context = Self { settings, store: open_store(settings).await?, clock: Clock::system(), rng: Rng::system() };
        context.store.clock_follow(&context.clock).await.map_err(Failure::caused)?;
        Ok(context)
    }

    /// Prepares the record of an act.
    pub(in crate::cli) fn acting(&self, act: OperatorAct) -> Acting {
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
