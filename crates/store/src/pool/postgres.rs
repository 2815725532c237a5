//! PostgreSQL, or a server that speaks its protocol.
//!
//! If a future is dropped while `BEGIN` is in flight, it leaves an open transaction that the driver does not know; the next user of the
//! connection would work inside it and lose all its writes. Therefore a connection records its statements ([`PostgresConnection`]), and is
//! returned to the pool only if every statement was answered and every transaction was ended. Any other connection is closed, which ends
//! its transaction too.
//!
//! The server's own timeouts end slow statements, waits for locks, and idle transactions. They do not detect a broken connection or a
//! frozen server, so the pool watches every statement ([`StatementWatch`]).
//!
//! A read-only session, or one that does not find its tables, belongs to a server or settings that have changed: it is closed together with
//! all sessions of the same or an earlier age (`docs/decisions/0028-postgresql-sessions.md`).

pub(super) mod connection;
pub(super) mod connections;
mod copy;
mod examination;
mod hosts;
mod limits;
mod listener;
mod session;
pub(super) mod transaction;

use sqlx::AssertSqlSafe;

pub use self::connection::{PostgresConnection, StatementWatch};
pub(super) use self::connections::Access;
pub use self::connections::PostgresPool;
pub(crate) use self::copy::copy_rows;
pub use self::hosts::ServerRole;
use self::hosts::{Hosts, is_refused};
use self::limits::Limits;
pub use self::listener::PostgresListener;
pub use self::session::SCHEMA_OF_LOG;
use self::session::{Greeting, Unfit};
use super::query::{query, scalar, script};
use super::settings::STATEMENTS_MAX;
use super::{DatabaseSettings, Pool};
use crate::error::{Context, StoreError};

/// Connects to a server of this role.
pub async fn open(
    settings: &DatabaseSettings,
    url: &str,
    schema: Option<&'static str>,
    role: ServerRole,
) -> Result<Pool, StoreError> {
    let cannot = |what: String, source| StoreError::Open { what, source };
    let hosts =
        Hosts::parse(url, role, |options| options.application_name("attache").statement_cache_capacity(STATEMENTS_MAX));
    let hosts = hosts.map_err(|reason| cannot("database.url".to_owned(), reason.into()))?;
    let names = hosts.names();
    let pool = PostgresPool::new(hosts, Greeting::new(settings, schema, role), Limits::of(settings), schema);
    let mut first = pool.open_first().await.map_err(|source| match Unfit::of(&source) {
        Some(Unfit::Unsafe(setting, found)) => StoreError::Unsafe { setting, found: found.clone(), needed: "on" },
        _ if is_refused(&source) => StoreError::Refused { server: names, source: source.into() },
        _ => cannot(format!("no connection to {names}"), source.into()),
    })?;
    if let Some(schema) = schema {
        make_schema(&mut first, schema).await?;
    }
    Ok(Pool::Postgres(pool))
}

/// The servers of a URL, for comparison with another URL; empty if it cannot be used.
pub fn servers_of(url: &str) -> String {
    Hosts::parse(url, ServerRole::Primary, |options| options).map(|hosts| hosts.names()).unwrap_or_default()
}

/// Checks whether a URL can be used; the reason, if it cannot, does not contain its password.
pub fn check_url(url: &str, role: ServerRole) -> Result<(), String> {
    Hosts::parse(url, role, |options| options).map(drop)
}

/// The qualified name of a table of the schema, for tables that exist in more than one schema.
pub(super) fn qualified(schema: Option<&'static str>, table: &str) -> String {
    schema.map_or_else(|| table.to_owned(), |schema| format!("{schema}.{table}"))
}

/// Writes a row of the table of migrations with its current values: PostgreSQL stores a new version of it.
pub async fn probe_write(pool: &Pool, schema: Option<&'static str>) -> Result<(), sqlx::Error> {
    let table = qualified(schema, "_sqlx_migrations");
    let sql =
        format!("UPDATE {table} SET success = success WHERE version = (SELECT MAX(version) FROM {table} AS newest)");
    crate::in_transaction!(pool, |tx| query(AssertSqlSafe(sql)).execute(&mut *tx).await.map(drop)).await
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
        // The text of a row is built from all its values, including values in TOAST tables.
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

/// Renames a schema; the next migration creates a new one under the old name.
pub(super) async fn set_schema_aside(pool: &PostgresPool, schema: &'static str, name: &str) -> Result<(), StoreError> {
    let mut connection = pool.acquire_apart().await.context("rename the schema")?;
    let rename = AssertSqlSafe(format!("ALTER SCHEMA {schema} RENAME TO {name}"));
    script(rename).execute(&mut connection).await.context("rename the schema")?;
    connection.close().await;
    // Other connections would keep statements that they prepared for the old tables.
    pool.renew();
    Ok(())
}

/// Creates a schema if it is absent.
pub(super) async fn make_schema(connection: &mut PostgresConnection, schema: &'static str) -> Result<(), StoreError> {
    const MAKE: &str = "make the schema";
    const THERE: &str = "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)";
    if scalar(THERE).bind(schema).fetch_one(&mut *connection).await.context(MAKE)? {
        return Ok(());
    }
    let create = AssertSqlSafe(format!("CREATE SCHEMA IF NOT EXISTS {schema}"));
    match script(create).execute(connection).await.context(MAKE) {
        // Concurrent processes may both find no schema and create it.
        Err(error) if error.is_unique_violation() => Ok(()),
        made => made.map(drop),
    }
}
