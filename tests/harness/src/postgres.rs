//! A PostgreSQL database for each test that needs one.
//!
//! The cluster is started once for the whole test run by `postgres-cluster` (see `.config/nextest.toml`), and its first test creates a
//! database with the current schema, which [`database`] copies. Tests of migrations and of first starts use [`empty_database`].

mod standby;
mod template;
pub mod versions;

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process, thread};

use sqlx::{AssertSqlSafe, Connection, PgConnection};

static DATABASES: AtomicU32 = AtomicU32::new(0);

/// A database for one test; dropping it drops the database and its connections.
#[derive(Debug)]
pub struct TestDatabase {
    /// `postgres://…`, as the configuration key `database.url` takes it.
    pub url: String,
    name: String,
    cluster: String,
}

/// The environment variable with the URL of the cluster.
const CLUSTER: &str = "ATTACHE_TEST_POSTGRES";
const NO_CLUSTER: &str = "no PostgreSQL";

/// The content of a database when a test receives it.
#[derive(Debug, Clone, Copy)]
enum Content {
    Nothing,
    /// The tables of the server and of its log, with only the rows that migrations insert.
    Schema,
}

/// Creates a database with the current schema, in which no server has started yet; `None` without a cluster, which is reported on standard
/// error.
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
    database_in(CLUSTER, NO_CLUSTER, Content::Schema).await
}

/// Creates an empty database, for tests of migrations and of first starts.
///
/// # Panics
/// As [`database`].
pub async fn empty_database() -> Option<TestDatabase> {
    database_in(CLUSTER, NO_CLUSTER, Content::Nothing).await
}

/// [`database`] on the cluster with the extension pgvector, which is started for tests that have `pgvector` in their names.
///
/// # Panics
/// As [`database`].
pub async fn database_with_pgvector() -> Option<TestDatabase> {
    database_in("ATTACHE_TEST_PGVECTOR", "no PostgreSQL with pgvector", Content::Schema).await
}

async fn database_in(variable: &str, absent: &str, content: Content) -> Option<TestDatabase> {
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
    let template = match content {
        Content::Nothing => "template0".to_owned(),
        Content::Schema => template::name(&cluster, &mut connection).await,
    };
    loop {
        let name = format!("test_{}_{}", process::id(), DATABASES.fetch_add(1, Ordering::Relaxed));
        // Faster than the default, which writes the copy to the write-ahead log: the files are small, and in memory if possible.
        let create = format!("CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy");
        match sqlx::query(AssertSqlSafe(create)).execute(&mut connection).await {
            Ok(_) => return Some(TestDatabase { url: with_database(&cluster, &name), name, cluster }),
            // An earlier process of the run had the same number and did not live to clean up.
            Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some("42P04") => {}
            Err(error) => panic!("CREATE DATABASE: {error}"),
        }
    }
}

/// A cluster for one test, which may be stopped and started. It is removed after the test's process, for any end of that.
#[derive(Debug)]
pub struct TestCluster {
    /// `postgres://…`, as the configuration key `database.url` takes it.
    pub url: String,
    folder: PathBuf,
    /// PostgreSQL's own program for that.
    pg_ctl: PathBuf,
}

/// Starts a cluster; `None` without PostgreSQL, which is reported on standard error.
///
/// # Panics
/// When there is no PostgreSQL although it is [`required`], and when the cluster does not start.
pub async fn cluster() -> Option<TestCluster> {
    cluster_with(&[]).await
}

/// [`cluster`] with a version of PostgreSQL.
///
/// # Panics
/// As [`cluster`].
pub async fn cluster_of_version(version: u32) -> Option<TestCluster> {
    let cluster = cluster_with(&["version", &version.to_string()]).await?;
    let found: i32 = sqlx::query_scalar("SELECT current_setting('server_version_num')::INT / 10000")
        .fetch_one(&mut connect(&cluster.url).await)
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(u32::try_from(found), Ok(version));
    Some(cluster)
}

