//! When a server owes nothing any more for what it has acknowledged, and what it cost until then.
//!
//! A server may answer first and do the rest behind: place events in the tree, sign, count usage, fold the write-ahead log
//! into the database. CPU per event is counted until all of that is done, or a server that defers more would look faster:
//!
//! 1. the signed checkpoint holds every event that was acknowledged;
//! 2. the process has been quiet for a second, which means that no pass finds work any more;
//! 3. what is left in the write-ahead logs of its databases is folded in by the harness, and the CPU time of that is
//!    charged to the server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection, Executor, SqliteConnection};

use crate::client::Client;
use crate::options::Result;
use crate::plan;
use crate::process::{self, Server};

/// Longest wait for a server to settle: a log of millions of events has much to catch up with when it is started.
const PATIENCE: Duration = Duration::from_mins(10);
/// A quiet window is this long; two in a row are needed.
const WINDOW: Duration = Duration::from_millis(500);
const QUIET_WINDOWS: u32 = 2;
/// Most CPU time of a quiet window, in seconds: what timers of an idle server take, in ticks of 10 ms.
const QUIET_CPU_SECONDS: f64 = 0.02;

/// A server that is waited for.
#[derive(Debug, Clone)]
pub struct Debtor<'a> {
    /// The process.
    pub server: &'a Server,
    /// Where it tells its checkpoint, and the tree size to wait for; `None` for a server without a tree.
    pub tree: Option<(SocketAddr, u64)>,
    /// The files of its databases.
    pub databases: Vec<PathBuf>,
}

/// CPU seconds of the server until it has settled, everything since its start included.
pub fn settled(debtor: &Debtor) -> Result<f64> {
    let begin = Instant::now();
    let in_time = |what: &str| -> Result<()> {
        if begin.elapsed() < PATIENCE { Ok(()) } else { Err(format!("the server does not settle: {what}").into()) }
    };
    if let Some((address, wanted)) = debtor.tree {
        const ASK_EVERY: Duration = Duration::from_millis(50);
        let mut client = Client::new(address)?;
        while tree_size(&mut client)? < wanted {
            in_time("its tree lacks events that it has acknowledged")?;
            thread::sleep(ASK_EVERY);
        }
    }
    let mut quiet = 0;
    let mut before = debtor.server.usage()?.cpu_seconds;
    while quiet < QUIET_WINDOWS {
        in_time("it is never quiet")?;
        thread::sleep(WINDOW);
        let now = debtor.server.usage()?.cpu_seconds;
        // Half a tick more, because sums of hundredths are not exact.
        quiet = if now - before < QUIET_CPU_SECONDS + 0.005 { quiet + 1 } else { 0 };
        before = now;
    }
    let mut owed = 0.0;
    for database in &debtor.databases {
        owed += fold(database)?;
    }
    Ok(before + owed)
}

/// Leaves in the signed tree.
pub fn tree_size(client: &mut Client) -> Result<u64> {
    let answer = client.send(&plan::request("GET", "/api/v1/audit/checkpoint", &[], b""))?;
    let note = std::str::from_utf8(&answer.body)?;
    let size = note.lines().nth(1).filter(|_| answer.status == 200).and_then(|line| line.parse().ok());
    size.ok_or_else(|| format!("no checkpoint: {} {note}", answer.status).into())
}

/// Folds the write-ahead log into the file of a living server; returns the CPU seconds that it took here.
fn fold(database: &PathBuf) -> Result<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let before = crate::usage::usage(std::process::id())?.cpu_seconds;
    runtime.block_on(async {
        let options = SqliteConnectOptions::new().filename(database).busy_timeout(Duration::from_secs(10));
        let mut connection = SqliteConnection::connect_with(&options).await?;
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").await?;
        connection.close().await
    })?;
    Ok(crate::usage::usage(std::process::id())?.cpu_seconds - before)
}
