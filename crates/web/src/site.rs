//! The state that every page uses.

use std::sync::Arc;

use axum::extract::FromRef;
use axum::response::{IntoResponse, Redirect, Response};

use api::HttpState;
use app::config::Urls;
use app::services::Ports;
use app::services::agents::AccountAgents;
use app::services::consent::Consent;
use app::services::knowledge::memories::Memories;
use app::services::knowledge::spaces::Spaces;
use app::services::machines::Machines;

use crate::flash;

/// URLs for links and the layout, the services of what most pages show, the clock for relative times. Clones share them.
#[derive(Debug, Clone)]
pub struct Site {
    /// The public URLs.
    pub urls: Arc<Urls>,
    /// Clock and randomness.
    pub ports: Ports,
    /// The agents of the account.
    pub agents: AccountAgents,
    /// The computers of the account.
    pub machines: Machines,
    /// The consent of the account.
    pub consent: Consent,
    /// The memories of the account.
    pub memories: Memories,
    /// The spaces of the account.
    pub spaces: Spaces,
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
        Self {
            urls: Arc::from_ref(state),
            ports: Ports::from_ref(state),
            agents: AccountAgents::from_ref(state),
            machines: Machines::from_ref(state),
            consent: Consent::from_ref(state),
            memories: Memories::from_ref(state),
            spaces: Spaces::from_ref(state),
        }
    }
}
