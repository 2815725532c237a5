//! Signs the person of the tour in.

use std::net::IpAddr;

use actors::mail::TransportKind;
use app::OUTBOX;
use app::config::Settings;
use client::Credential;
use domain::ids::{Email, RegistrationId};
use domain::{Clock, Rng};
use store::Store;

use crate::cli::admin::{SignInAs, sign_in};
use crate::cli::main_database::open_store_if_there;
use commands::failure::Failure;

/// Reason in the record of the sign-in.
const REASON: &str = "attache demo --auto";

/// Signs a person in with the operator's access to the database.
#[derive(Debug, Clone, Copy)]
pub struct Operator<'a> {
    pub(super) settings: &'a Settings,
    pub(super) email: &'a Email,
}

impl Operator<'_> {
    /// Creates a session of the person.
    ///
    /// The session gives access to the account, so it is created only for the server of this configuration: the server at `url` must have
    /// written `registered` to the database that is opened here, and must be the configured one or run on this computer.
    pub(super) async fn sign_in(&self, url: &str, registered: RegistrationId) -> Result<Credential, Failure> {
        let Some(store) = open_store_if_there(self.settings).await? else { return Err(elsewhere(url)) };
        let signed_in = self.sign_in_at(&store, url, registered).await;
        store.close().await;
        signed_in
    }

    /// Instruction for signing in as the person of the tour with a browser.
    pub(super) fn way_in(&self, base: &str) -> String {
        match self.settings.mail.transport {
            TransportKind::Files => {
                let folder = self.settings.data.dir.join(OUTBOX);
                format!("sign in at {base}/signin: the code is in the newest file of {}", folder.display())
            }
            TransportKind::Smtp => format!("sign in at {base}/signin: the code comes by mail"),
        }
    }

    async fn sign_in_at(&self, store: &Store, url: &str, registered: RegistrationId) -> Result<Credential, Failure> {
        let configured = self.settings.http.base_url.as_deref().map(|base| base.trim_end_matches('/'));
        let is_known = store.registration_by_id(registered).await.map_err(Failure::caused)?.is_some();
        if !is_known || !(configured == Some(url) || is_here(url)) {
            return Err(elsewhere(url));
        }
        let entry = SignInAs { email: self.email, silent: true, reason: REASON.parse().ok() };
        let signed_in = sign_in(store, self.settings, (&Clock::system(), &Rng::system()), entry).await?;
        Ok(Credential::Cookie(signed_in.cookie()))
    }
}

/// The refusal of a server that has another database.
fn elsewhere(url: &str) -> Failure {
    Failure::refused(format!(
        "{url} is not the server of this configuration, so --auto cannot sign a person in\n  \
         --auto works with the configuration of that server: run it in the same folder, or with the same --config"
    ))
}

/// Whether a URL names this computer.
fn is_here(url: &str) -> bool {
    let url = reqwest::Url::parse(url).ok();
    let host = url.as_ref().and_then(reqwest::Url::host_str).unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}
