//! `attache serve`: runs the server until SIGTERM or SIGINT, then drains; a second signal ends the process immediately.

use clap::Args;
use domain::{Clock, Rng};
use supervision::TreeExit;
use tokio::signal::unix::{SignalKind, signal};

use super::failure::{Done, Failure};
use super::output;
use crate::config::Settings;
use crate::installation::LogStart;
use crate::server::Server;
use crate::telemetry;

/// Options of `attache serve`.
#[derive(Debug, Default, Args)]
pub struct Arguments {
    /// Begin a new epoch of the event log, with a new key and origin
    ///
    /// Use it after the log was lost or an older backup was restored, and for one start only, not in a service file: every start with it begins
    /// another epoch.
    #[arg(long)]
    new_log: bool,
}

/// Runs the server.
pub async fn serve(settings: Settings, Arguments { new_log }: Arguments) -> Done {
    telemetry::begin(&settings.telemetry);
    // Reads FAILPOINTS; the fail points are active until this value is dropped.
    #[cfg(feature = "failpoints")]
    let _failpoints = domain::fail::FailScenario::setup();
    let unwatched = |error: std::io::Error| Failure::Refused(format!("cannot listen for signals: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(unwatched)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(unwatched)?;

    let log = if new_log { LogStart::NewEpoch } else { LogStart::Continue };
    let server = tokio::select! {
        started = Server::start_with(settings, Clock::system(), Rng::system(), log) => started.map_err(Failure::caused)?,
        // Nothing was accepted yet, so nothing has to be finished.
        () = async { tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} } } => {
            tracing::info!("ended by a signal before the server was ready");
            return Ok(());
        }
    };
    output::print(&format!("attache is ready at {} (operator: http://{})", server.app.urls.base, server.admin_address));
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        outcome = server.given_up() => return Err(gave_up(&outcome)),
    }
    tracing::info!("draining; a second signal ends the process immediately");
    let root = server.app.root.clone();
    tokio::select! {
        outcome = server.stop() => match outcome {
            TreeExit::Drained => Ok(()),
            TreeExit::DeadlineHit => Err(Failure::refused("some work did not finish before shutdown.drain_deadline and was aborted")),
            outcome => Err(gave_up(&outcome)),
        },
        () = async { tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} } } => {
            root.kill_now();
            Err(Failure::refused("ended by a second signal before draining was finished"))
        }
    }
}

fn gave_up(outcome: &TreeExit) -> Failure {
    let child = match outcome {
        TreeExit::GaveUp { child } => child.as_str(),
        _ => "root",
    };
    Failure::GaveUp(format!(
        "actor \"{child}\" failed too often and its restart budget is spent; exiting so that the service manager restarts the server"
    ))
}
