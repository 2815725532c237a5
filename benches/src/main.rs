//! `attache-bench`: speed and cost of the server, as ratios to floors measured in the same run.
//!
//! `make bench` builds everything with the release profile, and starts this program. Every part is a separate process of the
//! same program, started with another subcommand:
//!
//! ```text
//! attache-bench ──starts──▶ attache serve            the product, own folder, own configuration   ─┐ in turn,
//!      │       ──starts──▶ attache-bench floor …     the minimum that the same machine needs      ─┘ A B A B …
//!      │       ──starts──▶ attache-bench upstream    a statistics service that answers immediately
//!      │       ──starts──▶ attache-bench pages       a web server whose pages are fetched
//!      │       ──starts──▶ node events.mjs           packages of npm for the same paths, only with `--peers`
//!      ├──pipes a plan──▶ attache-bench load         the only client: sends the plan, prints the outcome
//!      └──pipes a request──▶ attache-bench listen    the same for streams: opens many concurrently
//! ```
//!
//! With two cores the generator competes with the server, so CPU per request is the steadier figure beside the rate.
//! A new path is one `impl Scenario` (see [`scenario`]); a measurement that does not consist of requests and responses is a
//! trial (see [`knowledge_api`]).

mod client;
mod event;
mod events;
mod floor;
mod knowledge_api;
mod listen;
mod load;
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

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

/// Ends the run; the message is for the person who started it.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
/// The result of every part of the harness.
pub type Result<T> = std::result::Result<T, Failure>;

/// Speed and cost of the server, as ratios to floors measured in the same run.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    part: Option<Part>,
    #[command(flatten)]
    options: Options,
}

/// What to measure, for how long, and where the report is written.
#[derive(Debug, Clone, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
struct Options {
    /// Scenarios and probes to run, by name; all of them when none is named.
    names: Vec<String>,
    /// List the names and exit.
    #[arg(long)]
    list: bool,
    /// Measure only the floors, which need no server.
    #[arg(long)]
    floors_only: bool,
    /// Measure briefly, for a first impression: one second, two rounds, small counts.
    #[arg(long)]
    quick: bool,
    /// Measure only the peers beside the server.
    #[arg(long)]
    peers: bool,
    /// Events in the filled log of the states; may be given several times. Filling 10,000,000 takes half an hour.
    #[arg(long, default_values_t = [1_000_000])]
    log: Vec<u64>,
    /// Connections, each with one request in flight.
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Seconds of one measurement, after a short warm-up.
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Number of rounds, each of which measures floors and product once.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Maximum number of requests of one measurement.
    #[arg(long, default_value_t = 160_000)]
    requests_max: usize,
    /// Seed of all random data.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Program file of the server; by default the one beside this program.
    #[arg(long)]
    server: Option<PathBuf>,
    /// Folder for data folders, on the disk that is measured.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Only the states of events whose description contains this text, such as "random ids".
    #[arg(long)]
    state: Option<String>,
    /// The folder with the peers' `node_modules`; `make bench-peers` fills and names it.
    #[arg(long, env = "ATTACHE_BENCH_PEERS")]
    peers_folder: Option<PathBuf>,
    /// File of the report; `-` for the terminal only.
    #[arg(long, default_value = "benches/results.md")]
    report: PathBuf,
}

/// The parts that run as processes of their own.
#[derive(Debug, Subcommand)]
enum Part {
    /// Serve or run one of the floors.
    #[command(hide = true)]
    Floor {
        /// The floor.
        #[arg(value_enum)]
        floor: floor::Floor,
        #[command(flatten)]
        size: floor::Size,
    },
    /// Serve the pages of a folder, to be fetched.
    #[command(hide = true)]
    Pages {
        /// Folder of files whose names are numbers.
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
        /// Duration of the measurement in seconds.
        #[arg(long)]
        seconds: f64,
    },
    /// Read a plan from standard input, send it, print the outcome.
    #[command(hide = true)]
    Load {
        /// Address of the server.
        address: SocketAddr,
    },
    /// Print the lines about the peers that the README shows, from the report.
    Readme {
        /// File of the report.
        #[arg(long, default_value = "benches/results.md")]
        report: PathBuf,
    },
    /// Serve as a statistics service that accepts every event.
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

impl Options {
    fn quickened(self) -> Self {
        if !self.quick {
            return self;
        }
        Self {
            seconds: self.seconds.min(1.0),
            rounds: self.rounds.min(2),
            requests_max: self.requests_max.min(40_000),
            log: self.log.into_iter().map(|log| log.min(20_000)).collect(),
            ..self
        }
    }

    /// Numbers of chains, which take turns, in the states of the log.
    fn chains(&self) -> [usize; 3] {
        let few = self.connections.min(64);
        if self.quick { [few, 640, 2_000] } else { [few, 10_000, 100_000] }
    }

    #[cfg(test)]
    fn of(arguments: &[&str]) -> Self {
        Arguments::parse_from(arguments).options
    }
}
