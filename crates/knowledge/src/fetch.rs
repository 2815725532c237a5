//! Fetches web pages, protected against server-side request forgery (`docs/decisions/0025-from-url-to-text.md`).
//!
//! For the URL and for each redirect:
//!
//! 1. [`address`] checks the port and a literal host; `resolver` checks the resolved addresses of a name at the time of
//!    the connection. The HTTP client connects only to checked addresses, uses no proxy, and does not follow redirects
//!    itself.
//! 2. `robots` checks the rules of the site.
//! 3. `pace` waits for the host: one request at a time, with a delay in between.
//! 4. The request takes a place, which accounts share fairly: a maximum per account, and a lane for accounts with a slow last request.
//! 5. `exchange` sends the request; `body` limits the decompressed size. Transient failures are retried.
//! 6. `redirect` decides whether to follow a redirect.
//!
//! One `budget` limits all waiting except for turns. Dropping the future releases all resources.

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
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::fair::FairLimits;
use domain::ids::UserAccountId;
use domain::web_url::WebUrl;
use domain::{Clock, Rng};
use reqwest::Certificate;
use reqwest::dns::Resolve;
use reqwest::redirect::Policy;

use address::AddressRules;
use budget::Budget;
use exchange::{Content, FetchKind, FetchResponse, exchange};
use extract::fair::FairPlaces;
use failure::{FailedAttempt, Retry};
use pace::Pace;
use redirect::RedirectChain;
use robots::{Robots, RobotsState, Ruling};

pub use error::FetchError;
pub use media_type::MediaType;
pub use resolver::{JudgingResolver, SystemResolver};
pub use settings::{FetchSettings, RobotsRule};

/// Fetches pages. A process has one fetcher, which paces the requests to each host across all batches.
pub struct Fetcher {
    http: reqwest::Client,
    settings: FetchSettings,
    rules: Arc<AddressRules>,
    robots: Robots,
    pace: Pace,
    /// Limits the requests of an account that wait for a host or a place, or are in progress; further requests wait here. So a request that
    /// keeps its host waiting is soon next for a place.
    begun: FairPlaces,
    /// Limits the concurrent requests.
    places: FairPlaces,
    clock: Clock,
    rng: Rng,
}

/// Services and values that a [`Fetcher`] depends on.
pub struct FetcherDependencies {
    /// Base URL of this server, part of the user agent.
    pub base_url: String,
    /// Resolves names. The fetcher checks the resulting addresses.
    pub resolver: Arc<dyn Resolve>,
    /// Trusted certificates in addition to the system's.
    pub roots: Vec<Certificate>,
    /// Compared with dates in `Retry-After`.
    pub clock: Clock,
    /// Source of jitter.
    pub rng: Rng,
}

impl FetcherDependencies {
    /// The system's resolver and certificates.
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

/// Why a fetcher cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum FetcherError {
    /// The user agent is not a valid header value.
    #[error("knowledge.fetch.user_agent does not fit a header")]
    UserAgent,
    /// The HTTP client cannot be created.
    #[error("cannot create an HTTP client")]
    Http(#[from] reqwest::Error),
}

/// Maximum number of redirects: sites redirect to another scheme, host and path one after the other.
const REDIRECTS_MAX: usize = 5;

/// A fetched page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The requested URL.
    pub requested: WebUrl,
    /// The final URL, after all redirects.
    pub url: WebUrl,
    /// Type of the content.
    pub media_type: MediaType,
    /// Charset of the `Content-Type` header in lower case, unchecked.
    pub charset: Option<String>,
    /// Decompressed content.
    pub body: Bytes,
}

