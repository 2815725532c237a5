//! A transaction on PostgreSQL.

use futures_util::future::BoxFuture;
use sqlx::Error;
use sqlx::postgres::PgTransactionManager;
use sqlx_core::transaction::TransactionManager;

use super::connection::PostgresConnection;
use super::connections::{Access, PostgresPool};

/// A transaction on a connection of the pool. Dropping it closes the connection, which rolls it back.
#[derive(Debug)]
pub struct PgTransaction {
    connection: PostgresConnection,
    /// Whether `BEGIN` was sent and neither `COMMIT` nor `ROLLBACK` has succeeded.
    is_open: bool,
}

impl PgTransaction {
    /// Sends `BEGIN` on a connection of the pool.
    #[boxed]
    pub(in crate::pool) async fn begin(pool: &PostgresPool) -> Result<Self, Error> {
        // Set before `BEGIN` is sent: if this future is dropped while it waits, the transaction may have started.
        let mut transaction = Self { connection: pool.acquire(Access::Write).await?, is_open: true };
        let (connection, watch) = transaction.connection.statement()?;
        watch.over(PgTransactionManager::begin(connection, None)).await?;
        Ok(transaction)
    }

    /// The connection, within the transaction.
    pub(in crate::pool) fn connection(&mut self) -> &mut PostgresConnection {
        &mut self.connection
    }

    /// Commits if `outcome` is `Ok` and `good`, and otherwise rolls back. If the rollback fails, the connection is closed, which also rolls
    /// back, and the original error is returned.
    pub(in crate::pool) async fn settle<T>(
        self,
        outcome: Result<T, Error>,
        good: impl FnOnce(&T) -> bool,
    ) -> Result<T, Error> {
        let keep = outcome.as_ref().is_ok_and(good);
        let ended: BoxFuture<'_, Result<(), Error>> = Box::pin(self.end(keep));
        match ended.await {
            Err(error) if keep => Err(error),
            Err(error) => {
                tracing::debug!(error = domain::reasons(&error), "a transaction could not be rolled back");
                outcome
            }
            Ok(()) => outcome,
        }
    }

    async fn end(mut self, keep: bool) -> Result<(), Error> {
        let (connection, watch) = self.connection.statement()?;
        if keep {
            watch.over(PgTransactionManager::commit(connection)).await?;
        } else {
            watch.over(PgTransactionManager::rollback(connection)).await?;
        }
        self.is_open = false;
        Ok(())
    }
}

/// Closes a connection after a failed or unanswered `BEGIN`, `COMMIT` or `ROLLBACK`.
impl Drop for PgTransaction {
    fn drop(&mut self) {
        if self.is_open {
            self.connection.spend();
        }
    }
}
