//! Searches on a replica of the database.

use tokio::time::timeout;

use super::AccountStatistics;
use crate::Store;
use crate::error::StoreError;
use crate::memory::MemoryScope;
use crate::pool::Pool;
use crate::replica::Replica;

impl Store {
    /// The store for a search: the replica if its account indexes equal the given ones, otherwise the primary. In both cases an
    /// acknowledged memory is found.
    #[boxed]
    pub async fn for_search(
        &self,
        scope: &MemoryScope,
        account_indexes: &[AccountStatistics],
        account_indexes_max: usize,
    ) -> Self {
        let Some((replica, pool)) = self.current_replica() else { return self.clone() };
        let there = Self { is_replica: true, ..Self::of(pool) };
        match timeout(replica.read_deadline(), there.account_indexes_in(scope, account_indexes_max)).await {
            Ok(Ok(found)) if found == account_indexes => return there,
            // The replica lacks a change.
            Ok(Ok(_)) => {}
            Ok(Err(error)) => replica.failed(&error),
            Err(elapsed) => replica.failed(&elapsed),
        }
        self.clone()
    }

    /// Records that a search on the store from [`Self::for_search`] failed.
    pub fn search_failed(&self, error: &StoreError) {
        if let Some(replica) = self.replica_of_memory() {
            replica.failed(error);
        }
    }

    /// Whether this store is the replica.
    pub fn is_replica(&self) -> bool {
        self.is_replica
    }

    fn current_replica(&self) -> Option<(&Replica, Pool)> {
        let replica = self.replica_of_memory()?;
        replica.current(self.memory_pool().ok()?).map(|pool| (replica, pool))
    }
}
