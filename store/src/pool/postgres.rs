//! PostgreSQL, or an engine that speaks its protocol.
//!
//! A future that is dropped while `BEGIN` is on its way leaves a transaction open of which the driver knows nothing; the
//! next user of the connection would work inside it and lose everything. So every connection is rolled back,
//! unconditionally, between two users. That happens when it is given back, in the background, where no request waits for the
//! round trip; a connection that then lay idle is rolled back once more before it is used, which also shows whether the
//! server still hears us. A connection whose `BEGIN`, `COMMIT` or `ROLLBACK` failed is closed instead.

pub(super) mod transaction;

use std::str::FromStr;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};

use super::query::query;
use super::{DatabaseSettings, Pool};
use crate::error::{Context, StoreError};

/// An idle time after which a connection is tried before it is used.
const TRIED_AFTER: Duration = Duration::from_secs(1);

pub async fn open(settings: &DatabaseSettings, url: &str, schema: Option<&'static str>) -> Result<Pool, StoreError> {
    let cannot = |what: &str, source: sqlx::Error| StoreError::Open { what: what.to_owned(), source: source.into() };
    let options = PgConnectOptions::from_str(url)
        .map_err(|source| cannot("database.url", source))?
        .application_name("attache")
        .statement_cache_capacity(settings.statements_max);
    // Not through the pool: there a refusal would be tried again and again, and end as a time-out that says nothing.
    let mut first = options.connect().await.map_err(|source| cannot("no connection", source))?;
    check_durable(&mut first).await?;
    if let Some(schema) = schema {
        make_schema(&mut first, schema).await?;
    }
    first.close().await.context("close a connection")?;

    let greeting = greeting(settings, schema);
    let pool = PgPoolOptions::new()
        .max_connections(settings.connections_max.max(1))
        .acquire_timeout(settings.acquire_timeout)
        .test_before_acquire(false)
        .after_connect(move |connection, _| {
            let greeting = AssertSqlSafe(greeting.clone());
            Box::pin(async move { sqlx::raw_sql(greeting).execute(connection).await.map(drop) })
        })
        .after_release(|connection, _| Box::pin(cleaned(connection)))
        .before_acquire(|connection, idle| {
            Box::pin(async move { if idle.idle_for < TRIED_AFTER { Ok(true) } else { cleaned(connection).await } })
        })
        .connect_with(options)
        .await
        .map_err(|source| cannot("no connection", source))?;
    Ok(Pool::Postgres(pool))
}

/// Settings of every connection.
fn greeting(settings: &DatabaseSettings, schema: Option<&str>) -> String {
    let path = schema.map(|schema| format!("SET search_path TO {schema};")).unwrap_or_default();
    format!(
        // Rolling back outside of a transaction is a warning, which would fill the log.
        "SET client_min_messages TO error; SET statement_timeout TO {}; \
         SET idle_in_transaction_session_timeout TO {}; SET TIME ZONE 'UTC'; {path}",
        settings.statement_timeout.as_millis(),
        settings.idle_in_transaction_timeout.as_millis(),
    )
}

/// Rolls back, and returns whether the next user may have the connection. If the driver counts a transaction as open, it would begin the
/// next one as a savepoint.
async fn cleaned(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    sqlx::raw_sql("ROLLBACK").execute(&mut *connection).await?;
    Ok(!connection.is_in_transaction())
}

/// Writes a row of the table of migrations with the values that it has: PostgreSQL stores a new version of it.
pub async fn probe_write(pool: &Pool) -> Result<(), sqlx::Error> {
    const SQL: &str = "UPDATE _sqlx_migrations SET success = success
        WHERE version = (SELECT MAX(version) FROM _sqlx_migrations)";
    crate::in_transaction!(pool, |tx| query(SQL).execute(&mut *tx).await.map(drop)).await
}

/// A server that does not wait for its disk can lose acknowledged writes.
async fn check_durable(connection: &mut PgConnection) -> Result<(), StoreError> {
    for setting in ["fsync", "synchronous_commit"] {
        let found: Option<String> = sqlx::query_scalar("SELECT current_setting($1, true)")
            .bind(setting)
            .fetch_one(&mut *connection)
            .await
            .context("read the settings of the database")?;
        // A setting that an engine does not have is not switched off.
        if let Some(found) = found.filter(|found| found == "off") {
            return Err(StoreError::Unsafe { setting, found, needed: "on" });
        }
    }
    Ok(())
}

/// Version and settings.
pub async fn describe(pool: &sqlx::PgPool) -> Result<Vec<String>, StoreError> {
    const SQL: &str = "SELECT name || ' ' || current_setting(name, true) FROM (VALUES
        (1, 'server_version'), (2, 'fsync'), (3, 'synchronous_commit'), (4, 'full_page_writes')) AS s (place, name)
        WHERE current_setting(name, true) IS NOT NULL ORDER BY place";
    let settings: Vec<String> = sqlx::query_scalar(SQL).fetch_all(pool).await.context("describe the database")?;
    Ok([vec!["PostgreSQL".to_owned()], settings].concat())
}

/// Tables of the schema with rows that cannot be read.
pub async fn faults(pool: &sqlx::PgPool) -> Result<Vec<String>, StoreError> {
    const ASK: &str = "read every table";
    const TABLES: &str = "SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = current_schema() ORDER BY 1";
    // A connection of its own: a large table takes longer than a statement otherwise may.
    let mut connection = pool.acquire().await.context(ASK)?.detach();
    sqlx::raw_sql("SET statement_timeout TO 0").execute(&mut connection).await.context(ASK)?;
    let tables: Vec<String> = sqlx::query_scalar(TABLES).fetch_all(&mut connection).await.context(ASK)?;
    let mut faults = Vec::new();
    for table in tables {
        // The text of a row is made of all its values, also of those that are stored apart.
        let read =
            AssertSqlSafe(format!("SELECT CAST(SUM(CAST(hashtext(t::TEXT) AS BIGINT)) AS BIGINT) FROM {table} AS t"));
        match sqlx::query_scalar::<_, Option<i64>>(read).fetch_one(&mut connection).await {
            Ok(_) => {}
            Err(sqlx::Error::Database(error)) => faults.push(format!("{table}: {}", error.message())),
            Err(error) => return Err(error).context(ASK),
        }
    }
    connection.close().await.context(ASK)?;
    Ok(faults)
}

/// Gives a schema another name; the next [`open`] makes a new one under the old name.
pub(super) async fn set_schema_aside(pool: &sqlx::PgPool, schema: &'static str, name: &str) -> Result<(), StoreError> {
    // The connection keeps the statements that it prepared for the old tables, so it is closed.
    let mut connection = pool.acquire().await.context("rename the schema")?.detach();
    let rename = AssertSqlSafe(format!("ALTER SCHEMA {schema} RENAME TO {name}"));
    sqlx::raw_sql(rename).execute(&mut connection).await.context("rename the schema")?;
    connection.close().await.context("close a connection")
}

async fn make_schema(connection: &mut PgConnection, schema: &'static str) -> Result<(), StoreError> {
    const MAKE: &str = "make the schema";
    let there: bool = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)")
        .bind(schema)
        .fetch_one(&mut *connection)
        .await
        .context(MAKE)?;
    if there {
        return Ok(());
    }
    let create = AssertSqlSafe(format!("CREATE SCHEMA IF NOT EXISTS {schema}"));
    match sqlx::raw_sql(create).execute(connection).await.context(MAKE) {
        // Two processes that start together both find none, and both make it.
        Err(error) if error.is_unique_violation() => Ok(()),
        made => made.map(drop),
    }
}
