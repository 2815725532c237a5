//! Tests of a suite again, on each version of PostgreSQL that is supported.

use std::env;
use std::process::Command;

use super::cluster_of_version;

/// Runs tests of the calling program on a cluster of this version: the PostgreSQL tests with one of `names` in their names.
///
/// # Panics
/// When a test fails, when no test matches, and as [`super::cluster`].
pub async fn repeat_on(version: u32, names: &[&str]) {
    let Some(cluster) = cluster_of_version(version).await else { return };
    let program = env::current_exe().unwrap_or_else(|error| panic!("the program of the tests: {error}"));
    let done = Command::new(program)
        .args(names)
        .args(["--skip", "on_sqlite", "--skip", "on_pgvector", "--skip", "on_version", "--test-threads", "4"])
        .env("ATTACHE_TEST_POSTGRES", &cluster.url)
        .env_remove("NEXTEST_ENV")
        .output();
    let done = done.unwrap_or_else(|error| panic!("the tests: {error}"));
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "PostgreSQL {version}: {said}{}", String::from_utf8_lossy(&done.stderr));
    for name in names {
        let has_run =
            said.lines().any(|line| line.contains(name) && line.contains("on_postgres") && line.ends_with("ok"));
        assert!(has_run, "no test of {name} on PostgreSQL has run: {said}");
    }
}

/// A test for each supported version, which runs the program's tests with one of these words in their names.
#[macro_export]
macro_rules! on_each_postgres_version {
    ($($name:literal),+ $(,)?) => {
        $crate::on_each_postgres_version!(@ [$($name),+] on_version_15 15, on_version_16 16, on_version_17 17, on_version_18 18);
    };
    (@ $names:tt $($test:ident $version:literal),+) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            $crate::postgres::versions::repeat_on($version, &$names).await;
        }
    )+};
}
