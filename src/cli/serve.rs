//! `attache serve`: runs the server until SIGTERM or SIGINT, then drains; a second signal ends the process immediately.
//!
//! SIGTERM comes from service managers and honours `shutdown.lame_duck`; SIGINT comes from a terminal and skips it. SIGHUP does not end the
//! server.

use app::config::reading::Layers;
use app::installation::{self, LogStart};
use app::telemetry;
use clap::Args;
use domain::node::short;
use domain::{Clock, Rng};
use store::OldTables;
use supervision::TreeExit;
use tokio::signal::unix::{SignalKind, signal};

use super::start_screen::StartScreen;
use super::{hangup, service_manager};
use crate::server::Server;
use commands::ending::{Ending, Endings, unwatched};
use commands::failure::{Done, Failure, FailureKind};
use commands::{output, terminal};

/// Options of `attache serve`.
#[derive(Debug, Default, Args)]
pub struct Arguments {
    /// Begin a new epoch of the event log, with a new key and origin
    ///
    /// Use it after the log was lost or an older backup was restored, and for one start only, not in a service file: every start with it begins
    /// another epoch.
    #[arg(long)]
    new_log: bool,
    /// Refuse databases whose tables are older than this program instead of migrating them
    ///
    /// Run `attache migrate` once before the nodes of a new version start.
    #[arg(long)]
    no_migrate: bool,
}

/// Runs the server with this configuration.
pub async fn serve(mut configured: Layers, Arguments { new_log, no_migrate }: Arguments) -> Done {
    telemetry::begin(&configured.settings.telemetry);
    // Reads FAILPOINTS; the fail points are active until this value is dropped.
    #[cfg(feature = "failpoints")]
    let _failpoints = domain::fail::FailScenario::setup();
    let mut endings = Endings::watch()?;
    let hangup = signal(SignalKind::hangup()).map_err(|error| unwatched(&error))?;

    if no_migrate {
        configured.settings.database.old_tables = OldTables::Refuse;
    }
    let log = if new_log { LogStart::NewEpoch } else { LogStart::Continue };
    let file = configured.named.clone();
    let starting = async {
        if no_migrate {
            let checked = installation::require_schema(&configured.settings).await;
            checked.map_err(|error| Failure::refused(without_migration(&error)))?;
        }
        Server::start_with(configured, Clock::system(), Rng::system(), log).await.map_err(Failure::caused)
    };
    let server = tokio::select! {
        started = starting => started?,
        // The server has not accepted requests yet, so there is nothing to drain.
        _ = endings.next() => {
            tracing::info!("ended by a signal before the server was ready");
            return Ok(());
        }
    };
    announce(&server);
    tokio::spawn(hangup::watch(hangup, server.app.downgrade()));
    tokio::spawn(service_manager::watch(server.app.downgrade()));
    service_manager::ready();
    let start = StartScreen::of(&server, file.as_deref());
    output::print(&if terminal::is_watched() { start.screen() } else { start.line() });
    let ending = tokio::select! {
        ending = endings.next() => ending,
        outcome = server.given_up() => return Err(gave_up(&outcome)),
    };
    service_manager::stopping();
    tracing::info!("draining; a second signal ends the process immediately");
    let root = server.app.root.clone();
    let leaving = async {
        if ending == Ending::Terminate {
            tokio::select! {
                () = server.lame_duck() => {}
                outcome = server.given_up() => return outcome,
            }
        }
        server.stop().await
    };
    tokio::select! {
        outcome = leaving => match outcome {
            TreeExit::Drained => Ok(()),
            TreeExit::DeadlineHit => Err(Failure::refused("some work did not finish before shutdown.drain_deadline and was aborted")),
            outcome => Err(gave_up(&outcome)),
        },
        _ = endings.next() => {
            root.kill_now();
            Err(Failure::refused("ended by a second signal before draining was finished"))
        }
    }
}

/// Logs which program serves which database with which settings, so that the journal of several restarts distinguishes them.
fn announce(server: &Server) {
    let (settings, node) = (&server.app.settings, server.app.nodes.traits());
    let database = if settings.database.url.is_some() { "postgresql" } else { "sqlite" };
    tracing::info!(
        version = node.version,
        database,
        data.dir = %std::path::absolute(&settings.data.dir).unwrap_or_else(|_| settings.data.dir.clone()).display(),
        schema = server.app.store.schema_version(),
        settings.digest = short(&node.configuration),
        node.id = %node.id,
        url = server.app.urls.base,
        operator = %server.admin_address,
        "the server is ready"
    );
}

fn without_migration(error: &installation::OpenError) -> String {
    format!("{}; with --no-migrate the server changes no tables: `attache migrate` does", domain::reasons(error))
}

fn gave_up(outcome: &TreeExit) -> Failure {
    let child = match outcome {
        TreeExit::GaveUp { child } => child.as_str(),
        _ => "root",
    };
    Failure::of(
        FailureKind::GaveUp,
        format!(
            "actor \"{child}\" failed too often and its restart budget is spent; exiting so that the service manager restarts the server"
        ),
    )
}
