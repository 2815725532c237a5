//! Places that accounts share: a limit for all accounts together and one per account, so that no account takes all places.

use std::sync::Arc;

use domain::ids::UserAccountId;
use domain::live::Live;

use crate::counts::{Counted, Counts};
use crate::gate::Gate;

/// The places. Clones share them.
#[derive(Debug, Clone)]
pub struct Places {
    all: Arc<Gate>,
    accounts: Arc<Counts<UserAccountId>>,
}

/// One of the places, until it is dropped.
#[derive(Debug)]
pub struct Permit {
    _counted: Counted<UserAccountId>,
    all: Arc<Gate>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.all.leave();
    }
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
    pub fn new(all: impl Into<Live<usize>>, per_account_max: impl Into<Live<usize>>) -> Self {
        Self { all: Arc::new(Gate::new(all)), accounts: Counts::new(per_account_max) }
    }

    /// Takes a place for this account. The account's limit is checked first: an account at its limit learns nothing about other accounts.
    pub fn take(&self, account: &UserAccountId) -> Result<Permit, Full> {
        let counted = self.accounts.take(account.clone()).ok_or(Full::Account)?;
        if !self.all.enter() {
            return Err(Full::All);
        }
        Ok(Permit { _counted: counted, all: Arc::clone(&self.all) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_has_its_share_and_leaves_the_rest_to_others() {
        let (ada, bob): (UserAccountId, UserAccountId) = ("ada1".parse().unwrap(), "bob1".parse().unwrap());
        let (all, per_account_max) = (Live::new(3), Live::new(2));
        let places = Places::new(all.clone(), per_account_max.clone());
        let of_ada = [places.take(&ada).unwrap(), places.take(&ada).unwrap()];
        assert_eq!(places.take(&ada).unwrap_err(), Full::Account);
        let of_bob = places.take(&bob).unwrap();
        assert_eq!(places.take(&bob).unwrap_err(), Full::All);
        drop(of_ada);
        assert!(places.take(&bob).is_ok() && places.take(&ada).is_ok());
        drop(of_bob);
        per_account_max.set(3);
        let of_ada = [places.take(&ada).unwrap(), places.take(&ada).unwrap(), places.take(&ada).unwrap()];
        all.set(2);
        assert_eq!(places.take(&bob).unwrap_err(), Full::All);
        all.set(4);
        drop((places.take(&bob).unwrap(), of_ada));
        assert!(places.accounts.is_empty());
    }
}
