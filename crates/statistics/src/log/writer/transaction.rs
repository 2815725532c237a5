//! Shared code of the writer's transactions.

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::log::error::{DuringSqlite as _, LogError};

/// A transaction that takes the write lock at its start, so the rows that it reads do not change until it commits.
pub fn begin(db: &mut Connection) -> Result<Transaction<'_>, LogError> {
    db.transaction_with_behavior(TransactionBehavior::Immediate).during("begin a transaction of the log")
}
