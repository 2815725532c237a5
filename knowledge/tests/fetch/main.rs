//! Fetching against real sockets: web servers that misbehave, names that lie, and traps that must stay untouched.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

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

use domain::{Clock, Rng};
use knowledge::fetch::{FetchError, FetchSettings, Fetched, Fetcher, FetcherDependencies, RobotsRule};
use site::{Names, Site};

/// Settings under which `site` may be answered from: at 127.0.0.1 alone, at once, and without its `robots.txt`.
fn settings_for(site: &Site) -> FetchSettings {
    FetchSettings {
        ports: vec![site.port()],
        allow_private: vec!["127.0.0.1/32".parse().unwrap()],
        robots: RobotsRule::Ignore,
        host_interval: Duration::ZERO,
        retry_pause: Duration::from_millis(1),
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

async fn fetch(fetcher: &Fetcher, url: &str) -> Result<Fetched, FetchError> {
    fetcher.fetch(&url.parse()?).await
}
