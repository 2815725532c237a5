//! `attache demo`: shows all features in a tour of a running server.
//!
//! The tour uses a profile of its own, so that the person's profile is not changed. Its objects stay on the server: an agent and a computer of
//! the account that confirms them, three events in the log, three notes, and the pages that the server could fetch.

mod tour;

use std::net::IpAddr;

use clap::Args;
use client::Credential;
use domain::ids::{Email, RegistrationId};
use domain::{Clock, Rng};
use store::Store;

use super::admin::sign_in;
use super::connection::Remote;
use super::{Done, Failure, open_store};
use crate::config::Settings;
use tour::Tour;

/// RFCs that the server implements: device flow, canonical JSON, transparency log.
const PAGES: [&str; 3] = [
    "https://www.rfc-editor.org/rfc/rfc8628.html",
    "https://www.rfc-editor.org/rfc/rfc8785.html",
    "https://www.rfc-editor.org/rfc/rfc9162.html",
];

/// Options of `attache demo`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Sign a person in as the operator of this server and confirm everything for them (reads the configuration)
    #[arg(long)]
    auto: bool,
    /// E-mail address of the person, with --auto
    #[arg(long, default_value = "demo@example.com", requires = "auto")]
    email: Email,
    /// Page to add, if the server can fetch it; may be repeated
    #[arg(long = "page", value_name = "URL", default_values = PAGES)]
    pages: Vec<String>,
    /// Keep the profile of the tour
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    remote: Remote,
}

impl Arguments {
    /// Whether the tour needs the server's configuration.
    pub fn is_auto(&self) -> bool {
        self.auto
    }
}

/// Runs the tour; `settings` is given with `--auto`.
pub async fn run(arguments: &Arguments, settings: Option<&Settings>) -> Done {
    let profile = format!("demo-{:06}", Rng::system().below(1_000_000));
    let mut remote = arguments.remote.clone();
    if let Some(http) = settings.map(|settings| &settings.http) {
        // The server of this configuration, unless --url names another address of it.
        remote.url = remote.url.or_else(|| http.base_url.clone()).or_else(|| Some(format!("http://{}", http.bind)));
    }
    let connection = remote.open_new(&profile)?;
    let folder = connection.folder.clone();
    let operator = settings.map(|settings| Operator { settings, email: &arguments.email });
    let mut tour = Tour::new(connection, operator, profile.clone());
    let done = tokio::select! {
        done = tour.go(&arguments.pages) => done,
        _ = tokio::signal::ctrl_c() => Err(Failure::refused("interrupted; the objects created on the server stay there")),
    };
    tour.sign_out().await;
    if arguments.keep && folder.path().exists() {
        tour.kept();
        return done;
    }
    done.and(folder.remove())
}

/// Signs a person in with the operator's access to the database.
#[derive(Debug, Clone, Copy)]
struct Operator<'a> {
    settings: &'a Settings,
    email: &'a Email,
}

impl Operator<'_> {
    /// Creates a session of the person.
    ///
    /// The session gives access to the account, so it is created only for the server of this configuration: the server at `url` must have written
    /// `registered` to the database that is opened here, and must be the configured one or run on this computer.
    async fn sign_in(&self, url: &str, registered: RegistrationId) -> Result<Credential, Failure> {
        let store = open_store(self.settings).await?;
        let signed_in = self.sign_in_at(&store, url, registered).await;
        store.close().await;
        signed_in
    }

    async fn sign_in_at(&self, store: &Store, url: &str, registered: RegistrationId) -> Result<Credential, Failure> {
        let configured = self.settings.http.base_url.as_deref().map(|base| base.trim_end_matches('/'));
        let is_known = store.registration_by_id(registered).await.map_err(Failure::caused)?.is_some();
        if !is_known || !(configured == Some(url) || is_here(url)) {
            return Err(Failure::refused(format!(
                "{url} is not the server of this configuration, so --auto cannot sign a person in\n  \
                 --auto works with the configuration of that server: run it in the same folder, or with the same --config"
            )));
        }
        let signed_in = sign_in(store, self.settings, &Clock::system(), &Rng::system(), self.email).await?;
        Ok(Credential::Cookie(signed_in.cookie()))
    }
}

/// Whether a URL names this computer.
fn is_here(url: &str) -> bool {
    let url = reqwest::Url::parse(url).ok();
    let host = url.as_ref().and_then(reqwest::Url::host_str).unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}
