//! What every transaction of the writer uses.

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::log::error::{DuringSqlite as _, LogError};

/// A transaction that has the write lock from its beginning, so the rows that it reads do not change until it commits.
pub fn begin(db: &mut Connection) -> Result<Transaction<'_>, LogError> {
    db.transaction_with_behavior(TransactionBehavior::Immediate).during("begin a transaction of the log")
}
