//! Notifies the service manager of the state of the server: `sd_notify(3)`, for a unit of `Type=notify`. Without `NOTIFY_SOCKET` it does
//! nothing.

use std::time::Duration;

use app::WeakApp;
use sd_notify::NotifyState;

/// Timeout of the supervisor when the watchdog looks. Less than half of any sensible `WatchdogSec=`.
const LOOK_DEADLINE: Duration = Duration::from_secs(5);

/// The server accepts requests.
pub fn ready() {
    send(&[NotifyState::Ready]);
}

/// The server reads its configuration again; [`ready`] follows.
pub fn reloading() {
    let now = NotifyState::monotonic_usec_now();
    send(&[NotifyState::Reloading].into_iter().chain(now.ok()).collect::<Vec<_>>());
}

/// The server stops.
pub fn stopping() {
    send(&[NotifyState::Stopping]);
}

/// Reports twice in each `WatchdogSec=` that the supervisor of the actors answers, until the server ends. If it does not, the service
/// manager kills the process and starts another.
pub async fn watch(app: WeakApp) {
    let Some(limit) = sd_notify::watchdog_enabled() else { return };
    let mut ticks = tokio::time::interval(limit / 2);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(app) = app.upgrade() else { return };
        match app.root.tree(LOOK_DEADLINE.min(limit / 4)).await {
            Ok(_) => send(&[NotifyState::Watchdog]),
            Err(error) => tracing::error!(
                error = domain::reasons(&error),
                "the supervisor does not answer: the watchdog of the service manager is not reset"
            ),
        }
    }
}

fn send(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(error = domain::reasons(&error), "the service manager could not be notified");
    }
}
