//! Fetching over real sockets: misbehaving web servers, malicious names, and traps that must not be connected to.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod bodies;
mod hostile;
mod pacing;
mod retries;
mod robots;
mod site;
mod time;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use domain::ids::UserAccountId;
use domain::{Clock, Rng};
use knowledge::fetch::{FetchError, FetchSettings, Fetched, Fetcher, FetcherDependencies, RobotsRule};
use site::{Names, Site};

/// Settings that allow only `site`, at 127.0.0.1, without delays and `robots.txt`.
fn settings_for(site: &Site) -> FetchSettings {
    FetchSettings {
        ports: vec![site.port()],
        allow_private: vec!["127.0.0.1/32".parse().unwrap()],
        robots: RobotsRule::Ignore,
        host_interval: Duration::ZERO,
        retry_pause: Duration::from_millis(1),
        in_flight_per_account_max: 16,
        ..FetchSettings::default()
    }
}

fn fetcher(settings: FetchSettings) -> Fetcher {
    fetcher_with(settings, Names::default())
}

fn fetcher_with(settings: FetchSettings, names: Names) -> Fetcher {
    let rng = Rng::seeded(1);
    let surroundings = FetcherDependencies {
        resolver: Arc::new(names),
        ..FetcherDependencies::system("https://attache.example.com", Clock::system(), rng)
    };
    Fetcher::new(settings, surroundings).unwrap()
}

fn account(name: &str) -> UserAccountId {
    name.parse().unwrap()
}

async fn fetch(fetcher: &Fetcher, url: &str) -> Result<Fetched, FetchError> {
    fetcher.fetch(&account("ada"), &url.parse()?).await
}
