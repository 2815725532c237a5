//! Fetching of web pages, for servers that must not be led where only they can go (`docs/decisions/0042-fetching-rules.md`).
//!
//! The way of a page, anew for each redirect:
//!
//! 1. [`address`] judges port and host: literal hosts here, names in `resolver` at the moment of connecting. The HTTP library connects
//!    to nothing that was not judged, knows no proxies and follows no redirects by itself.
//! 2. `robots` says whether the site wants us there.
//! 3. `pace` waits for the host's turn: one request at a time, with a pause in between.
//! 4. `exchange` asks; `body` counts what comes out of the decompression. What may pass is tried again.
//! 5. `redirect` says whether and where to go on.
//!
//! All time but the wait for the host's turn comes out of one `budget`. A dropped future gives everything back.

pub mod address;
mod body;
mod budget;
mod error;
mod exchange;
mod failure;
mod media_type;
mod pace;
mod redirect;
mod resolver;
mod robots;
mod settings;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::web_url::WebUrl;
use domain::{Clock, Rng};
use reqwest::Certificate;
use reqwest::dns::Resolve;
use reqwest::redirect::Policy;
use tokio::sync::Semaphore;
use url::Host;

use address::AddressRules;
use budget::Budget;
use exchange::{Content, FetchResponse, Wanted, exchange};
use failure::{Again, Failure};
use pace::Pace;
use redirect::RedirectChain;
use resolver::JudgingResolver;
use robots::{Robots, RobotsState, Ruling};

pub use error::FetchError;
pub use media_type::MediaType;
pub use resolver::SystemResolver;
pub use settings::{FetchSettings, RobotsRule};

/// Fetches pages. There is one in a process: it is what keeps the pace of the hosts over all batches.
pub struct Fetcher {
    http: reqwest::Client,
    settings: FetchSettings,
    rules: Arc<AddressRules>,
    robots: Robots,
    pace: Pace,
    /// Requests in progress.
    slots: Semaphore,
    clock: Clock,
    rng: Rng,
}

/// What a [`Fetcher`] is given of the world.
pub struct FetcherDependencies {
    /// How this server is reached from outside: web servers are told.
    pub base_url: String,
    /// Who turns names into addresses; its answers are judged.
    pub resolver: Arc<dyn Resolve>,
    /// Certificates that are trusted beside those of the system.
    pub roots: Vec<Certificate>,
    /// For dates in `Retry-After`.
    pub clock: Clock,
    /// For jitter.
    pub rng: Rng,
}

impl FetcherDependencies {
    /// The machine's own resolver and certificates.
    pub fn system(base_url: &str, clock: Clock, rng: Rng) -> Self {
        Self {
            base_url: base_url.to_owned(),
            resolver: Arc::new(SystemResolver::default()),
            roots: Vec::new(),
            clock,
            rng,
        }
    }
}

/// A fetcher that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum FetcherError {
    /// A user agent that no header takes.
    #[error("knowledge.fetch.user_agent does not fit a header")]
    UserAgent,
    /// The HTTP library.
    #[error("making the HTTP client: {0}")]
    Http(#[from] reqwest::Error),
}

/// A page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The address that was asked for.
    pub requested: WebUrl,
    /// The address that answered, after all redirects.
    pub url: WebUrl,
    /// What the content is.
    pub media_type: MediaType,
    /// The charset that the header names, in lower case; nobody has checked it.
    pub charset: Option<String>,
    /// The content, decompressed.
    pub body: Bytes,
}

impl Fetcher {
    /// A fetcher under these settings; nothing is sent yet.
    pub fn new(settings: FetchSettings, surroundings: FetcherDependencies) -> Result<Self, FetcherError> {
        let FetcherDependencies { base_url, resolver, roots, clock, rng } = surroundings;
        let (user_agent, product) = settings.agent(&base_url).ok_or(FetcherError::UserAgent)?;
        let rules = Arc::new(AddressRules::new(settings.allow_private.clone()));
        // Fails when the process has chosen one already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .dns_resolver(Arc::new(JudgingResolver { inner: resolver, rules: Arc::clone(&rules) }))
            .tls_certs_merge(roots)
            .user_agent(user_agent)
            .connect_timeout(settings.connect_timeout)
            .redirect(Policy::none())
            .referer(false)
            .no_proxy()
            // Decompressed by ourselves, whatever the library has learned for others.
            .no_gzip()
            .no_brotli()
            .no_deflate()
            .no_zstd()
            .http1_only()
            .pool_max_idle_per_host(1)
            .pool_idle_timeout(settings.stall_timeout)
            .build()?;
        Ok(Self {
            http,
            robots: Robots::new(product, &settings),
            rules,
            pace: Pace::default(),
            slots: Semaphore::new(settings.in_flight_max),
            settings,
            clock,
            rng,
        })
    }

    /// The page at this address. Takes as long as its host's queue is, and then at most `total_timeout` and what the host asked us to
    /// wait; drop the future to give up.
    pub async fn fetch(&self, url: &WebUrl) -> Result<Fetched, FetchError> {
        let (here, Content { media_type, charset, body }) =
            self.walk(url, Wanted::Page, self.settings.total_timeout).await?;
        Ok(Fetched { requested: url.clone(), url: here, media_type, charset, body })
    }

