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

/// Ends the run; its message is for the person who started it.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
/// What every part returns.
pub type Result<T> = std::result::Result<T, Failure>;

/// Speed and cost of the server, as ratios to floors measured in the same run.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    part: Option<Part>,
    #[command(flatten)]
    options: Options,
}

/// How much is measured.
#[derive(Debug, Clone, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
struct Options {
    /// Scenarios and probes to run, by name; all of them when none is named.
    names: Vec<String>,
    /// List the names and end.
    #[arg(long)]
    list: bool,
    /// Only the floors: needs no server.
    #[arg(long)]
    floors_only: bool,
    /// A quick look instead of a measurement: one second, two rounds, small counts.
    #[arg(long)]
    quick: bool,
    /// The peers beside the server, and nothing else.
    #[arg(long)]
    peers: bool,
    /// Events in the filled log of the states; may be given several times. 10,000,000 take half an hour to fill.
    #[arg(long, default_values_t = [1_000_000])]
    log: Vec<u64>,
    /// Connections, each with one request in flight.
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Seconds of one measurement, after a little warming up.
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Rounds of A B A B.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Most requests of one measurement.
    #[arg(long, default_value_t = 160_000)]
    requests_max: usize,
    /// Seed of everything that is drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The server's program; the one beside this program when absent.
    #[arg(long)]
    server: Option<PathBuf>,
    /// Where data folders are made; the disk that is measured.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Only the states of events whose description holds this text, such as "random ids".
    #[arg(long)]
    state: Option<String>,
    /// The folder with the peers' `node_modules`; `make bench-peers` fills and names it.
    #[arg(long, env = "ATTACHE_BENCH_PEERS")]
    peers_folder: Option<PathBuf>,
    /// Where the report goes; `-` for nowhere but the terminal.
    #[arg(long, default_value = "benches/results.md")]
    report: PathBuf,
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

    /// How many chains take turns in the states of the log.
    fn chains(&self) -> [usize; 3] {
        let few = self.connections.min(64);
        if self.quick { [few, 640, 2_000] } else { [few, 10_000, 100_000] }
    }

    #[cfg(test)]
    fn of(arguments: &[&str]) -> Self {
        Arguments::parse_from(arguments).options
    }
}
