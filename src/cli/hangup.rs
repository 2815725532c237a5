//! SIGHUP: reads the configuration again and puts its live settings in force (`docs/decisions/0039-live-settings.md`).

use app::WeakApp;
use domain::act::ActKind;
use tokio::signal::unix::Signal;

use super::acts::by_signal;
use super::service_manager;

/// Reads the configuration again at each signal, until the server ends.
pub async fn watch(mut hangup: Signal, app: WeakApp) {
    while hangup.recv().await.is_some() {
        let Some(app) = app.upgrade() else { return };
        service_manager::reloading();
        // The result is in the log and in the record of acts.
        let _ = app.reload(by_signal(ActKind::ConfigReload)).await;
        service_manager::ready();
    }
}
