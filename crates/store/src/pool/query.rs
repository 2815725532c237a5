//! Statements that are written once and run on either database.
//!
//! `query(SQL).bind(id).fetch_optional(&pool)` mirrors the functions of sqlx, but the driver is chosen when the statement runs, so code that
//! uses it is compiled once. A [`Target`] says where it runs: `&Pool` reads, [`Pool::writer`] commits one statement by itself, and
//! `&mut Tx` is a transaction.

use std::fmt::Write;

use futures_util::future::BoxFuture;
use sqlx::postgres::{PgRow, Postgres};
use sqlx::sqlite::{Sqlite, SqlitePool, SqliteRow};
use sqlx::{AssertSqlSafe, Error, RawSql, SqlSafeStr, SqlStr};

use super::argument::{Argument, encoded_for_postgres, encoded_for_sqlite};
use super::database_row::DatabaseRow;
use super::direct::{DirectConnection, DirectRow};
use super::postgres::{Access, PostgresConnection, PostgresPool};
use super::{Pool, Tx, Undo, Writer};

/// Where a statement runs.
#[derive(Debug)]
pub enum Target<'t> {
    /// SQLite, on a connection that cannot write.
    SqliteReader(&'t SqlitePool),
    /// SQLite, in a transaction of its own. Concurrent writes share commits ([`super::Writer`]).
    SqliteWriter(&'t Writer),
    /// SQLite, in the transaction of the caller.
    SqliteTransaction(&'t mut DirectConnection),
    /// PostgreSQL, on a connection that may be unable to write.
    PostgresReader(&'t PostgresPool),
    /// PostgreSQL, in a transaction of its own.
    PostgresWriter(&'t PostgresPool),
    /// PostgreSQL, on a connection of the caller.
    PostgresConnection(&'t mut PostgresConnection),
}

impl<'t> From<&'t Pool> for Target<'t> {
    fn from(pool: &'t Pool) -> Self {
        match pool {
            Pool::Sqlite { reader, .. } => Self::SqliteReader(reader),
            Pool::Postgres(pool) => Self::PostgresReader(pool),
        }
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
    /// Runs one statement that writes. Its outcome is returned after the commit.
    pub fn writer(&self) -> Target<'_> {
        match self {
            Self::Sqlite { writer, .. } => Target::SqliteWriter(writer),
            Self::Postgres(pool) => Target::PostgresWriter(pool),
        }
    }
}

/// A statement with its arguments. The connection keeps it prepared.
#[derive(Debug)]
#[must_use]
pub struct Query<'q> {
    sql: SqlStr,
    arguments: Vec<Argument<'q>>,
}

/// A statement that returns rows of several columns, or none.
pub fn query<'q>(sql: impl SqlSafeStr) -> Query<'q> {
    Query { sql: sql.into_sql_str(), arguments: Vec::new() }
}

/// A statement whose first column is wanted.
pub fn scalar<'q>(sql: impl SqlSafeStr) -> ScalarQuery<'q> {
    ScalarQuery(query(sql))
}

impl<'q> Query<'q> {
    /// Binds the next argument: the first one is `$1`.
    pub fn bind(mut self, argument: impl Into<Argument<'q>>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Binds all arguments, in their order.
    pub(super) fn bind_all(mut self, arguments: &[Argument<'q>]) -> Self {
        self.arguments.extend_from_slice(arguments);
        self
    }

    /// Runs the statement to its end and returns the number of rows that it inserted, updated or deleted.
    pub fn execute<'f>(self, on: impl Into<Target<'f>>) -> BoxFuture<'f, Result<u64, Error>>
    where
        'q: 'f,
    {
        self.changes(on.into())
    }

    /// Runs the statement and returns all rows.
    pub async fn fetch_all<R: DatabaseRow>(self, on: impl Into<Target<'_>>) -> Result<Vec<R>, Error> {
        self.rows(on.into(), Wanted::All).await?.decoded()
    }

    /// The first row, if there is one.
    pub async fn fetch_optional<R: DatabaseRow>(self, on: impl Into<Target<'_>>) -> Result<Option<R>, Error> {
        self.rows(on.into(), Wanted::First).await?.first()
    }

    /// The first row; [`Error::RowNotFound`] if there is none.
    pub async fn fetch_one<R: DatabaseRow>(self, on: impl Into<Target<'_>>) -> Result<R, Error> {
        self.fetch_optional(on).await?.ok_or(Error::RowNotFound)
    }

    fn changes<'f>(self, on: Target<'f>) -> BoxFuture<'f, Result<u64, Error>>
    where
        'q: 'f,
    {
        Box::pin(async move {
            match on {
                Target::SqliteReader(pool) => Ok(self.of_sqlite()?.execute(pool).await?.rows_affected()),
                Target::SqliteWriter(writer) => {
                    on_writer(writer, |connection| connection.execute_with(self.sql.as_str(), &self.arguments)).await
                }
                Target::SqliteTransaction(connection) => connection.execute_with(self.sql.as_str(), &self.arguments),
                Target::PostgresReader(pool) => self.changes_on(&mut pool.acquire(Access::Read).await?).await,
                Target::PostgresWriter(pool) => self.changes_on(&mut pool.acquire(Access::Write).await?).await,
                Target::PostgresConnection(connection) => self.changes_on(connection).await,
            }
        })
    }

    /// The rows before they are decoded: what waits for a database is compiled once, and not for each type of rows.
    fn rows<'f>(self, on: Target<'f>, wanted: Wanted) -> BoxFuture<'f, Result<Rows, Error>>
    where
        'q: 'f,
    {
        Box::pin(async move {
            let rows_max = match wanted {
                Wanted::All => usize::MAX,
                Wanted::First => 1,
            };
            match on {
                Target::SqliteReader(pool) => {
                    let statement = self.of_sqlite()?;
                    Ok(Rows::Sqlite(match wanted {
                        Wanted::All => statement.fetch_all(pool).await?,
                        Wanted::First => statement.fetch_optional(pool).await?.into_iter().collect(),
                    }))
                }
                Target::SqliteWriter(writer) => {
                    let run = |connection: &mut DirectConnection| {
                        connection.fetch_with(self.sql.as_str(), &self.arguments, rows_max)
                    };
                    on_writer(writer, run).await.map(Rows::Direct)
                }
                Target::SqliteTransaction(connection) => {
                    connection.fetch_with(self.sql.as_str(), &self.arguments, rows_max).map(Rows::Direct)
                }
                Target::PostgresReader(pool) => self.rows_on(&mut pool.acquire(Access::Read).await?, wanted).await,
                Target::PostgresWriter(pool) => self.rows_on(&mut pool.acquire(Access::Write).await?, wanted).await,
                Target::PostgresConnection(connection) => self.rows_on(connection, wanted).await,
            }
        })
    }

    async fn changes_on(self, connection: &mut PostgresConnection) -> Result<u64, Error> {
        let statement = self.of_postgres()?;
        let (connection, watch) = connection.statement()?;
        Ok(watch.over(statement.execute(connection)).await?.rows_affected())
    }

    async fn rows_on(self, connection: &mut PostgresConnection, wanted: Wanted) -> Result<Rows, Error> {
        let statement = self.of_postgres()?;
        let (connection, watch) = connection.statement()?;
        Ok(Rows::Postgres(match wanted {
            Wanted::All => watch.over(statement.fetch_all(connection)).await?,
            Wanted::First => watch.over(statement.fetch_optional(connection)).await?.into_iter().collect(),
        }))
    }

    fn of_sqlite(self) -> Result<sqlx::query::Query<'static, Sqlite, sqlx::sqlite::SqliteArguments>, Error> {
        let arguments = encoded_for_sqlite(&self.arguments).map_err(Error::Encode)?;
        Ok(sqlx::query_with(self.sql, arguments))
    }

    fn of_postgres(self) -> Result<sqlx::query::Query<'static, Postgres, sqlx::postgres::PgArguments>, Error> {
        let arguments = encoded_for_postgres(&self.arguments).map_err(Error::Encode)?;
        Ok(sqlx::query_with(self.sql, arguments))
    }
}

