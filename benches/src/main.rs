//! `attache-bench`: speed and cost of the server, as ratios to floors measured in the same run.
//!
//! `make bench` builds everything with the profile that is shipped, and starts this. Every part is a process of its own, and
//! all of them are this one program, started again with another command:
//!
//! ```text
//! attache-bench ──starts──▶ attache serve            the product, own folder, own configuration   ─┐ in turn,
//!      │       ──starts──▶ attache-bench floor …     what the same machine does at the least      ─┘ A B A B …
//!      │       ──starts──▶ attache-bench upstream    a statistics service that answers at once
//!      │       ──starts──▶ attache-bench pages       a web server whose pages are fetched
//!      │       ──starts──▶ node events.mjs           what others build the same paths with, only with `--peers`
//!      ├──pipes a plan──▶ attache-bench load         the only client: sends it, prints what came back
//!      └──pipes a request──▶ attache-bench listen    the same for streams: joins it many times at once
//! ```
//!
//! With two cores the generator competes with the server, so CPU per request is the steadier figure beside the rate.
//! A new path is one `impl Scenario` (see [`scenario`]); what is no exchange of requests and answers is a trial
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

/// The parts that run as processes of their own.
#[derive(Debug, Subcommand)]
enum Part {
    /// Serves, or is, one of the floors.
    #[command(hide = true)]
    Floor {
        /// Which.
        #[arg(value_enum)]
        floor: floor::Floor,
        #[command(flatten)]
        size: floor::Size,
    },
    /// Serves the pages of a folder, to be fetched.
    #[command(hide = true)]
    Pages {
        /// Files whose names are numbers.
        folder: PathBuf,
    },
    /// Reads a request from standard input, joins that stream many times at once, prints the outcome.
    #[command(hide = true)]
    Listen {
        /// The server.
        address: SocketAddr,
        /// Streams at once.
        #[arg(long)]
        streams: usize,
        /// How long.
        #[arg(long)]
        seconds: f64,
    },
    /// Reads a plan from standard input, sends it, prints the outcome.
    #[command(hide = true)]
    Load {
        /// The server.
        address: SocketAddr,
    },
    /// Print the lines about the peers that the README shows, from the report.
    Readme {
        /// The report.
        #[arg(long, default_value = "benches/results.md")]
        report: PathBuf,
    },
    /// A statistics service that takes everything.
    #[command(hide = true)]
    Upstream {
        /// How long it thinks about each event.
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
