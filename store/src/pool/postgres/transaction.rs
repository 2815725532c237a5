//! A transaction on PostgreSQL.

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnection, PgPool, PgTransactionManager, Postgres};
use sqlx_core::transaction::TransactionManager;

/// A transaction on a connection of the pool. Dropping it rolls it back.
#[derive(Debug)]
pub struct PgTransaction {
    /// Absent after [`Self::close`].
    connection: Option<PoolConnection<Postgres>>,
    /// `BEGIN` was sent, and neither `COMMIT` nor `ROLLBACK` has succeeded.
    is_open: bool,
}

impl PgTransaction {
    /// `BEGIN`, on a connection of the pool.
    pub(in crate::pool) async fn begin(pool: &PgPool) -> Result<Self, sqlx::Error> {
        let connection = pool.acquire().await?;
        // Open before `BEGIN` is sent: if this future is dropped meanwhile, the transaction may have begun.
        let mut transaction = Self { connection: Some(connection), is_open: true };
        match PgTransactionManager::begin(transaction.connection()?, None).await {
            Ok(()) => Ok(transaction),
            Err(error) => {
                transaction.close();
                Err(error)
            }
        }
    }

    /// The connection, within the transaction.
    pub(in crate::pool) fn connection(&mut self) -> Result<&mut PgConnection, sqlx::Error> {
        self.connection.as_deref_mut().ok_or(sqlx::Error::WorkerCrashed)
    }

    /// Commits an outcome that is good and rolls every other back. The error of a failed rollback would hide the reason for it; the connection
    /// is closed then, which rolls back as well.
    pub(in crate::pool) async fn settle<T>(
        mut self,
        outcome: Result<T, sqlx::Error>,
        good: impl FnOnce(&T) -> bool,
    ) -> Result<T, sqlx::Error> {
        let keep = outcome.as_ref().is_ok_and(good);
        let connection = self.connection()?;
        let ended = if keep {
            PgTransactionManager::commit(connection).await
        } else {
            PgTransactionManager::rollback(connection).await
        };
        match ended {
            Ok(()) => {
                self.is_open = false;
                outcome
            }
            Err(error) => {
                self.close();
                if keep {
                    return Err(error);
                }
                tracing::debug!(%error, "a transaction could not be rolled back");
                outcome
            }
        }
    }

    /// Closes a connection whose `BEGIN`, `COMMIT` or `ROLLBACK` failed. No message of termination is sent: a server that is gone would never
    /// receive it.
    fn close(&mut self) {
        drop(self.connection.take().map(PoolConnection::detach));
    }
}

impl Drop for PgTransaction {
    fn drop(&mut self) {
        if self.is_open
            && let Some(connection) = &mut self.connection
        {
            PgTransactionManager::start_rollback(connection);
        }
    }
}