    async fn walk(&self, start: &WebUrl, wanted: Wanted, total: Duration) -> Result<(WebUrl, Content), FetchError> {
        let mut budget = Budget::new(total);
        let mut trail = RedirectChain::new(start.clone(), self.settings.redirects_max);
        loop {
            let here = trail.here();
            self.judge(here)?;
            let interval = match wanted {
                Wanted::Page => self.ask_robots(here).await?.max(self.settings.host_interval),
                Wanted::Robots => self.settings.host_interval,
            };
            match self.visit(here, wanted, interval, &mut budget).await? {
                FetchResponse::Content(content) => return Ok((here.clone(), content)),
                FetchResponse::Redirect(location) => trail.follow(&location)?,
            }
        }
    }

    /// Whether an address may be connected to, as far as it can be told without asking for the host's name.
    fn judge(&self, url: &WebUrl) -> Result<(), FetchError> {
        if !self.settings.ports.contains(&url.port()) {
            return Err(FetchError::BlockedPort(url.port()));
        }
        let literal = match url.host() {
            Some(Host::Ipv4(address)) => IpAddr::V4(address),
            Some(Host::Ipv6(address)) => IpAddr::V6(address),
            Some(Host::Domain(_)) => return Ok(()),
            None => return Err(FetchError::BlockedAddress),
        };
        if self.rules.allow(literal) { Ok(()) } else { Err(FetchError::BlockedAddress) }
    }

    /// Asks for leave to fetch a page; the pause that the site wants between requests.
    async fn ask_robots(&self, page: &WebUrl) -> Result<Duration, FetchError> {
        if self.settings.robots == RobotsRule::Ignore {
            return Ok(Duration::ZERO);
        }
        let text = match self.robots.known(&page.origin(), self.fetch_robots(page)).await {
            RobotsState::NoRules => return Ok(Duration::ZERO),
            RobotsState::Unreachable(why) => return Err(FetchError::RobotsUnreachable(Box::new(why))),
            RobotsState::Rules(text) => text,
        };
        let Ruling { is_allowed, crawl_delay_seconds } = self.robots.ruling(text, page.to_string()).await;
        if !is_allowed {
            return Err(FetchError::RobotsDisallowed);
        }
        let delay = crawl_delay_seconds.map(|seconds| Duration::try_from_secs_f32(seconds).unwrap_or(Duration::MAX));
        Ok(delay.unwrap_or_default().min(self.settings.crawl_delay_max))
    }

    /// RFC 9309, section 2.3.1: what is not there forbids nothing, and so does what hides behind too many redirects; what cannot be
    /// asked forbids everything.
    async fn fetch_robots(&self, page: &WebUrl) -> RobotsState {
        let fetched = match page.join("/robots.txt") {
            // The way to a robots.txt asks for no other, so this goes one level deep.
            Ok(url) => Box::pin(self.walk(&url, Wanted::Robots, self.settings.robots_timeout)).await,
            Err(fault) => Err(fault.into()),
        };
        match fetched {
            Ok((_, content)) => RobotsState::Rules(content.body),
            Err(FetchError::Status(status)) if status < 500 => RobotsState::NoRules,
            Err(FetchError::TooManyRedirects(_) | FetchError::RedirectLoop | FetchError::Downgrade) => {
                RobotsState::NoRules
            }
            Err(why) => RobotsState::Unreachable(why),
        }
    }

    /// One address, with as many tries as its failures deserve.
    async fn visit(
        &self,
        url: &WebUrl,
        wanted: Wanted,
        interval: Duration,
        budget: &mut Budget,
    ) -> Result<FetchResponse, FetchError> {
        let mut retries = 0;
        loop {
            let Failure { error, again } = match self.attempt(url, wanted, interval, budget).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            if retries >= self.settings.retries_max {
                return Err(error);
            }
            match again {
                Again::Never => return Err(error),
                Again::AfterPause(pause) => self.pace.hold(url.host_str(), pause),
                Again::Soon => {
                    let pause = self.settings.retry_pause.saturating_mul(1 << retries);
                    let pause = pause.mul_f64(0.5 + self.rng.fraction());
                    if !budget.covers(pause) {
                        return Err(error);
                    }
                    budget.spend(Duration::MAX, tokio::time::sleep(pause)).await?;
                }
            }
            retries += 1;
        }
    }

    async fn attempt(
        &self,
        url: &WebUrl,
        wanted: Wanted,
        interval: Duration,
        budget: &mut Budget,
    ) -> Result<FetchResponse, Failure> {
        let turn = self.pace.turn(url.host_str()).await;
        // Never closed, so there always is a slot.
        let _slot = self.slots.acquire().await;
        turn.start(interval);
        exchange(&self.http, url, wanted, &self.settings, || self.clock.now(), budget).await
    }
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetcher").field("settings", &self.settings).finish_non_exhaustive()
    }
}
