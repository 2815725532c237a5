//! `attache demo`: shows all features in a tour of a running server.
//!
//! The tour uses a separate profile, so that the person's profile is not changed. It ends its agent, its computer and its API key. Three
//! events stay in the log, and the memory keeps three notes and the pages that the server could fetch, once for any number of tours. With
//! `--keep` nothing is ended, and the events of a [`month`] stay too. If no server runs on this computer and none is named, the tour starts
//! one in a temporary folder, and ends it.

mod keep;
pub mod month;
mod operator;
mod server;
mod tour;

use std::io::IsTerminal as _;

use app::config::Settings;
use clap::Args;
use domain::Rng;
use domain::ids::Email;

use self::operator::Operator;
use self::server::TourServer;
use self::tour::Tour;
use commands::connection::Remote;
use commands::failure::{Done, Failure};
use commands::output;

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
    /// Whether the tour may start a server: with `--keep` its data have to stay.
    fn may_start(&self) -> bool {
        self.remote.url.is_none() && !self.keep
    }

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
    let mut connection = remote.open_new(&profile)?;
    let mut own = None;
    if arguments.may_start() && server::is_absent(connection.client.base_url()).await {
        output::print_to_stderr(&format!(
            "No server runs at {}: this tour starts one in a temporary folder.",
            connection.client.base_url()
        ));
        let started = TourServer::start().await?;
        remote.url = Some(started.url.clone());
        connection = remote.open_new(&profile)?;
        own = Some(started);
    }
    let folder = connection.folder.clone();
    let settings = settings.map(|settings| own.as_ref().map_or(settings, |own| &own.settings).clone());
    let operator = settings.as_ref().map(|settings| Operator { settings, email: &arguments.email });
    let mut tour = Tour::new(connection, operator, profile.clone());
    let result = tokio::select! {
        done = tour.go(&arguments.pages, arguments.keep) => done,
        _ = tokio::signal::ctrl_c() => Err(Failure::refused("interrupted")),
    };
    let keeps = arguments.keep && folder.path().exists();
    if !keeps {
        tour.clean_up().await;
    }
    // The server of the tour stays for a person who looks at its pages.
    let stays = own.is_none() || (std::io::stdin().is_terminal() && std::io::stderr().is_terminal());
    tour.sign_out().await;
    if result.is_ok() {
        tour.end(stays);
    }
    if let Some(mut own) = own {
        if stays && result.is_ok() {
            output::print_to_stderr("\nCtrl-C ends this server and deletes its data.");
            own.wait().await;
        }
        own.end().await?;
        let program = std::env::args().next().unwrap_or_else(|| "attache".to_owned());
        output::print_to_stderr(&format!(
            "\nThe server of the tour has ended, with its data. To keep one: {program} serve, and in another terminal {program} demo --auto"
        ));
    }
    if keeps {
        tour.kept();
        return result;
    }
    result.and(folder.remove())
}
