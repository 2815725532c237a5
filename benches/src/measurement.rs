//! Measurements of a floor or of the product.

use std::net::SocketAddr;
use std::time::Duration;

use crate::floor::Floor;
use crate::options::{Options, Result};
use crate::outcome::{Answers, Outcome};
use crate::plan::Plan;
use crate::process::{self, Server, myself, say};
use crate::product::make_folder;
use crate::report::{Report, Sample};
use crate::stock::Stocks;

const TIME_LIMIT: Duration = Duration::from_secs(20);

/// A trial that starts servers on filled folders.
pub type TrialFn = fn(&str, &Options, &mut Stocks, &mut Report) -> Result<()>;

/// A started floor, which can be measured repeatedly.
#[derive(Debug)]
pub struct StartedFloor {
    floor: Floor,
    /// `None` for the disk floor, for which each measurement is a process.
    server: Option<Server>,
}

impl StartedFloor {
    /// Starts the floor's server, if it has one.
    pub fn start(floor: Floor, options: &Options) -> Result<Self> {
        if floor == Floor::Disk {
            return Ok(Self { floor, server: None });
        }
        let folder = make_folder(options)?;
        let server = Server::start(&mut myself(&["floor", floor.command()])?, &folder.path().join("log"), TIME_LIMIT)?;
        Ok(Self { floor, server: Some(server) })
    }

    /// Sends the plan to the floor, or runs the disk floor with as many senders as there are connections.
    pub fn measure(&self, plan: &Plan, options: &Options) -> Result<Sample> {
        if let Some(server) = &self.server {
            return measure(server, server.ready.parse()?, plan, self.floor.status());
        }
        let folder = make_folder(options)?;
        let (connections, seconds) = (options.connections.to_string(), options.seconds.to_string());
        let outcome = process::measure(&[
            "floor",
            self.floor.command(),
            "--connections",
            &connections,
            "--seconds",
            &seconds,
            "--folder",
            folder.path().to_str().ok_or("the folder's name is no text")?,
        ])?;
        sample(&outcome, self.floor.status(), outcome.own_cpu_seconds, outcome.own_peak_bytes)
    }
}

/// Sends a plan to a server, and reads the server's resource usage.
pub fn measure(server: &Server, address: SocketAddr, plan: &Plan, status: u16) -> Result<Sample> {
    let usage_before = server.usage()?;
    let outcome = process::send(plan, address)?;
    let after = server.usage()?;
    sample(&outcome, status, after.cpu_seconds - usage_before.cpu_seconds, after.peak_bytes)
}

/// The figures of one measurement with these costs.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub fn sample(outcome: &Outcome, status: u16, cpu_seconds: f64, peak_bytes: u64) -> Result<Sample> {
    if let Some(surprises) = outcome.surprises(&[status]) {
        say(&format!("  SURPRISES: {surprises}"));
    }
    if !outcome.totals.contains_key(&status) {
        return Err(format!("no answer {status}").into());
    }
    // On a busy machine, a short run may get all responses outside of the measured time.
    let none = Answers::of(Vec::new(), String::new());
    let answers = outcome.answers(status).unwrap_or(&none);
    Ok(Sample {
        rate: outcome.rate(status),
        cpu_us: cpu_seconds * 1e6 / outcome.answers_total.max(1) as f64,
        p50_us: answers.p50_us,
        p99_us: answers.p99_us,
        peak_bytes,
        // A floor without HTTP has the status 0 and no generator.
        generator: if status == 0 { f64::NAN } else { outcome.own_cpu_share },
    })
}
