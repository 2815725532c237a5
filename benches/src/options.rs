//! The options of a run, and the result of every part.

use std::path::PathBuf;

use clap::Args;

/// Ends the run; its message is for the person who started it.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
/// What every part returns.
pub type Result<T> = std::result::Result<T, Failure>;

/// How much is measured.
#[derive(Debug, Clone, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct Options {
    /// Scenarios and probes to run, by name; all of them when none is named.
    pub(crate) names: Vec<String>,
    /// List the names and end.
    #[arg(long)]
    pub(crate) list: bool,
    /// Only the floors: needs no server.
    #[arg(long)]
    pub(crate) floors_only: bool,
    /// A quick look instead of a measurement: one second, two rounds, small counts.
    #[arg(long)]
    pub(crate) quick: bool,
    /// The peers beside the server, and nothing else.
    #[arg(long)]
    pub(crate) peers: bool,
    /// Events in the filled log of the states; may be given several times. 10,000,000 take half an hour to fill.
    #[arg(long, default_values_t = [1_000_000])]
    pub(crate) log: Vec<u64>,
    /// Connections, each with one request in flight.
    #[arg(long, default_value_t = 64)]
    pub(crate) connections: usize,
    /// Seconds of one measurement, after a little warming up.
    #[arg(long, default_value_t = 4.0)]
    pub(crate) seconds: f64,
    /// Rounds of A B A B.
    #[arg(long, default_value_t = 5)]
    pub(crate) rounds: u32,
    /// Most requests of one measurement.
    #[arg(long, default_value_t = 160_000)]
    pub(crate) requests_max: usize,
    /// Seed of everything that is drawn.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// The server's program; the one beside this program when absent.
    #[arg(long)]
    pub(crate) server: Option<PathBuf>,
    /// Where data folders are made; the disk that is measured.
    #[arg(long)]
    pub(crate) data: Option<PathBuf>,
    /// Only the states of events whose description holds this text, such as "random ids".
    #[arg(long)]
    pub(crate) state: Option<String>,
    /// The folder with the peers' `node_modules`; `make bench-peers` fills and names it.
    #[arg(long, env = "ATTACHE_BENCH_PEERS")]
    pub(crate) peers_folder: Option<PathBuf>,
    /// Where the report goes; `-` for nowhere but the terminal.
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

    /// How many chains take turns in the states of the log.
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
