//! Statements that are written once and run on either database.
//!
//! `query(SQL).bind(id).fetch_optional(&pool)` mirrors the functions of sqlx, but the driver is chosen when the statement runs, so generic
//! callers are compiled once. A [`Target`] determines where it runs: `&Pool` reads, [`Pool::writer`] commits a single statement, and `&mut
//! Tx` is a transaction.

use std::any::Any;
use std::fmt::Write;

use futures_util::future::BoxFuture;
use sqlx::postgres::{PgArguments, Postgres};
use sqlx::{AssertSqlSafe, Error, RawSql, SqlSafeStr, SqlStr};

use super::argument::{Argument, Arguments};
use super::postgres::{Access, PostgresConnection, PostgresPool};
use super::row::{Columns, DatabaseRow, Decoded, Decoder, Ignored};
use super::sqlite::connection::SqliteConnection;
use super::sqlite::readers::SqliteReaders;
use super::sqlite::writer::{Undo, Writer};
use super::{Pool, Tx};

/// The number of changed rows, and the decoder with the returned rows.
type Outcome = Result<(u64, Box<dyn Decoder>), Error>;

/// Where a statement runs.
#[derive(Debug)]
pub enum Target<'t> {
    /// SQLite, on a read-only connection.
    SqliteReader(&'t SqliteReaders),
    /// SQLite, in a separate transaction. Concurrent writes share commits ([`super::Writer`]).
    SqliteWriter(&'t Writer),
    /// SQLite, in the transaction of the caller.
    SqliteTransaction(&'t mut SqliteConnection),
    /// PostgreSQL, on a connection that may be read-only.
    PostgresReader(&'t PostgresPool),
    /// PostgreSQL, in a separate transaction.
    PostgresWriter(&'t PostgresPool),
    /// PostgreSQL, on a connection of the caller.
    PostgresConnection(&'t mut PostgresConnection),
}

impl<'t> From<&'t Pool> for Target<'t> {
    fn from(pool: &'t Pool) -> Self {
        match pool {
            Pool::Sqlite { readers, .. } => Self::SqliteReader(readers),
            Pool::Postgres(pool) => Self::PostgresReader(pool),
        }
    }
}

impl<'t> From<&'t mut SqliteConnection> for Target<'t> {
    fn from(connection: &'t mut SqliteConnection) -> Self {
        Self::SqliteTransaction(connection)
    }
}

impl<'t> From<&'t PostgresPool> for Target<'t> {
    fn from(pool: &'t PostgresPool) -> Self {
        Self::PostgresReader(pool)
    }
}

impl<'t> From<&'t mut PostgresConnection> for Target<'t> {
    fn from(connection: &'t mut PostgresConnection) -> Self {
        Self::PostgresConnection(connection)
    }
}

impl<'t> From<&'t mut Tx<'_>> for Target<'t> {
    fn from(tx: &'t mut Tx<'_>) -> Self {
        match tx {
            Tx::Sqlite(connection) => Self::SqliteTransaction(connection),
            Tx::Postgres(connection) => Self::PostgresConnection(connection),
        }
    }
}

impl Pool {
    /// Runs one statement that writes. The result is returned after the commit.
    pub fn writer(&self) -> Target<'_> {
        match self {
            Self::Sqlite { writer, .. } => Target::SqliteWriter(writer),
            Self::Postgres(pool) => Target::PostgresWriter(pool),
        }
    }
}

/// A statement with its arguments. The connection caches the prepared statement.
#[derive(Debug)]
#[must_use]
pub struct Query<'q> {
    sql: SqlStr,
    arguments: Arguments<'q>,
}

/// Creates a statement that returns rows of several columns, or no rows.
pub fn query<'q>(sql: impl SqlSafeStr) -> Query<'q> {
    Query { sql: sql.into_sql_str(), arguments: Arguments::default() }
}

/// Creates a statement that returns its first column.
pub fn scalar<'q>(sql: impl SqlSafeStr) -> ScalarQuery<'q> {
    ScalarQuery(query(sql))
}

impl<'q> Query<'q> {
    /// Binds the next argument: the first one is `$1`.
    pub fn bind(mut self, argument: impl Into<Argument<'q>>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Binds all arguments, in order.
    pub(super) fn bind_all(self, arguments: Arguments<'q>) -> Self {
        Self { arguments, ..self }
    }

    /// Runs the statement to its end and returns the number of inserted, updated or deleted rows.
    pub fn execute<'f>(self, on: impl Into<Target<'f>>) -> BoxFuture<'f, Result<u64, Error>>
    where
        'q: 'f,
    {
        let on = on.into();
        Box::pin(async move { self.run(on, Wanted::Changes, Box::new(Ignored)).await.map(|(changes, _)| changes) })
    }

    /// Runs the statement and returns all rows.
    pub async fn fetch_all<R: DatabaseRow>(self, on: impl Into<Target<'_>>) -> Result<Vec<R>, Error> {
        self.rows(on.into(), Wanted::All).await
    }

