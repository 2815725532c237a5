//! A fresh PostgreSQL database for every test that asks for one.
//!
//! The cluster is started once for the whole test run by `postgres-cluster` (see `.config/nextest.toml`); a test only pays
//! for its own database.

use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, process, thread};

use sqlx::{AssertSqlSafe, Connection, PgConnection};

static DATABASES: AtomicU32 = AtomicU32::new(0);

/// A database of one's own; dropping it drops the database, whoever is still connected.
#[derive(Debug)]
pub struct TestDatabase {
    /// `postgres://…`, as the configuration key `database.url` takes it.
    pub url: String,
    name: String,
    cluster: String,
}

/// A fresh, empty database; `None`, and a word on standard error, when there is no cluster.
///
/// ```no_run
/// # async fn a_test() {
/// let Some(database) = harness::postgres::database().await else { return };
/// println!("{}", database.url);
/// # }
/// ```
///
/// # Panics
/// When there is no cluster although it is [`required`], and when the cluster refuses.
pub async fn database() -> Option<TestDatabase> {
    database_in("ATTACHE_TEST_POSTGRES", "no PostgreSQL").await
}

/// The same, where the extension pgvector may be created. The cluster is started for tests that have `pgvector` in their names.
///
/// # Panics
/// As [`database`].
pub async fn database_with_pgvector() -> Option<TestDatabase> {
    database_in("ATTACHE_TEST_PGVECTOR", "no PostgreSQL with pgvector").await
}

async fn database_in(variable: &str, absent: &str) -> Option<TestDatabase> {
    let Ok(cluster) = env::var(variable) else {
        assert!(!required(), "{variable} is not set, and ATTACHE_TEST_REQUIRE_ALL=1 asks for every component");
        eprintln!("SKIPPED: {absent} ({variable} is not set): this test has shown nothing");
        return None;
    };
    if cluster == "unavailable" {
        eprintln!("SKIPPED: {absent} was built for this machine: this test has shown nothing");
        return None;
    }
    let mut connection = connect(&cluster).await;
    loop {
        let name = format!("test_{}_{}", process::id(), DATABASES.fetch_add(1, Ordering::Relaxed));
        match sqlx::query(AssertSqlSafe(format!("CREATE DATABASE {name} TEMPLATE template0")))
            .execute(&mut connection)
            .await
        {
            Ok(_) => return Some(TestDatabase { url: with_database(&cluster, &name), name, cluster }),
            // An earlier process of the run had the same number and did not live to clean up.
            Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some("42P04") => {}
            Err(error) => panic!("CREATE DATABASE: {error}"),
        }
    }
}

/// Whether an absent component is a failure: `ATTACHE_TEST_REQUIRE_ALL=1`.
pub fn required() -> bool {
    env::var("ATTACHE_TEST_REQUIRE_ALL").is_ok_and(|value| value == "1")
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let (cluster, name) = (self.cluster.clone(), self.name.clone());
        // A thread with a runtime of its own: the test's runtime may be ending, or its time may stand still.
        let dropper = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let mut connection = PgConnection::connect(&cluster).await.map_err(std::io::Error::other)?;
                let drop = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
                sqlx::query(AssertSqlSafe(drop)).execute(&mut connection).await.map_err(std::io::Error::other)?;
                std::io::Result::Ok(())
            })
        });
        // Not worth failing for: the whole cluster is removed at the end of the run. A test that killed it on purpose ends here too.
        if let Ok(Err(error)) = dropper.join() {
            eprintln!("could not drop {}: {error}", self.name);
        }
    }
}

async fn connect(cluster: &str) -> PgConnection {
    match PgConnection::connect(cluster).await {
        Ok(connection) => connection,
        Err(error) => panic!("ATTACHE_TEST_POSTGRES={cluster}: {error}"),
    }
}

/// The cluster's URL with another database at its end.
fn with_database(cluster: &str, name: &str) -> String {
    let (address, options) =
        cluster.split_once('?').map_or((cluster, None), |(address, options)| (address, Some(options)));
    let (server, _) = address.rsplit_once('/').unwrap_or((address, ""));
    options.map_or_else(|| format!("{server}/{name}"), |options| format!("{server}/{name}?{options}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_is_the_last_part_of_the_path() {
        assert_eq!(with_database("postgres://postgres@127.0.0.1:1/postgres", "a"), "postgres://postgres@127.0.0.1:1/a");
        assert_eq!(with_database("postgres:///postgres?host=/tmp", "a"), "postgres:///a?host=/tmp");
    }

    #[tokio::test]
    async fn databases_are_apart_and_gone_when_dropped() {
        let (Some(one), Some(two)) = (database().await, database().await) else { return };
        assert_ne!(one.url, two.url);
        let mut inside = PgConnection::connect(&one.url).await.unwrap();
        sqlx::query("CREATE TABLE thing (id BIGINT)").execute(&mut inside).await.unwrap();
        let mut beside = PgConnection::connect(&two.url).await.unwrap();
        assert!(sqlx::query("SELECT id FROM thing").execute(&mut beside).await.is_err());

        let (url, cluster, name) = (one.url.clone(), one.cluster.clone(), one.name.clone());
        drop(one);
        assert!(PgConnection::connect(&url).await.is_err());
        let left = sqlx::query("SELECT 1 FROM pg_database WHERE datname = $1").bind(name);
        assert!(left.fetch_optional(&mut connect(&cluster).await).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn the_cluster_keeps_its_promises() {
        let Some(database) = database().await else { return };
        let mut connection = PgConnection::connect(&database.url).await.unwrap();
        for (setting, value) in [("fsync", "on"), ("synchronous_commit", "on"), ("server_encoding", "UTF8")] {
            let shown: String = sqlx::query_scalar("SELECT current_setting($1)")
                .bind(setting)
                .fetch_one(&mut connection)
                .await
                .unwrap();
            assert_eq!(shown, value, "{setting}");
        }
    }
}
