//! `postgres-cluster`: a throw-away PostgreSQL cluster for one test run.
//!
//! The test runner starts it before the tests (`.config/nextest.toml`). It creates a cluster on a free loopback port and
//! hands its URL to the tests in `ATTACHE_TEST_POSTGRES`; with the argument `pgvector`, one that has this extension, in
//! `ATTACHE_TEST_PGVECTOR`. A watchdog, left behind, stops and removes the cluster when the
//! runner is gone, however it went.
//!
//! - Durability stays on, because the product refuses to start without it; the data is in memory if possible.
//! - PostgreSQL refuses to run as root, so root runs it as the user `postgres`.
//! - pgvector and its PostgreSQL come from PyPI (`tests/python/pgvector.txt`); `make tools` installs them.
//! - Without PostgreSQL it reports that and succeeds, unless `ATTACHE_TEST_REQUIRE_ALL=1`.

mod cluster;
mod pgvector;

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::process::parent_id;
use std::process::ExitCode;
use std::{env, io};

use cluster::Programs;
use tools::watchdog;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => start(&SYSTEM),
        ["pgvector"] => start(&PGVECTOR),
        ["watch", run, maker, folder] => watchdog::watch(run, maker, folder.as_ref(), cluster::remove),
        _ => Err(io::Error::other("usage: postgres-cluster [pgvector]")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("postgres-cluster: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A kind of cluster.
struct Kind {
    /// The environment variable with its URL.
    variable: &'static str,
    /// Its programs.
    find: fn() -> Option<Programs>,
    /// Whether there are none for this machine.
    is_unavailable: fn() -> bool,
    absent: &'static str,
}

const SYSTEM: Kind = Kind {
    variable: "ATTACHE_TEST_POSTGRES",
    find: Programs::find,
    is_unavailable: || false,
    absent: "no PostgreSQL 15 or newer found in PATH or /usr/lib/postgresql",
};

const PGVECTOR: Kind = Kind {
    variable: "ATTACHE_TEST_PGVECTOR",
    find: pgvector::find,
    is_unavailable: pgvector::is_unavailable,
    absent: "no PostgreSQL with pgvector: `make tools` installs it",
};

/// Starts the cluster and passes its address to the tests.
fn start(kind: &Kind) -> io::Result<()> {
    if env::var_os(kind.variable).is_some() {
        return Ok(()); // the caller brought a cluster
    }
    let Some(programs) = (kind.find)() else {
        return if (kind.is_unavailable)() { announce(kind, UNAVAILABLE) } else { absent(kind.absent) };
    };
    let folder = cluster::make_folder(&programs)?;
    watchdog::leave_behind(parent_id(), &folder)?;
    announce(kind, &cluster::start(programs, &folder)?)
}

/// The value instead of a URL if there are no programs for this machine: the tests report that and are skipped.
const UNAVAILABLE: &str = "unavailable";

fn announce(kind: &Kind, url: &str) -> io::Result<()> {
    match env::var_os("NEXTEST_ENV") {
        Some(file) => writeln!(OpenOptions::new().append(true).open(file)?, "{}={url}", kind.variable),
        None => writeln!(io::stdout(), "{url}"), // started by hand: lives as long as the shell that started it
    }
}

fn absent(message: &'static str) -> io::Result<()> {
    if env::var("ATTACHE_TEST_REQUIRE_ALL").is_ok_and(|value| value == "1") {
        return Err(io::Error::other(message));
    }
    eprintln!("postgres-cluster: {message}: EVERY TEST THAT NEEDS IT WILL BE SKIPPED");
    Ok(())
}
