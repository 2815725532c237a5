//! `attache-bench`: speed and cost of the server, as ratios to floors measured in the same run.
//!
//! `make bench` builds all binaries with the distribution profile and starts this program. Every part is a separate
//! process, and all parts are subcommands of this program:
//!
//! ```text
//! attache-bench ──starts──▶ attache serve            the product, own folder, own configuration   ─┐ in turn,
//!      │       ──starts──▶ attache-bench floor …     the least work on the same machine           ─┘ A B A B …
//!      │       ──starts──▶ attache-bench upstream    a statistics service that responds at once
//!      │       ──starts──▶ attache-bench pages       a web server with the pages to fetch
//!      │       ──starts──▶ node events.mjs           the same paths with other packages, only with `--peers`
//!      ├──pipes a plan──▶ attache-bench load         the only client: sends it, prints the responses
//!      └──pipes a request──▶ attache-bench listen    the same for streams: joins one many times at once
//! ```
//!
//! With two cores the generator competes with the server, so CPU per request is a steadier figure than the rate. To add
//! a path, implement `Scenario` (see [`scenario`]), or write a trial if it is not an exchange of requests and responses
//! (see [`knowledge_api`]).

mod client;
mod event;
mod events;
mod floor;
mod knowledge_api;
mod listen;
mod load;
mod measurement;
mod options;
mod outcome;
mod peers;
mod plan;
mod population;
mod postgres;
mod probe;
mod process;
mod product;
mod report;
mod run;
mod scenario;
mod settle;
mod states;
mod stock;
mod upstream;
mod usage;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

use options::Options;

/// Speed and cost of the server, as ratios to floors measured in the same run.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    part: Option<Part>,
    #[command(flatten)]
    options: Options,
}

/// Subcommands that run as separate processes.
#[derive(Debug, Subcommand)]
enum Part {
    /// Runs one of the floors.
    #[command(hide = true)]
    Floor {
        /// The floor to run.
        #[arg(value_enum)]
        floor: floor::Floor,
        #[command(flatten)]
        size: floor::Size,
    },
    /// Serves the pages of a folder.
    #[command(hide = true)]
    Pages {
        /// Folder of pages, named by numbers.
        folder: PathBuf,
    },
    /// Read a request from standard input, open its stream many times concurrently, print the outcome.
    #[command(hide = true)]
    Listen {
        /// Address of the server.
        address: SocketAddr,
        /// Number of concurrent streams.
        #[arg(long)]
        streams: usize,
        /// Length of the measurement in seconds.
        #[arg(long)]
        seconds: f64,
    },
    /// Read a plan from standard input, send it, print the outcome.
    #[command(hide = true)]
    Load {
        /// Address of the server.
        address: SocketAddr,
    },
    /// Print the table of peers for the README, from the report.
    Readme {
        /// Path of the report.
        #[arg(long, default_value = "benches/results.md")]
        report: PathBuf,
    },
    /// Runs a statistics service that accepts everything.
    #[command(hide = true)]
    Upstream {
        /// Delay of each response in milliseconds.
        #[arg(long, default_value_t = 0)]
        delay_ms: u64,
    },
}

fn main() -> ExitCode {
    let Arguments { part, options } = Arguments::parse();
    let done = match part {
        None => run::everything(&options.quickened()),
        Some(Part::Floor { floor, size }) => floor.run(&size),
        Some(Part::Pages { folder }) => knowledge_api::pages::serve(&folder),
        Some(Part::Listen { address, streams, seconds }) => {
            listen::from_standard_input(address, streams, Duration::from_secs_f64(seconds))
        }
        Some(Part::Load { address }) => load::from_standard_input(address),
        Some(Part::Readme { report }) => peers::readme(&report),
        Some(Part::Upstream { delay_ms }) => upstream::run(Duration::from_millis(delay_ms)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("attache-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
