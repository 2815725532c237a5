//! `attache demo`: shows all features in a tour of a running server.
//!
//! The tour uses a separate profile, so that the person's profile is not changed. It ends its agent, its computer and its API key. Three
//! events stay in the log, and the memory keeps three notes and the pages that the server could fetch, once for any number of tours. With
//! `--keep` nothing is ended, and the events of a [`month`] stay too.

mod keep;
pub mod month;
mod operator;
mod tour;

use app::config::Settings;
use clap::Args;
use domain::Rng;
use domain::ids::Email;

use self::operator::Operator;
use self::tour::Tour;
use super::connection::Remote;
use super::failure::{Done, Failure};

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
    /// Keep the profile of the tour with its agent, computer and API key, and leave a month of a team's events to look at
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
    let result = tokio::select! {
        done = tour.go(&arguments.pages, arguments.keep) => done,
        _ = tokio::signal::ctrl_c() => Err(Failure::refused("interrupted")),
    };
    let keeps = arguments.keep && folder.path().exists();
    if !keeps {
        tour.clean_up().await;
    }
    tour.sign_out().await;
    if result.is_ok() {
        tour.end();
    }
    if keeps {
        tour.kept();
        return result;
    }
    result.and(folder.remove())
}
