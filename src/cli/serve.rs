//! `attache serve`: runs until SIGTERM or SIGINT, then drains; a second signal ends it at once.

use clap::Args;
use domain::{Clock, Rng};
use supervision::TreeExit;
use tokio::signal::unix::{SignalKind, signal};

use super::{Done, Failure, output};
use crate::config::Settings;
use crate::installation::LogStart;
use crate::server::Server;
use crate::telemetry;

/// How to start.
#[derive(Debug, Default, Args)]
pub struct Arguments {
    /// Begin a new epoch of the event log, with a new key and a new origin: after the log was lost, or an older backup was restored. Use it
    /// for one start only, not in a service file: every start with it begins another epoch
    #[arg(long)]
    new_log: bool,
}

/// Runs the server.
pub async fn serve(settings: Settings, Arguments { new_log }: Arguments) -> Done {
    telemetry::begin(&settings.telemetry);
    // Reads FAILPOINTS; the points stay set for as long as this value lives.
    #[cfg(feature = "failpoints")]
    let _failpoints = domain::fail::FailScenario::setup();
    let unwatched = |error: std::io::Error| Failure::Refused(format!("signals cannot be watched: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(unwatched)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(unwatched)?;

    let log = if new_log { LogStart::NewEpoch } else { LogStart::Continue };
    let server = Server::start_with(settings, Clock::system(), Rng::system(), log).await.map_err(Failure::caused)?;
    output::say(&format!("attache is ready at {} (operator: http://{})", server.app.base_url, server.admin_address));
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        outcome = server.given_up() => return Err(gave_up(&outcome)),
    }
    tracing::info!("draining; a second signal ends it at once");
    let root = server.app.root.clone();
    tokio::select! {
        outcome = server.stop() => match outcome {
            TreeExit::Drained => Ok(()),
            TreeExit::DeadlineHit => Err(Failure::refused("some work did not finish before shutdown.drain_deadline and was cut off")),
            outcome => Err(gave_up(&outcome)),
        },
        () = async { tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} } } => {
            root.kill_now();
            Err(Failure::refused("ended at once by a second signal"))
        }
    }
}

fn gave_up(outcome: &TreeExit) -> Failure {
    let child = match outcome {
        TreeExit::GaveUp { child } => child.as_str(),
        _ => "root",
    };
    Failure::GaveUp(format!("{child} failed too often; giving up, so that the service manager can start afresh"))
}