impl Fetcher {
    /// Creates a fetcher; sends nothing.
    pub fn new(settings: FetchSettings, dependencies: FetcherDependencies) -> Result<Self, FetcherError> {
        let FetcherDependencies { base_url, resolver, roots, clock, rng } = dependencies;
        let (user_agent, product) = settings.agent(&base_url).ok_or(FetcherError::UserAgent)?;
        let rules = Arc::new(AddressRules::new(settings.allow_private.clone()));
        let http = http_client::builder()
            .dns_resolver(Arc::new(JudgingResolver::new(resolver, Arc::clone(&rules))))
            .tls_certs_merge(roots)
            .user_agent(user_agent)
            .connect_timeout(settings.connect_timeout)
            .redirect(Policy::none())
            .referer(false)
            .no_proxy()
            // The body is decompressed by `body`; these methods disable decompression if another crate enables the
            // features.
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
            begun: FairPlaces::new(FairLimits::new(usize::MAX, settings.in_flight_per_account_max.saturating_mul(2))),
            places: FairPlaces::timed(settings.places(), settings.slow_after, Duration::MAX),
            settings,
            clock,
            rng,
        })
    }

    /// Fetches a page for an account. Takes the waiting time for its turns, and then at most `total_timeout` plus the delays that the
    /// host requests. Dropping the future cancels.
    #[boxed]
    pub async fn fetch(&self, account: &UserAccountId, url: &WebUrl) -> Result<Fetched, FetchError> {
        let (here, Content { media_type, charset, body }) =
            self.walk(account, url, FetchKind::Page, self.settings.total_timeout).await?;
        Ok(Fetched { requested: url.clone(), url: here, media_type, charset, body })
    }

    async fn walk(
        &self,
        account: &UserAccountId,
        start: &WebUrl,
        wanted: FetchKind,
        total: Duration,
    ) -> Result<(WebUrl, Content), FetchError> {
        let mut budget = Budget::new(total);
        let mut trail = RedirectChain::new(start.clone(), REDIRECTS_MAX);
        loop {
            let here = trail.here();
            self.judge(here)?;
            let interval = match wanted {
                FetchKind::Page => self.ask_robots(account, here).await?.max(self.settings.host_interval),
                FetchKind::Robots => self.settings.host_interval,
            };
            match self.visit(account, here, (wanted, interval), &mut budget).await? {
                FetchResponse::Content(content) => return Ok((here.clone(), content)),
                FetchResponse::Redirect(location) => trail.follow(&location)?,
            }
        }
    }

    /// Checks the port and a literal host. Names are checked when they are resolved.
    fn judge(&self, url: &WebUrl) -> Result<(), FetchError> {
        if !self.settings.ports.contains(&url.port()) {
            return Err(FetchError::BlockedPort(url.port()));
        }
        if self.rules.allow_literal(url) { Ok(()) } else { Err(FetchError::BlockedAddress) }
    }

    /// Checks `robots.txt`, and returns the site's crawl delay. Concurrent callers share one request to a slow site, and it takes no turns
    /// of other callers.
    async fn ask_robots(&self, account: &UserAccountId, page: &WebUrl) -> Result<Duration, FetchError> {
        if self.settings.robots == RobotsRule::Ignore {
            return Ok(Duration::ZERO);
        }
        let text = match self.robots.known(&page.origin(), account, self.fetch_robots(account, page)).await {
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

    /// RFC 9309, section 2.3.1: a missing file and too many redirects allow everything; an unreachable file forbids
    /// everything.
    async fn fetch_robots(&self, account: &UserAccountId, page: &WebUrl) -> RobotsState {
        let fetched = match page.join("/robots.txt") {
            // Fetching a robots.txt does not check another one, so the recursion is one level deep.
            Ok(url) => {
                let robots = self.walk(account, &url, FetchKind::Robots, self.settings.robots_timeout);
                Box::pin(robots).await
            }
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

    /// Fetches one URL without following redirects; retries transient failures.
    async fn visit(
        &self,
        account: &UserAccountId,
        url: &WebUrl,
        (wanted, interval): (FetchKind, Duration),
        budget: &mut Budget,
    ) -> Result<FetchResponse, FetchError> {
        let mut retries = 0;
        loop {
            let FailedAttempt { error, again } = match self.attempt(account, url, (wanted, interval), budget).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            if retries >= self.settings.retries_max {
                return Err(error);
            }
            match again {
                Retry::Never => return Err(error),
                Retry::AfterPause(pause) => self.pace.hold(url.host_str(), pause),
                Retry::Soon => {
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
        account: &UserAccountId,
        url: &WebUrl,
        (wanted, interval): (FetchKind, Duration),
        budget: &mut Budget,
    ) -> Result<FetchResponse, FailedAttempt> {
        let _begun = self.begun.acquire(account).await?;
        let turn = self.pace.turn(url.host_str(), account).await?;
        let _place = self.places.acquire(account).await?;
        turn.start(interval);
        exchange(&self.http, url, wanted, &self.settings, || self.clock.now(), budget).await
    }
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetcher").field("settings", &self.settings).finish_non_exhaustive()
    }
}
