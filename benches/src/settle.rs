//! Waits until a server has completed its deferred work, and measures its cost.
//!
//! A server may respond before it has placed events in the tree, signed a checkpoint, counted usage, and checkpointed
//! the write-ahead log. CPU time per event includes this work, since a server that defers more would otherwise look
//! faster:
//!
//! 1. the signed checkpoint contains every acknowledged event;
//! 2. the process has been idle for a second, so that no periodic pass has work;
//! 3. the harness checkpoints the remaining write-ahead logs, and adds the CPU time to the server's.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection, Executor, SqliteConnection};

use crate::client::Client;
use crate::options::Result;
use crate::plan;
use crate::process::Server;

/// Timeout of settling: a restarted server with a log of millions of events has much to process.
const TIME_LIMIT: Duration = Duration::from_mins(10);
/// Length of an idle window; two in a row are required.
const WINDOW: Duration = Duration::from_millis(500);
const QUIET_WINDOWS: u32 = 2;
/// Maximum CPU time of an idle window, in seconds: timers of an idle server, in ticks of 10 ms.
const QUIET_CPU_SECONDS: f64 = 0.02;

/// A server with deferred work.
#[derive(Debug, Clone)]
pub struct Debtor<'a> {
    pub server: &'a Server,
    /// Address of the checkpoint, and the tree size to wait for; `None` for a server without a tree.
    pub tree: Option<(SocketAddr, u64)>,
    /// Files of the databases.
    pub databases: Vec<PathBuf>,
}

/// CPU seconds of the server from its start until it has settled.
pub fn settled(debtor: &Debtor) -> Result<f64> {
    let begin = Instant::now();
    let in_time = |what: &str| -> Result<()> {
        if begin.elapsed() < TIME_LIMIT { Ok(()) } else { Err(format!("the server does not settle: {what}").into()) }
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
    let mut usage_before = debtor.server.usage()?.cpu_seconds;
    while quiet < QUIET_WINDOWS {
        in_time("it is never quiet")?;
        thread::sleep(WINDOW);
        let now = debtor.server.usage()?.cpu_seconds;
        // Half a tick of tolerance, because sums of hundredths are not exact.
        quiet = if now - usage_before < QUIET_CPU_SECONDS + 0.005 { quiet + 1 } else { 0 };
        usage_before = now;
    }
    let mut owed = 0.0;
    for database in &debtor.databases {
        owed += fold(database)?;
    }
    Ok(usage_before + owed)
}

/// Number of leaves in the signed trees of all parts of the log.
pub fn tree_size(client: &mut Client) -> Result<u64> {
    let mut sum = 0;
    for part in 0_u64.. {
        let path = format!("/api/v1/audit/checkpoint?log={part}");
        let answer = client.send(&plan::request("GET", &path, &[], b""))?;
        if part > 0 && answer.status == 404 {
            break;
        }
        let note = std::str::from_utf8(&answer.body)?;
        let size = note.lines().nth(1).filter(|_| answer.status == 200).and_then(|line| line.parse::<u64>().ok());
        sum += size.ok_or_else(|| format!("no checkpoint: {} {note}", answer.status))?;
    }
    Ok(sum)
}

/// Checkpoints the write-ahead log of a running server's database; returns the CPU seconds that it took.
fn fold(database: &PathBuf) -> Result<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let usage_before = crate::usage::usage(std::process::id())?.cpu_seconds;
    runtime.block_on(async {
        let options = SqliteConnectOptions::new().filename(database).busy_timeout(Duration::from_secs(10));
        let mut connection = SqliteConnection::connect_with(&options).await?;
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").await?;
        connection.close().await
    })?;
    Ok(crate::usage::usage(std::process::id())?.cpu_seconds - usage_before)
}
