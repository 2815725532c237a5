//! The state that every page uses.

use std::sync::Arc;

use axum::extract::FromRef;

use api::HttpState;
use app::config::Urls;
use app::services::Ports;

/// URLs for links and the layout, the store for the rows that a page shows, the clock for relative times. Clones share them.
#[derive(Debug, Clone)]
pub struct Site {
    /// The public URLs.
    pub urls: Arc<Urls>,
    /// Store, clock and randomness.
    pub ports: Ports,
}

impl FromRef<HttpState> for Site {
    fn from_ref(state: &HttpState) -> Self {
        Self { urls: Arc::from_ref(state), ports: Ports::from_ref(state) }
    }
}
