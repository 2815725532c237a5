//! The state of the handlers.

use app::App;
use app::phase::Phases;
use axum::extract::FromRef;

/// The server, and its phase.
#[derive(Debug, Clone)]
pub struct OpsState {
    pub app: App,
    pub phases: Phases,
}

impl FromRef<OpsState> for App {
    fn from_ref(state: &OpsState) -> Self {
        state.app.clone()
    }
}
