//! SIGHUP: reads the configuration again and puts its live settings in force (`docs/decisions/0039-live-settings.md`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use app::config::load;
use app::{App, Reloaded, SettingChange, WeakApp};
use domain::act::{ActKind, ActOutcome};
use serde_json::{Map, Value};
use tokio::signal::unix::Signal;

use super::acts::{Acting, by_signal};
use super::service_manager;

/// Pause between two attempts to record an act.
const RECORD_EVERY: Duration = Duration::from_secs(5);

/// Reads the configuration again at each signal, until the server ends.
pub async fn watch(mut hangup: Signal, file: Option<PathBuf>, app: WeakApp) {
    while hangup.recv().await.is_some() {
        let Some(app) = app.upgrade() else { return };
        service_manager::reloading();
        reload(file.as_deref(), app).await;
        service_manager::ready();
    }
}

async fn reload(file: Option<&Path>, app: App) {
    let outcome = match load(file, std::env::vars()) {
        Ok(read) => app.reload(&read).await.map_err(|fault| vec![domain::reasons(&fault)]),
        Err(problems) => Err(problems.0.iter().map(ToString::to_string).collect()),
    };
    match outcome {
        Ok(reloaded) => applied(reloaded, app),
        Err(problems) => {
            for problem in problems {
                tracing::warn!(%problem, "SIGHUP: the configuration is not applied, so nothing has changed");
            }
            counted("rejected");
            record(app, None, ActOutcome::Refused);
        }
    }
}

fn applied(Reloaded { applied, restart_needed, shadowed }: Reloaded, app: App) {
    tracing::info!(
        settings.applied = SettingChange::paths(&applied),
        settings.restart_needed = restart_needed.join(", "),
        settings.shadowed = SettingChange::paths(&shadowed),
        "SIGHUP: the configuration was read again"
    );
    metrics::gauge!("attache_config_last_reload_success_timestamp_seconds").set(seconds(&app));
    // A setting that an override hides is in force when the override ends.
    let changes: Vec<SettingChange> = applied.into_iter().chain(shadowed).collect();
    counted(if changes.is_empty() { "unchanged" } else { "applied" });
    if !changes.is_empty() {
        let (mut before, mut after) = (Map::new(), Map::new());
        for change in changes {
            before.insert(change.path.clone(), change.before);
            after.insert(change.path, change.after);
        }
        record(app, Some((before.into(), after.into())), ActOutcome::Applied);
    }
}

/// Records the act. The settings are in force already, because a database that is away must not keep an operator from changing a limit.
fn record(app: App, change: Option<(Value, Value)>, outcome: ActOutcome) {
    let (before, after) = change.unzip();
    let act = domain::act::OperatorAct { before, after, ..by_signal(ActKind::ConfigReload) };
    tokio::spawn(async move {
        let acting = Acting::new(&app.store, (&app.clock, &app.rng), act);
        while let Err(failure) = acting.record(outcome).await {
            tracing::warn!(error = failure.reason(), "an act is not recorded yet; recording is repeated");
            tokio::time::sleep(RECORD_EVERY).await;
        }
    });
}

fn counted(outcome: &'static str) {
    metrics::counter!("attache_config_reloads_total", "outcome" => outcome).increment(1);
}

#[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are below 2^53")]
fn seconds(app: &App) -> f64 {
    app.clock.now().timestamp() as f64
}
