//! `postgres-cluster`: a throw-away PostgreSQL cluster for one test run.
//!
//! The test runner starts it before the tests (`.config/nextest.toml`). It creates a cluster on a free loopback port and passes its URL to
//! the tests in `ATTACHE_TEST_POSTGRES`; with the argument `pgvector`, a cluster with this extension, in `ATTACHE_TEST_PGVECTOR`. A
//! background watchdog stops and removes the cluster when the runner has ended, for any reason.
//!
//! - Durability stays on, because the product refuses to start without it; the data is in memory if possible.
//! - PostgreSQL refuses to run as root, so root runs it as the user `postgres`.
//! - pgvector and its PostgreSQL come from PyPI (`tests/python/pgvector.txt`), other versions from npm (`tests/postgres`); `make tools`
//!   installs them. With the arguments `version 17` it starts one of that version and prints its URL.
//! - Without PostgreSQL it reports that and succeeds, unless `ATTACHE_TEST_REQUIRE_ALL=1`.

mod cluster;
mod packages;

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::process::parent_id;
use std::process::ExitCode;
use std::{env, io};

use cluster::Programs;
use tools::watchdog;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => start(Kind::System),
        ["pgvector"] => start(Kind::Pgvector),
        ["version", version] => {
            version.parse().map_err(io::Error::other).and_then(|version| start(Kind::Version(version)))
        }
        ["watch", run, maker, folder] => watchdog::watch(run, maker, folder.as_ref(), cluster::remove),
        _ => Err(io::Error::other("usage: postgres-cluster [pgvector | version NUMBER]")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("postgres-cluster: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A kind of cluster.
#[derive(Clone, Copy)]
enum Kind {
    /// The PostgreSQL of this computer.
    System,
    /// One with the extension pgvector.
    Pgvector,
    /// One of a version; the URL is printed.
    Version(u32),
}

impl Kind {
    /// The environment variable with its URL.
    fn variable(self) -> &'static str {
        match self {
            Self::System | Self::Version(_) => "ATTACHE_TEST_POSTGRES",
            Self::Pgvector => "ATTACHE_TEST_PGVECTOR",
        }
    }

    fn find(self) -> Option<Programs> {
        match self {
            Self::System => Programs::find(),
            Self::Pgvector => packages::with_pgvector(),
            Self::Version(version) => Programs::of_version(version),
        }
    }

    /// Whether there are none for this computer.
    fn is_unavailable(self) -> bool {
        match self {
            Self::System => false,
            Self::Pgvector => packages::is_pgvector_unavailable(),
            Self::Version(_) => packages::are_versions_unavailable(),
        }
    }

    fn absent(self) -> String {
        match self {
            Self::System => "no PostgreSQL 15 or newer found in PATH or /usr/lib/postgresql".to_owned(),
            Self::Pgvector => "no PostgreSQL with pgvector: `make tools` installs it".to_owned(),
            Self::Version(version) => format!("no PostgreSQL {version}: `make tools` installs it"),
        }
    }
}

/// Starts the cluster and passes its address to the tests.
fn start(kind: Kind) -> io::Result<()> {
    if env::var_os(kind.variable()).is_some() {
        return Ok(()); // the caller brought a cluster
    }
    let Some(programs) = kind.find() else {
        return if kind.is_unavailable() { announce(kind, UNAVAILABLE) } else { absent(&kind.absent()) };
    };
    let folder = cluster::make_folder(&programs)?;
    watchdog::leave_behind(parent_id(), &folder)?;
    announce(kind, &cluster::start(programs, &folder)?)
}

/// The value instead of a URL if there are no programs for this machine: the tests report that and are skipped.
const UNAVAILABLE: &str = "unavailable";

fn announce(kind: Kind, url: &str) -> io::Result<()> {
    match env::var_os("NEXTEST_ENV") {
        Some(file) => writeln!(OpenOptions::new().append(true).open(file)?, "{}={url}", kind.variable()),
        None => writeln!(io::stdout(), "{url}"), // started by hand: lives as long as the shell that started it
    }
}

fn absent(message: &str) -> io::Result<()> {
    if env::var("ATTACHE_TEST_REQUIRE_ALL").is_ok_and(|value| value == "1") {
        return Err(io::Error::other(message.to_owned()));
    }
    eprintln!("postgres-cluster: {message}: EVERY TEST THAT NEEDS IT WILL BE SKIPPED");
    Ok(())
}