    /// The first row, if there is one.
    pub async fn fetch_optional<R: DatabaseRow>(self, on: impl Into<Target<'_>>) -> Result<Option<R>, Error> {
        Ok(self.rows(on.into(), Wanted::First).await?.into_iter().next())
    }

    /// The first row; [`Error::RowNotFound`] if there is none.
    pub async fn fetch_one<R: DatabaseRow>(self, on: impl Into<Target<'_>>) -> Result<R, Error> {
        self.fetch_optional(on).await?.ok_or(Error::RowNotFound)
    }

    async fn rows<R: DatabaseRow>(self, on: Target<'_>, wanted: Wanted) -> Result<Vec<R>, Error> {
        let (_, rows) = self.run(on, wanted, Box::new(Decoded::<R>::default())).await?;
        let rows: Box<dyn Any> = rows;
        // The decoder has the type that was passed.
        rows.downcast::<Decoded<R>>().map_err(|_| Error::WorkerCrashed)?.0
    }

    /// Runs the statement; returns the number of changed rows, and the decoder. Not generic over the row type, so that it is compiled
    /// once.
    fn run<'f>(self, on: Target<'f>, wanted: Wanted, mut rows: Box<dyn Decoder>) -> BoxFuture<'f, Outcome>
    where
        'q: 'f,
    {
        Box::pin(async move {
            let changes = match on {
                Target::SqliteReader(readers) => return self.read(readers, wanted, rows).await,
                Target::SqliteWriter(writer) => {
                    on_writer(writer, |connection| self.run_on_sqlite(connection, wanted, &mut *rows)).await
                }
                Target::SqliteTransaction(connection) => self.run_on_sqlite(connection, wanted, &mut *rows),
                Target::PostgresReader(pool) => {
                    self.run_on_postgres(&mut pool.acquire(Access::Read).await?, wanted, &mut *rows).await
                }
                Target::PostgresWriter(pool) => {
                    self.run_on_postgres(&mut pool.acquire(Access::Write).await?, wanted, &mut *rows).await
                }
                Target::PostgresConnection(connection) => self.run_on_postgres(connection, wanted, &mut *rows).await,
            }?;
            Ok((changes, rows))
        })
    }

    async fn read(self, readers: &SqliteReaders, wanted: Wanted, rows: Box<dyn Decoder>) -> Outcome {
        self.trace();
        let arguments = self.arguments.into_owned();
        // A read-only connection changes no rows.
        readers.run(self.sql, arguments, wanted.rows_max(), rows).await.map(|rows| (0, rows))
    }

    fn run_on_sqlite(
        &self,
        connection: &mut SqliteConnection,
        wanted: Wanted,
        rows: &mut dyn Decoder,
    ) -> Result<u64, Error> {
        self.trace();
        connection.run(self.sql.as_str(), &self.arguments, wanted.rows_max(), rows)
    }

    /// Logs the statement without its arguments, as sqlx does for PostgreSQL.
    fn trace(&self) {
        tracing::trace!(db.statement = self.sql.as_str(), "a statement runs on SQLite");
    }

    async fn run_on_postgres(
        self,
        connection: &mut PostgresConnection,
        wanted: Wanted,
        rows: &mut dyn Decoder,
    ) -> Result<u64, Error> {
        let arguments = self.arguments.encoded_for_postgres().map_err(Error::Encode)?;
        let statement = sqlx::query_with::<Postgres, PgArguments>(self.sql, arguments);
        let (connection, watch) = connection.statement()?;
        let found_rows = match wanted {
            Wanted::Changes => return Ok(watch.over(statement.execute(connection)).await?.rows_affected()),
            Wanted::All => watch.over(statement.fetch_all(connection)).await?,
            Wanted::First => watch.over(statement.fetch_optional(connection)).await?.into_iter().collect(),
        };
        for row in &found_rows {
            rows.take(&mut Columns::of_postgres(row));
        }
        Ok(0)
    }
}

#[derive(Debug, Clone, Copy)]
enum Wanted {
    Changes,
    All,
    First,
}

impl Wanted {
    fn rows_max(self) -> usize {
        match self {
            Self::Changes | Self::All => usize::MAX,
            Self::First => 1,
        }
    }
}

/// Statements without parameters, separated by semicolons. They are not cached as prepared statements.
#[derive(Debug)]
#[must_use]
pub struct Script(SqlStr);

/// Creates a script of statements without parameters, separated by semicolons.
pub fn script(sql: impl SqlSafeStr) -> Script {
    Script(sql.into_sql_str())
}

