//! The state of the sign-in pages.

use std::sync::Arc;

use actors::signin::SignIns;
use api::HttpState;
use api::cookie::Cookies;
use api::limits::RateLimiters;
use api::seal::Seal;
use app::config::SigninSettings;
use app::services::oidc::Providers;
use app::services::sessions::Sessions;
use axum::extract::FromRef;

use crate::Site;

/// The parts of the state that signing in uses. Clones share them.
#[derive(Debug, Clone)]
pub struct SignInPages {
    pub(super) site: Site,
    pub(super) signins: SignIns,
    pub(super) sessions: Sessions,
    pub(super) providers: Arc<Providers>,
    pub(super) cookies: Arc<Cookies>,
    pub(super) seal: Seal,
    pub(super) limits: Arc<RateLimiters>,
    pub(super) settings: Arc<SigninSettings>,
    pub(super) mail_from: Option<String>,
}

impl FromRef<HttpState> for SignInPages {
    fn from_ref(state: &HttpState) -> Self {
        Self {
            site: Site::from_ref(state),
            signins: FromRef::from_ref(state),
            sessions: FromRef::from_ref(state),
            providers: FromRef::from_ref(state),
            cookies: FromRef::from_ref(state),
            seal: FromRef::from_ref(state),
            limits: FromRef::from_ref(state),
            settings: FromRef::from_ref(state),
            mail_from: state.app.settings.mail.from.clone(),
        }
    }
}
