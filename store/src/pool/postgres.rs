//! PostgreSQL, or an engine that speaks its protocol.
//!
//! A future that is dropped while `BEGIN` is on its way leaves a transaction open of which the driver knows nothing; the next user of the
//! connection would work inside it and lose everything. So a connection is lent with a record of its statements
//! ([`PostgresConnection`]), and is given back only if every statement was answered and every transaction was ended. Any other is closed,
//! which ends its transaction too.
//!
//! The server's own time-outs end statements that take too long, waits for locks, and transactions in which nothing happens. They do not help
//! against a connection that died without a sign, or a server that is frozen: every statement is watched ([`StatementWatch`]).

pub(super) mod connection;
pub(super) mod connections;
mod examination;
mod limits;
mod listener;
mod session;
pub(super) mod transaction;

use std::str::FromStr;

use sqlx::AssertSqlSafe;
use sqlx::postgres::PgConnectOptions;

pub use self::connection::{PostgresConnection, StatementWatch};
pub use self::connections::PostgresPool;
use self::limits::Limits;
pub use self::listener::PostgresListener;
pub use self::session::SCHEMA_OF_LOG;
use super::query::{query, scalar, script};
use super::{DatabaseSettings, Pool};
use crate::error::{Context, StoreError};

pub async fn open(settings: &DatabaseSettings, url: &str, schema: Option<&'static str>) -> Result<Pool, StoreError> {
    let cannot = |what: String, source: sqlx::Error| StoreError::Open { what, source: source.into() };
    let options = PgConnectOptions::from_str(url)
        .map_err(|source| cannot("database.url".to_owned(), source))?
        .application_name("attache")
        .statement_cache_capacity(settings.statements_max);
    let place = match options.get_socket() {
        Some(socket) => socket.display().to_string(),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    };
    let pool = PostgresPool::new(options, session::greeting(settings, schema), Limits::of(settings), schema);
    let mut first = pool.open_first().await.map_err(|source| cannot(format!("no connection to {place}"), source))?;
    check_durable(&mut first).await?;
    if let Some(schema) = schema {
        make_schema(&mut first, schema).await?;
    }
    Ok(Pool::Postgres(pool))
}

/// The name of a table of the schema. Only tables that another schema has too are named so.
pub(super) fn qualified(schema: Option<&'static str>, table: &str) -> String {
    schema.map_or_else(|| table.to_owned(), |schema| format!("{schema}.{table}"))
}

/// Writes a row of the table of migrations with the values that it has: PostgreSQL stores a new version of it.
pub async fn probe_write(pool: &Pool, schema: Option<&'static str>) -> Result<(), sqlx::Error> {
    let table = qualified(schema, "_sqlx_migrations");
    let sql =
        format!("UPDATE {table} SET success = success WHERE version = (SELECT MAX(version) FROM {table} AS newest)");
    crate::in_transaction!(pool, |tx| query(AssertSqlSafe(sql)).execute(&mut *tx).await.map(drop)).await
}

/// A server that does not wait for its disk can lose acknowledged writes.
async fn check_durable(connection: &mut PostgresConnection) -> Result<(), StoreError> {
    for setting in ["fsync", "synchronous_commit"] {
        let found: Option<String> = scalar("SELECT current_setting($1, true)")
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
pub async fn describe(pool: &PostgresPool) -> Result<Vec<String>, StoreError> {
    const SQL: &str = "SELECT name || ' ' || current_setting(name, true) FROM (VALUES
        (1, 'server_version'), (2, 'fsync'), (3, 'synchronous_commit'), (4, 'full_page_writes')) AS s (place, name)
        WHERE current_setting(name, true) IS NOT NULL ORDER BY place";
    let settings: Vec<String> = scalar(SQL).fetch_all(pool).await.context("describe the database")?;
    Ok([vec!["PostgreSQL".to_owned()], settings].concat())
}

/// Tables of the schema with rows that cannot be read.
pub async fn faults(pool: &PostgresPool) -> Result<Vec<String>, StoreError> {
    const ASK: &str = "read every table";
    const TABLES: &str = "SELECT quote_ident(tablename), quote_ident(schemaname) FROM pg_tables
        WHERE schemaname = COALESCE($1, current_schema()) ORDER BY 1";
    let mut connection = pool.acquire_apart().await.context(ASK)?;
    let tables: Vec<(String, String)> =
        query(TABLES).bind(pool.schema).fetch_all(&mut connection).await.context(ASK)?;
    let mut faults = Vec::new();
    for (table, schema) in tables {
        // The text of a row is made of all its values, also of those that are stored apart.
        let read = AssertSqlSafe(format!(
            "SELECT CAST(SUM(CAST(hashtext(t::TEXT) AS BIGINT)) AS BIGINT) FROM {schema}.{table} AS t"
        ));
        match scalar(read).fetch_one::<Option<i64>>(&mut connection).await {
            Ok(_) => {}
            Err(sqlx::Error::Database(error)) => faults.push(format!("{table}: {}", error.message())),
            Err(error) => return Err(error).context(ASK),
        }
    }
    connection.close().await;
    Ok(faults)
}

/// Gives a schema another name; the next migration makes a new one under the old name.
pub(super) async fn set_schema_aside(pool: &PostgresPool, schema: &'static str, name: &str) -> Result<(), StoreError> {
    let mut connection = pool.acquire_apart().await.context("rename the schema")?;
    let rename = AssertSqlSafe(format!("ALTER SCHEMA {schema} RENAME TO {name}"));
    script(rename).execute(&mut connection).await.context("rename the schema")?;
    connection.close().await;
    // The others keep the statements that they prepared for the old tables.
    pool.renew();
    Ok(())
}

/// Makes a schema that is not there.
pub(super) async fn make_schema(connection: &mut PostgresConnection, schema: &'static str) -> Result<(), StoreError> {
    const MAKE: &str = "make the schema";
    const THERE: &str = "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)";
    if scalar(THERE).bind(schema).fetch_one(&mut *connection).await.context(MAKE)? {
        return Ok(());
    }
    let create = AssertSqlSafe(format!("CREATE SCHEMA IF NOT EXISTS {schema}"));
    match script(create).execute(connection).await.context(MAKE) {
        // Two processes that start together both find none, and both make it.
        Err(error) if error.is_unique_violation() => Ok(()),
        made => made.map(drop),
    }
}