impl Script {
    /// Runs all statements and returns the number of inserted, updated or deleted rows.
    pub async fn execute(self, on: impl Into<Target<'_>>) -> Result<u64, Error> {
        let Self(sql) = self;
        let script = sqlx::raw_sql(sql.clone());
        match on.into() {
            // A read-only connection changes no rows.
            Target::SqliteReader(readers) => {
                readers.visit(move |connection| connection.execute_batch(sql.as_str())).await.map(|()| 0)
            }
            Target::SqliteWriter(writer) => {
                let mut turn = writer.begin(Undo::Whole).await?;
                let changes = turn.connection().and_then(|connection| connection.run_script(sql.as_str()));
                turn.settle(changes, |_| true).await
            }
            Target::SqliteTransaction(connection) => connection.run_script(sql.as_str()),
            Target::PostgresReader(pool) => on_postgres(script, &mut pool.acquire(Access::Read).await?).await,
            Target::PostgresWriter(pool) => on_postgres(script, &mut pool.acquire(Access::Write).await?).await,
            Target::PostgresConnection(connection) => on_postgres(script, connection).await,
        }
    }
}

async fn on_postgres(script: RawSql, connection: &mut PostgresConnection) -> Result<u64, Error> {
    let (connection, watch) = connection.statement()?;
    Ok(watch.over(script.execute(connection)).await?.rows_affected())
}

/// Runs one statement in the next group of the writer and returns its result after the commit.
async fn on_writer<T>(
    writer: &Writer,
    run: impl FnOnce(&mut SqliteConnection) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut turn = writer.begin(Undo::Statement).await?;
    let outcome = turn.connection().and_then(run);
    turn.settle(outcome, |_| true).await
}

/// A [`Query`] that returns the values of the first column.
#[derive(Debug)]
#[must_use]
pub struct ScalarQuery<'q>(Query<'q>);

impl<'q> ScalarQuery<'q> {
    /// Binds the next argument: the first one is `$1`.
    pub fn bind(self, argument: impl Into<Argument<'q>>) -> Self {
        Self(self.0.bind(argument))
    }

    /// The values of all rows.
    pub async fn fetch_all<T>(self, on: impl Into<Target<'_>>) -> Result<Vec<T>, Error>
    where
        (T,): DatabaseRow,
    {
        Ok(self.0.fetch_all::<(T,)>(on).await?.into_iter().map(|(value,)| value).collect())
    }

    /// The value of the first row, if there is one.
    pub async fn fetch_optional<T>(self, on: impl Into<Target<'_>>) -> Result<Option<T>, Error>
    where
        (T,): DatabaseRow,
    {
        Ok(self.0.fetch_optional::<(T,)>(on).await?.map(|(value,)| value))
    }

    /// The value of the first row; [`Error::RowNotFound`] if there is none.
    pub async fn fetch_one<T>(self, on: impl Into<Target<'_>>) -> Result<T, Error>
    where
        (T,): DatabaseRow,
    {
        Ok(self.0.fetch_one::<(T,)>(on).await?.0)
    }
}

/// Builds a statement for many rows.
#[derive(Debug)]
pub struct QueryBuilder<'q> {
    sql: String,
    arguments: Arguments<'q>,
}

/// The values of one row of [`QueryBuilder::push_values`].
#[derive(Debug)]
pub struct Values<'b, 'q> {
    builder: &'b mut QueryBuilder<'q>,
    is_first: bool,
}

impl<'q> QueryBuilder<'q> {
    /// Starts a statement with `sql`.
    pub fn new(sql: &'static str) -> Self {
        Self { sql: sql.to_owned(), arguments: Arguments::in_order() }
    }

    /// Appends a part of the statement.
    pub fn push(&mut self, sql: &'static str) -> &mut Self {
        self.sql.push_str(sql);
        self
    }

    /// Appends the placeholder of an argument.
    pub fn push_bind(&mut self, argument: impl Into<Argument<'q>>) -> &mut Self {
        let number = self.arguments.push(argument.into());
        // Writing to a string cannot fail.
        let _ = write!(self.sql, "${number}");
        self
    }

    /// Appends `VALUES ($1, $2), ($3, $4), …`: a row for each of `rows`.
    pub fn push_values<I: IntoIterator>(
        &mut self,
        rows: I,
        mut row_values: impl FnMut(Values<'_, 'q>, I::Item),
    ) -> &mut Self {
        self.sql.push_str("VALUES ");
        for (place, row) in rows.into_iter().enumerate() {
            self.sql.push_str(if place == 0 { "(" } else { ", (" });
            row_values(Values { builder: self, is_first: true }, row);
            self.sql.push(')');
        }
        self
    }

    /// Returns the complete statement.
    pub fn build(self) -> Query<'q> {
        Query { sql: AssertSqlSafe(self.sql).into_sql_str(), arguments: self.arguments }
    }
}

impl<'q> Values<'_, 'q> {
    /// Appends a value to the row.
    pub fn push_bind(&mut self, argument: impl Into<Argument<'q>>) -> &mut Self {
        if !std::mem::take(&mut self.is_first) {
            self.builder.sql.push_str(", ");
        }
        self.builder.push_bind(argument);
        self
    }
}
