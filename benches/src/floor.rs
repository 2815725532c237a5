//! The floors as processes of their own. Those for requests and for the disk are frozen in the crate `attache-floors`.

mod disk;
mod embed;
mod fetch;
pub mod scan;
pub mod stream;

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use axum::Router;
use axum::serve::ListenerExt;
use clap::{Args, ValueEnum};
use tokio::net::TcpListener;

use crate::Result;

/// A floor: a minimal program with which a path of the server is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Floor {
    /// F1b: a handler that reads the body and answers a fixed small JSON body.
    Bare,
    /// F2r: F1b, plus a JSON value of the body and the SHA-256 of its text.
    Hash,
    /// F3r: groups of 1.1 KB records in a plain file, one `fdatasync` a group, without HTTP.
    Disk,
    /// F4: the sentence model alone, on as many threads as there are connections, on texts from standard input.
    Embed,
    /// F4 as a search needs it: one text after the other, on one thread.
    Query,
    /// F5: the exact cosine with every vector, 32-bit floats in one tight loop on one thread.
    Scan,
    /// The HTTP client of the fetcher alone, on addresses from standard input.
    Fetch,
    /// A bare handler that sends a stream of messages from a file in its folder.
    Stream,
}

/// The amount of work for a floor; each floor uses the options that apply to it.
#[derive(Debug, Clone, Args)]
pub struct Size {
    /// Folder for the file of the disk floor, and of the messages of the stream floor.
    #[arg(long)]
    pub folder: Option<PathBuf>,
    /// Number of concurrent senders, threads or fetches.
    #[arg(long, default_value_t = 64)]
    pub connections: usize,
    /// Duration of the measurement in seconds.
    #[arg(long, default_value_t = 4.0)]
    pub seconds: f64,
    /// Number of vectors to scan.
    #[arg(long, default_value_t = 100_000)]
    pub rows: usize,
    /// Seed of the vectors.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Size {
    fn length(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    fn folder(&self) -> Result<&PathBuf> {
        Ok(self.folder.as_ref().ok_or("this floor needs a folder")?)
    }
}

impl Floor {
    /// The name that reports print.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bare => "F1b bare",
            Self::Hash => "F2r hash",
            Self::Disk => "F3r disk",
            Self::Embed => "F4 embed",
            Self::Query => "F4 embed, one query at a time",
            Self::Scan => "F5 scan",
            Self::Fetch => "fetch",
            Self::Stream => "bare stream",
        }
    }

    /// The subcommand of `attache-bench floor` that starts it.
    pub fn command(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Hash => "hash",
            Self::Disk => "disk",
            Self::Embed => "embed",
            Self::Query => "query",
            Self::Scan => "scan",
            Self::Fetch => "fetch",
            Self::Stream => "stream",
        }
    }

    /// The status of a successful response; 0 for floors without HTTP.
    pub fn status(self) -> u16 {
        match self {
            Self::Fetch | Self::Stream => 200,
            Self::Bare | Self::Hash => 202,
            Self::Disk | Self::Embed | Self::Query | Self::Scan => 0,
        }
    }

    /// Serves until killed (F1b, F2r, the stream), or measures and prints.
    pub fn run(self, size: &Size) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            match self {
                Self::Bare => serve(floors::bare()).await,
                Self::Hash => serve(floors::hash()).await,
                Self::Disk => disk::measure(size.folder()?, size.connections, size.length()).await,
                Self::Embed => embed::together(size.connections),
                Self::Query => embed::one_by_one(size.length()),
                Self::Scan => scan::measure(size.rows, size.seed, size.length()),
                Self::Fetch => fetch::measure(size.connections).await,
                Self::Stream => serve(stream::router(&size.folder()?.join(stream::FILE))?).await,
            }
        })
    }
}

/// Serves on a free port of the loopback address, and prints the address as its first line.
pub async fn serve(router: Router) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("{}", listener.local_addr()?);
    // `TCP_NODELAY`, as in the product: no response waits for a fuller packet.
    let listener = listener.tap_io(|stream| _ = stream.set_nodelay(true));
    Ok(axum::serve(listener, router).await?)
}
