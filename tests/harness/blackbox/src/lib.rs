//! Drives a whole server from outside, over real sockets.
//!
//! | module | content |
//! |---|---|
//! | [`world`] | a server in the test's own process, with a clock that the test moves; one method per endpoint |
//! | [`process`] | the program `attache` as a child process: commands, and a server that can be killed |
//! | [`terminal`] | such a process at a terminal: keys, and the screen as text |
//! | [`browser`] | a browser without a window: cookies, forms and pages of a [`world::World`] |
//! | [`preload`] | libraries that such a process preloads, for faults of its system |
//! | [`client`] | requests, credentials, responses: the same for both |
//! | [`contract`] | checks each response of a [`world::World`] against `/openapi.json` |
//! | [`flow`] | steps of several requests or commands, against a child process |
//! | [`raw`] | requests byte by byte, from any loopback address |
//! | [`stream`] | a reader of the event stream of a batch that checks each byte |
//! | [`receiver`] | an endpoint of webhooks, with faults |
//! | [`site`] | a web site with pages and faults, for the fetcher |
//! | [`library`] | a server with a knowledge API key, and requests to that API |
//! | [`oracle`], [`sender`], [`ledger`] | traffic of events that survives kills: the sent events, the senders, the events that the server must show |
//!
//! This crate depends on the package `attache`, and the tests of that package depend on it. The crate `harness` does not, so that the
//! tests of every crate can use it.

#![expect(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a helper that cannot continue fails its test")]

pub mod browser;
pub mod client;
pub mod contract;
pub mod flow;
pub mod ledger;
pub mod library;
pub mod oracle;
pub mod preload;
pub mod process;
pub mod raw;
pub mod receiver;
pub mod sender;
pub mod site;
pub mod stream;
pub mod terminal;
pub mod witness;
pub mod world;

use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum time that a test waits for something that must happen.
pub const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Pause between two polls of [`eventually`].
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Polls until `poll` returns a value, and fails the test after [`TIME_LIMIT`]; `expected` describes the value in that message.
pub async fn eventually<T>(expected: &str, poll: impl AsyncFn() -> Option<T>) -> T {
    let deadline = tokio::time::Instant::now() + TIME_LIMIT;
    loop {
        if let Some(value) = poll().await {
            return value;
        }
        assert!(tokio::time::Instant::now() < deadline, "timed out: {expected}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// The regular files of a folder and its subfolders; a server has a socket there too. Empty if the folder does not exist.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let below = |path: PathBuf| if path.is_dir() { files(&path) } else { vec![path] };
    entries.flat_map(below).filter(|path| path.is_file()).collect()
}