async fn cluster_with(arguments: &[&str]) -> Option<TestCluster> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut maker = Command::new(cargo);
    maker.args(["run", "--quiet", "--locked", "--package", "attache-postgres-cluster", "--"]).args(arguments);
    // Without these variables it starts another cluster, prints its URL, and removes it after this process.
    maker.env_remove("NEXTEST_ENV").env_remove("ATTACHE_TEST_POSTGRES").current_dir(env!("CARGO_MANIFEST_DIR"));
    let made = maker.output().unwrap_or_else(|error| panic!("postgres-cluster: {error}"));
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let url = String::from_utf8_lossy(&made.stdout).trim().to_owned();
    if url.is_empty() || url == "unavailable" {
        eprintln!("SKIPPED: no PostgreSQL {}: this test has shown nothing", arguments.join(" "));
        return None;
    }
    let mut connection = connect(&url).await;
    let folder: String = sqlx::query_scalar("SHOW data_directory")
        .fetch_one(&mut connection)
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    let folder = PathBuf::from(folder);
    let server = fs::read_link(format!("/proc/{}/exe", postmaster(&folder)));
    let server = server.unwrap_or_else(|error| panic!("the program of the cluster: {error}"));
    Some(TestCluster { url, pg_ctl: server.with_file_name("pg_ctl"), folder })
}

/// The process of the server, from its lock file.
fn postmaster(folder: &Path) -> String {
    let lock =
        fs::read_to_string(folder.join("postmaster.pid")).unwrap_or_else(|error| panic!("postmaster.pid: {error}"));
    lock.lines().next().unwrap_or_default().to_owned()
}

impl TestCluster {
    /// Stops it, in one of the modes of `pg_ctl` (`fast`, `immediate`), and waits until it has ended.
    pub fn stop(&self, mode: &str) {
        self.run(&["stop", "--wait", "--mode", mode]);
    }

    /// Starts it at the same address and waits until it answers.
    pub fn start(&self) {
        let log = self.folder.with_file_name("log");
        self.run(&["start", "--wait", "--timeout=60", "--log", &log.to_string_lossy()]);
    }

    /// Runs `pg_ctl` as the user that the cluster belongs to: PostgreSQL refuses root.
    fn run(&self, arguments: &[&str]) {
        let owner = fs::metadata(&self.folder).unwrap_or_else(|error| panic!("{}: {error}", self.folder.display()));
        let mut command = Command::new(&self.pg_ctl);
        command.args(arguments).arg("--pgdata").arg(&self.folder).current_dir(&self.folder).env("LC_ALL", "C");
        if fs::metadata("/proc/self").is_ok_and(|mine| mine.uid() != owner.uid()) {
            command.uid(owner.uid()).gid(owner.gid());
        }
        // Not pipes: the server would inherit them, and reading them to their end would wait for its death.
        let ended = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        assert!(ended.is_ok_and(|status| status.success()), "pg_ctl {arguments:?}; see {}", self.folder.display());
    }
}

/// Runs one of PostgreSQL's programs, such as `pg_dump`, of the version of the server at `url`.
///
/// # Panics
/// When it fails.
pub async fn program(url: &str, name: &str, arguments: &[&str]) {
    let folder: String = sqlx::query_scalar("SELECT setting FROM pg_config WHERE name = 'BINDIR'")
        .fetch_one(&mut connect(url).await)
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    let done = Command::new(Path::new(&folder).join(name)).args(arguments).env("LC_ALL", "C").output();
    let done = done.unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(done.status.success(), "{name} {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Whether an absent component is a failure: `ATTACHE_TEST_REQUIRE_ALL=1`.
pub fn required() -> bool {
    env::var("ATTACHE_TEST_REQUIRE_ALL").is_ok_and(|value| value == "1")
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let (cluster, name) = (self.cluster.clone(), self.name.clone());
        // A thread with a separate runtime: the test's runtime may be ending, or its time may be paused.
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

/// Connects to a cluster or a database of it.
///
/// # Panics
/// When it refuses.
pub async fn connect(cluster: &str) -> PgConnection {
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
    async fn a_database_has_the_migrations_of_both_schemas_and_an_empty_one_has_none() {
        const MIGRATED: &str =
            "SELECT table_schema::TEXT FROM information_schema.tables WHERE table_name = '_sqlx_migrations'
            ORDER BY table_schema";
        let (Some(database), Some(empty)) = (database().await, empty_database().await) else { return };
        for (url, schemas) in [(&database.url, &["public", "statistics"][..]), (&empty.url, &[][..])] {
            let migrated = sqlx::query_scalar(MIGRATED).fetch_all(&mut connect(url).await).await;
            let migrated: Vec<String> = migrated.unwrap();
            assert_eq!(migrated, schemas);
        }
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
