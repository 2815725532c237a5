//! The floors as processes. The crate `attache-floors` contains the frozen floors of requests and of the disk.

mod disk;
mod embed;
mod fetch;
mod postgres;
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

/// A floor to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Floor {
    /// F1b: a handler that reads the body and responds with a fixed small JSON body.
    Bare,
    /// F2r: F1b, plus a JSON value of the body and the SHA-256 of its text.
    Hash,
    /// F3r: groups of 1.1 KB records in a plain file, with one `fdatasync` per group, without HTTP.
    Disk,
    /// The records of F3r in a table of PostgreSQL, with one `COPY` per group, without HTTP and without a driver.
    Postgres,
    /// F4: the sentence model alone on texts from standard input, with one thread per connection.
    Embed,
    /// F4 as a search uses it: one text at a time on one thread.
    Query,
    /// F5: the exact cosine with every vector, 32-bit floats in a tight loop on one thread.
    Scan,
    /// The HTTP client of the fetcher alone, on URLs from standard input.
    Fetch,
    /// A bare handler that streams messages from a file.
    Stream,
}

/// Size of the work; each floor uses some of the values.
#[derive(Debug, Clone, Args)]
pub struct Size {
    /// Folder of the disk floor and of the stream's messages.
    #[arg(long)]
    pub folder: Option<PathBuf>,
    /// URL of the database of the floor of PostgreSQL, `postgres://user@address/name`.
    #[arg(long)]
    pub database: Option<String>,
    /// Number of senders, threads, or concurrent fetches.
    #[arg(long, default_value_t = 64)]
    pub connections: usize,
    /// Length of the measurement in seconds.
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
    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bare => "F1b bare",
            Self::Hash => "F2r hash",
            Self::Disk => "F3r disk",
            Self::Postgres => "PostgreSQL, one COPY per group",
            Self::Embed => "F4 embed",
            Self::Query => "F4 embed, one query at a time",
            Self::Scan => "F5 scan",
            Self::Fetch => "fetch",
            Self::Stream => "bare stream",
        }
    }

    /// Subcommand that runs the floor.
    pub fn command(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Hash => "hash",
            Self::Disk => "disk",
            Self::Postgres => "postgres",
            Self::Embed => "embed",
            Self::Query => "query",
            Self::Scan => "scan",
            Self::Fetch => "fetch",
            Self::Stream => "stream",
        }
    }

    /// Status of its responses; 0 for floors without HTTP.
    pub fn status(self) -> u16 {
        match self {
            Self::Fetch | Self::Stream => 200,
            Self::Bare | Self::Hash => 202,
            Self::Disk | Self::Postgres | Self::Embed | Self::Query | Self::Scan => 0,
        }
    }

    /// Serves until killed (F1b, F2r, the stream), or measures and prints the outcome.
    pub fn run(self, size: &Size) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            match self {
                Self::Bare => serve(floors::bare()).await,
                Self::Hash => serve(floors::hash()).await,
                Self::Disk => disk::measure(size.folder()?, size.connections, size.length()).await,
                Self::Postgres => {
                    let database = size.database.as_ref().ok_or("this floor needs a database")?;
                    postgres::measure(database, size.connections, size.length()).await
                }
                Self::Embed => embed::together(size.connections),
                Self::Query => embed::one_by_one(size.length()),
                Self::Scan => scan::measure(size.rows, size.seed, size.length()),
                Self::Fetch => fetch::measure(size.connections).await,
                Self::Stream => serve(stream::router(&size.folder()?.join(stream::FILE))?).await,
            }
        })
    }
}

/// Serves on a free port and prints the address.
pub async fn serve(router: Router) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("{}", listener.local_addr()?);
    // Disables Nagle's algorithm, as the product does.
    let listener = listener.tap_io(|stream| _ = stream.set_nodelay(true));
    Ok(axum::serve(listener, router).await?)
}
