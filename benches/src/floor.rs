//! The floors as processes of their own. Those of requests and of the disk are frozen in the crate `attache-floors`.

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

use crate::options::Result;

/// A floor.
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
    /// A bare handler that tells a stream of messages from a file in its folder.
    Stream,
}

/// How much a floor is asked to do. Each floor takes of it what it needs.
#[derive(Debug, Clone, Args)]
pub struct Size {
    /// Folder of the disk, and of the messages of the stream.
    #[arg(long)]
    pub folder: Option<PathBuf>,
    /// Senders, threads, or fetches at once.
    #[arg(long, default_value_t = 64)]
    pub connections: usize,
    /// How long.
    #[arg(long, default_value_t = 4.0)]
    pub seconds: f64,
    /// Vectors that are scanned.
    #[arg(long, default_value_t = 100_000)]
    pub rows: usize,
    /// Seed of those vectors.
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
    /// The name in reports.
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

    /// The command that runs it.
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

    /// What it answers when all is well; 0 where there is no HTTP.
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

/// Serves on a free port, and says where.
pub async fn serve(router: Router) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("{}", listener.local_addr()?);
    // Nothing waits for a fuller packet: the product does the same.
    let listener = listener.tap_io(|stream| _ = stream.set_nodelay(true));
    Ok(axum::serve(listener, router).await?)
}
