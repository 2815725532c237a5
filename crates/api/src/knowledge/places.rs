//! Places that accounts share: a limit for all accounts together and one per account, so that no account takes all places.

use std::sync::Arc;

use domain::ids::UserAccountId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::counts::{Counted, Counts};

/// The places. Clones share them.
#[derive(Debug, Clone)]
pub struct Places {
    free: Arc<Semaphore>,
    accounts: Arc<Counts<UserAccountId>>,
}

/// One of the places, until it is dropped.
#[derive(Debug)]
pub struct Permit {
    _counted: Counted<UserAccountId>,
    _permit: OwnedSemaphorePermit,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// The account has reached its maximum.
    Account,
    /// All places are taken.
    All,
}

impl Places {
    /// `all` places, of which one account may have `per_account_max`.
    pub fn new(all: usize, per_account_max: usize) -> Self {
        let free = Arc::new(Semaphore::new(all.min(Semaphore::MAX_PERMITS)));
        Self { free, accounts: Counts::new(per_account_max) }
    }

    /// Takes a place for this account. The account's limit is checked first: an account at its limit learns nothing about other accounts.
    pub fn take(&self, account: &UserAccountId) -> Result<Permit, Full> {
        let counted = self.accounts.take(account.clone()).ok_or(Full::Account)?;
        let permit = Arc::clone(&self.free).try_acquire_owned().map_err(|_| Full::All)?;
        Ok(Permit { _counted: counted, _permit: permit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_has_its_share_and_leaves_the_rest_to_others() {
        let (ada, bob): (UserAccountId, UserAccountId) = ("ada1".parse().unwrap(), "bob1".parse().unwrap());
        let places = Places::new(3, 2);
        let of_ada = [places.take(&ada).unwrap(), places.take(&ada).unwrap()];
        assert_eq!(places.take(&ada).unwrap_err(), Full::Account);
        let of_bob = places.take(&bob).unwrap();
        assert_eq!(places.take(&bob).unwrap_err(), Full::All);
        drop(of_ada);
        assert!(places.take(&bob).is_ok() && places.take(&ada).is_ok());
        drop(of_bob);
        assert!(places.accounts.is_empty());
    }
}