#[derive(Debug, Clone, Copy)]
enum Wanted {
    All,
    First,
}

/// Rows as their driver returns them.
enum Rows {
    Sqlite(Vec<SqliteRow>),
    Direct(Vec<DirectRow>),
    Postgres(Vec<PgRow>),
}

impl Rows {
    fn decoded<R: DatabaseRow>(&self) -> Result<Vec<R>, Error> {
        match self {
            Self::Sqlite(rows) => rows.iter().map(R::from_row).collect(),
            Self::Direct(rows) => rows.iter().map(R::from_row).collect(),
            Self::Postgres(rows) => rows.iter().map(R::from_row).collect(),
        }
    }

    fn first<R: DatabaseRow>(&self) -> Result<Option<R>, Error> {
        match self {
            Self::Sqlite(rows) => rows.first().map(R::from_row).transpose(),
            Self::Direct(rows) => rows.first().map(R::from_row).transpose(),
            Self::Postgres(rows) => rows.first().map(R::from_row).transpose(),
        }
    }
}

/// Statements without parameters, separated by semicolons. They are not kept prepared.
#[derive(Debug)]
#[must_use]
pub struct Script(SqlStr);

/// Statements without parameters, separated by semicolons.
pub fn script(sql: impl SqlSafeStr) -> Script {
    Script(sql.into_sql_str())
}

