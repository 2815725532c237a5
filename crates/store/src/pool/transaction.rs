//! Transactions on either database.

use sqlx::Error;

use super::Pool;
use super::postgres::PostgresConnection;
use super::postgres::transaction::PgTransaction;
use super::sqlite::connection::SqliteConnection;
use super::sqlite::writer::{Undo, WriteGuard};

/// The connection of a transaction that the caller of a function starts and ends.
#[derive(Debug)]
pub enum Tx<'t> {
    /// The writing connection of an SQLite file.
    Sqlite(&'t mut SqliteConnection),
    /// A connection to PostgreSQL.
    Postgres(&'t mut PostgresConnection),
}

impl Tx<'_> {
    /// Whether the database is PostgreSQL, for statements that differ.
    pub fn is_postgres(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }
}

/// An open transaction. [`Self::settle`] ends it; dropping it rolls it back. [`in_transaction!`](crate::in_transaction) does both.
#[derive(Debug)]
pub enum Transaction {
    /// A turn of the writer.
    Sqlite(Box<WriteGuard>),
    /// A connection of the pool.
    Postgres(PgTransaction),
}

impl Pool {
    /// Starts a transaction. SQLite takes its write lock (`BEGIN IMMEDIATE`).
    #[boxed]
    pub async fn begin(&self) -> Result<Transaction, Error> {
        match self {
            Self::Sqlite { writer, .. } => {
                writer.begin(Undo::Whole).await.map(|turn| Transaction::Sqlite(Box::new(turn)))
            }
            Self::Postgres(pool) => PgTransaction::begin(pool).await.map(Transaction::Postgres),
        }
    }
}

impl Transaction {
    /// The connection, within the transaction.
    pub fn connection(&mut self) -> Result<Tx<'_>, Error> {
        match self {
            Self::Sqlite(turn) => turn.connection().map(Tx::Sqlite),
            Self::Postgres(transaction) => Ok(Tx::Postgres(transaction.connection())),
        }
    }

    /// Commits if `outcome` is `Ok` and satisfies `good`, and otherwise rolls back. Returns the result after the commit, or the commit's
    /// error.
    pub async fn settle<T>(self, outcome: Result<T, Error>, good: impl FnOnce(&T) -> bool) -> Result<T, Error> {
        match self {
            Self::Sqlite(turn) => (*turn).settle(outcome, good).await,
            Self::Postgres(transaction) => transaction.settle(outcome, good).await,
        }
    }
}

/// Runs a body in a transaction, on either database:
/// `in_transaction!(&self.pool, |tx| { query(SQL).execute(&mut *tx).await?; Ok(value) }).await`.
///
/// The body is a block that may use `?` on the driver's errors, `.await` and `return`; it returns `Result<T, sqlx::Error>`, and so does the
/// future that the macro creates. `tx` is a `&mut Tx`. `Err` rolls back. A refusal is not an error: with `commit if |value| …` at the end,
/// a value that does not satisfy the condition is returned, but the transaction is rolled back.
///
/// On SQLite the transaction takes the write lock at its start, so the rows that the body reads do not change until it commits. Bodies run
/// one after the other and share commits; the future is ready after the commit ([`pool::Writer`](crate::pool::Writer)). On PostgreSQL each
/// statement reads the rows committed before it: change a row first, which locks it, then read.
///
/// It is a macro because the compiler cannot require that the future of an async closure that borrows its argument is `Send`.
#[macro_export]
macro_rules! in_transaction {
    ($pool:expr, |$tx:ident| $body:expr) => {
        $crate::in_transaction!($pool, |$tx| $body, commit if |_| true)
    };
    ($pool:expr, |$tx:ident| $body:expr, commit if $good:expr) => {
        async {
            let mut transaction = $crate::Pool::begin($pool).await?;
            let outcome = match transaction.connection() {
                Ok(mut connection) => {
                    let $tx = &mut connection;
                    $crate::pool::driver_errors(async { $body }).await
                }
                Err(error) => Err(error),
            };
            transaction.settle(outcome, $good).await
        }
    };
}

/// Fixes the error type of `?` in the body of a transaction.
#[doc(hidden)]
pub fn driver_errors<T, F: Future<Output = Result<T, Error>>>(body: F) -> F {
    body
}
