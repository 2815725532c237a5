//! Options of a run, and the result type of the crate.

use std::path::PathBuf;

use clap::Args;

/// Aborts the run; the message is for its user.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
/// Result of every part.
pub type Result<T> = std::result::Result<T, Failure>;

/// Size of the measurements.
#[derive(Debug, Clone, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct Options {
    /// Scenarios and probes to run, by name [default: all]
    pub(crate) names: Vec<String>,
    /// List the names and exit
    #[arg(long)]
    pub(crate) list: bool,
    /// Measure only the floors, without a server
    #[arg(long)]
    pub(crate) floors_only: bool,
    /// Take a quick look instead of a measurement: one second, two rounds, small counts
    #[arg(long)]
    pub(crate) quick: bool,
    /// Measure only the peers and the server
    #[arg(long)]
    pub(crate) peers: bool,
    /// Events in the filled log of the states; repeatable. Filling 10,000,000 takes half an hour
    #[arg(long, default_values_t = [1_000_000])]
    pub(crate) log: Vec<u64>,
    /// Number of connections, each with one request in flight
    #[arg(long, default_value_t = 64)]
    pub(crate) connections: usize,
    /// Length of one measurement in seconds, after a short warm-up
    #[arg(long, default_value_t = 4.0)]
    pub(crate) seconds: f64,
    /// Number of rounds A B
    #[arg(long, default_value_t = 5)]
    pub(crate) rounds: u32,
    /// Maximum number of requests per measurement
    #[arg(long, default_value_t = 160_000)]
    pub(crate) requests_max: usize,
    /// Seed of all random values
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Path of the server [default: beside this program]
    #[arg(long)]
    pub(crate) server: Option<PathBuf>,
    /// Folder for data folders, on the disk to measure
    #[arg(long)]
    pub(crate) data: Option<PathBuf>,
    /// Only the states of events whose description contains this text, such as "random ids"
    #[arg(long)]
    pub(crate) state: Option<String>,
    /// Folder with the peers' `node_modules`, which `make bench-peers` fills
    #[arg(long)]
    pub(crate) peers_folder: Option<PathBuf>,
    /// PostgreSQL to measure, `postgres://user@address/database`: a cluster on this machine that nothing else uses
    #[arg(long)]
    pub(crate) postgres: Option<String>,
    /// Another cluster, to measure a log with a part on each of the two
    #[arg(long, requires = "postgres")]
    pub(crate) further_postgres: Option<String>,
    /// Path of the report; `-` for the terminal only
    #[arg(long, default_value = "benches/results.md")]
    pub(crate) report: PathBuf,
}

impl Options {
    pub(crate) fn quickened(self) -> Self {
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

    /// Numbers of chains in the states of the log.
    pub(crate) fn chains(&self) -> [usize; 3] {
        let few = self.connections.min(64);
        if self.quick { [few, 640, 2_000] } else { [few, 10_000, 100_000] }
    }

    #[cfg(test)]
    pub(crate) fn of(arguments: &[&str]) -> Self {
        #[derive(Debug, clap::Parser)]
        struct Arguments {
            #[command(flatten)]
            options: Options,
        }
        let Arguments { options } = clap::Parser::parse_from(arguments);
        options
    }
}
