//! The state that every page uses.

use std::sync::Arc;

use axum::extract::FromRef;
use axum::response::{IntoResponse, Redirect, Response};

use api::HttpState;
use app::config::Urls;
use app::services::Ports;

use crate::flash;

/// URLs for links and the layout, the store for the rows that a page shows, the clock for relative times. Clones share them.
#[derive(Debug, Clone)]
pub struct Site {
    /// The public URLs.
    pub urls: Arc<Urls>,
    /// Store, clock and randomness.
    pub ports: Ports,
}

impl Site {
    /// Redirects to a page of this path below the root, which shows the message once.
    pub(crate) fn to(&self, path: &str, message: impl Into<String>) -> Response {
        let mut response = Redirect::to(&format!("{}{path}", self.urls.root_path())).into_response();
        flash::set(&mut response, message);
        response
    }
}

impl FromRef<HttpState> for Site {
    fn from_ref(state: &HttpState) -> Self {
        Self { urls: Arc::from_ref(state), ports: Ports::from_ref(state) }
    }
}
