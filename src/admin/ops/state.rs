//! The state of the handlers.

use std::sync::Arc;

use app::App;
use app::phase::Phases;
use axum::extract::FromRef;
use tokio::sync::Semaphore;

/// The server, its phase, and the places of streams.
#[derive(Debug, Clone)]
pub struct OpsState {
    pub app: App,
    pub phases: Phases,
    pub streams: Arc<Semaphore>,
}

impl FromRef<OpsState> for App {
    fn from_ref(state: &OpsState) -> Self {
        state.app.clone()
    }
}
