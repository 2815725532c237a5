//! Places that accounts share: so many in all, and so many of one account among them, so that no account keeps the others out.

use std::sync::Arc;

use dashmap::DashMap;
use domain::ids::UserAccountId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places.
#[derive(Debug, Clone)]
pub struct Places(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    free: Arc<Semaphore>,
    per_account_max: usize,
    /// Places that an account has; one that has none is not in here.
    taken: DashMap<UserAccountId, usize>,
}

/// One of the places; dropping it gives it back.
#[derive(Debug)]
pub struct Place {
    shared: Arc<Shared>,
    account: UserAccountId,
    _permit: OwnedSemaphorePermit,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// The account has as many as one may.
    Account,
    /// All are taken.
    All,
}

impl Places {
    /// None of them taken.
    pub fn new(all: usize, per_account_max: usize) -> Self {
        let free = Arc::new(Semaphore::new(all.min(Semaphore::MAX_PERMITS)));
        Self(Arc::new(Shared { free, per_account_max, taken: DashMap::new() }))
    }

    /// A place for this account. Its own bound comes first: that all places are taken is no news for an account that has some of them.
    pub fn take(&self, account: &UserAccountId) -> Result<Place, Full> {
        let Self(shared) = self;
        let mut taken = shared.taken.entry(account.clone()).or_default();
        let permit = if *taken < shared.per_account_max {
            Arc::clone(&shared.free).try_acquire_owned().map_err(|_| Full::All)
        } else {
            Err(Full::Account)
        };
        if permit.is_ok() {
            *taken += 1;
        }
        drop(taken);
        shared.forget_if_none(account);
        Ok(Place { shared: Arc::clone(shared), account: account.clone(), _permit: permit? })
    }
}

impl Shared {
    fn forget_if_none(&self, account: &UserAccountId) {
        self.taken.remove_if(account, |_, taken| *taken == 0);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(mut taken) = self.shared.taken.get_mut(&self.account) {
            *taken = taken.saturating_sub(1);
        }
        self.shared.forget_if_none(&self.account);
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
        assert!(places.0.taken.is_empty());
    }
}
