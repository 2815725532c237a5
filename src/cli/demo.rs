//! `attache demo`: everything in five minutes, against a server that runs.
//!
//! It has a profile of its own, so that a person's own is not touched. What it makes on the server stays there: an agent and a computer of
//! the account that confirms them, three events in the log, a few memories.

mod tour;

use clap::Args;
use client::Credential;
use domain::ids::Email;
use domain::{Chance, Clock};

use super::admin::sign_in;
use super::remote::Remote;
use super::{Done, Failure, open_store};
use crate::config::Settings;
use tour::Tour;

/// How to go round.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Ask nobody: sign a person in as the operator of this server, and let them confirm everything (reads the configuration)
    #[arg(long)]
    auto: bool,
    /// The person, with --auto
    #[arg(long, default_value = "demo@example.com", requires = "auto")]
    email: Email,
    /// A page to add; whether it can be depends on what the server may fetch
    #[arg(long, value_name = "URL", default_value = "https://example.com/")]
    page: String,
    /// Keep the profile of the demo, to go on with
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    remote: Remote,
}

impl Arguments {
    /// Whether the operator's configuration is needed.
    pub fn is_auto(&self) -> bool {
        self.auto
    }
}

/// Goes round. `settings` with `--auto`.
pub async fn run(arguments: &Arguments, settings: Option<&Settings>) -> Done {
    let chance = Chance::system();
    let profile = format!("demo-{:06}", chance.below(1_000_000));
    let connection = arguments.remote.open_new(&profile)?;
    let folder = connection.folder.clone();
    let person = match settings {
        Some(settings) => Some(operator(settings, &arguments.email, &chance).await?),
        None => None,
    };
    let mut tour = Tour::new(connection, person, profile.clone());
    let done = tokio::select! {
        done = tour.go(&arguments.page) => done,
        _ = tokio::signal::ctrl_c() => Err(Failure::refused("interrupted; what was made on the server stays there")),
    };
    if arguments.keep && folder.path().exists() {
        tour.kept();
        return done;
    }
    done.and(folder.remove())
}

/// The session of a person whom the operator signs in.
async fn operator(settings: &Settings, email: &Email, chance: &Chance) -> Result<Credential, Failure> {
    let store = open_store(settings).await?;
    let signed_in = sign_in(&store, settings, &Clock::system(), chance, email).await;
    store.close().await;
    Ok(Credential::Cookie(signed_in?.cookie()))
}
