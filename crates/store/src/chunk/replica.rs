//! Searches on a replica of the database.

use tokio::time::timeout;

use super::AccountStatistics;
use crate::Store;
use crate::error::StoreError;
use crate::memory::MemoryScope;
use crate::notice::NoticeLimits;
use crate::pool::Pool;
use crate::replica::Replica;
use async_recursion::async_recursion as boxed;

impl Store {
    /// The same facts for a search: on the replica, if it has the accounts of the search as the primary has them. A memory that was
    /// acknowledged is found in either case.
    #[boxed]
    pub async fn for_search(
        &self,
        scope: &MemoryScope,
        account_indexes: &[AccountStatistics],
        account_indexes_max: usize,
    ) -> Self {
        let Some((replica, pool)) = self.current_replica() else { return self.clone() };
        let there = Self {
            pool,
            notifies: false,
            notices: NoticeLimits::default(),
            holder: None,
            replica: None,
            is_replica: true,
        };
        match timeout(replica.read_deadline(), there.account_indexes_in(scope, account_indexes_max)).await {
            Ok(Ok(found)) if found == account_indexes => return there,
            // A change is on its way.
            Ok(Ok(_)) => {}
            Ok(Err(error)) => replica.failed(&error),
            Err(elapsed) => replica.failed(&elapsed),
        }
        self.clone()
    }

    /// A search on the store that [`Self::for_search`] gave failed.
    pub fn search_failed(&self, error: &StoreError) {
        if let Some(replica) = &self.replica {
            replica.failed(error);
        }
    }

    /// Whether [`Self::for_search`] gave it, on the replica.
    pub fn is_replica(&self) -> bool {
        self.is_replica
    }

    fn current_replica(&self) -> Option<(&Replica, Pool)> {
        let replica = self.replica.as_ref()?;
        replica.current(&self.pool).map(|pool| (replica, pool))
    }
}