impl Script {
    /// Runs all statements and returns the number of rows that they inserted, updated or deleted.
    pub async fn execute(self, on: impl Into<Target<'_>>) -> Result<u64, Error> {
        let script = sqlx::raw_sql(self.0);
        match on.into() {
            Target::SqliteReader(pool) => Ok(script.execute(pool).await?.rows_affected()),
            Target::SqliteWriter(writer) => {
                let mut turn = writer.begin(Undo::Whole).await?;
                let outcome = match turn.connection() {
                    Ok(connection) => script.execute(connection).await.map(|done| done.rows_affected()),
                    Err(error) => Err(error),
                };
                turn.settle(outcome, |_| true).await
            }
            Target::SqliteTransaction(connection) => Ok(script.execute(connection).await?.rows_affected()),
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

/// Runs one statement in the next group of the writer and returns its outcome after the commit.
async fn on_writer<T>(
    writer: &Writer,
    run: impl FnOnce(&mut DirectConnection) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut turn = writer.begin(Undo::Statement).await?;
    let outcome = turn.connection().and_then(run);
    turn.settle(outcome, |_| true).await
}

/// A [`Query`] whose rows are the values of their first column.
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

/// Builds a statement of many rows.
#[derive(Debug)]
pub struct QueryBuilder<'q> {
    sql: String,
    arguments: Vec<Argument<'q>>,
}

/// The values of one row of [`QueryBuilder::push_values`].
#[derive(Debug)]
pub struct Values<'b, 'q> {
    builder: &'b mut QueryBuilder<'q>,
    is_first: bool,
}

impl<'q> QueryBuilder<'q> {
    /// Begins a statement with `sql`.
    pub fn new(sql: &'static str) -> Self {
        Self { sql: sql.to_owned(), arguments: Vec::new() }
    }

    /// Appends a part of the statement.
    pub fn push(&mut self, sql: &'static str) -> &mut Self {
        self.sql.push_str(sql);
        self
    }

    /// Appends the place of an argument.
    pub fn push_bind(&mut self, argument: impl Into<Argument<'q>>) -> &mut Self {
        self.arguments.push(argument.into());
        // Writing to a string cannot fail.
        let _ = write!(self.sql, "${}", self.arguments.len());
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
