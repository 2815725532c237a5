//! Pages from the web, without letting whoever adds an address reach anything but the web (decisions, section 13).
//!
//! 1. An address is parsed and judged: scheme, port, and its host if that is an address ([`WebUrl`], [`address`]).
//! 2. `robots.txt` of its origin is asked for, by the same rules.
//! 3. The host's turn comes: one request at a time, with a pause between two ([`pace`]).
//! 4. The name is resolved by our own resolver, which leaves out forbidden addresses ([`resolver`]), and connected to what it gave.
//! 5. A redirect begins at 1 again. What fails for now is tried again a little later.
//! 6. The type is judged before the body is read, and the body is counted as it comes, after decompression.

mod address;
mod fault;
mod media;
mod pace;
mod resolver;
mod robots;
mod settings;
mod url;

use std::sync::Arc;
use std::time::Duration;

use backoff::backoff::Backoff;
use bytes::{Bytes, BytesMut};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode, redirect};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

pub use self::address::AddressRules;
pub use self::fault::FetchError;
use self::media::MediaType;
use self::pace::Pacing;
use self::resolver::GuardedResolver;
pub use self::resolver::{Lookup, SystemLookup};
use self::robots::{RobotsCache, Rules};
pub use self::settings::{FetchSettings, RobotsPolicy};
pub use self::url::{NotAWebUrl, WebUrl};

/// What came from the web.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// Where it came from in the end.
    pub url: WebUrl,
    /// What it is, in lower case and without parameters.
    pub media_type: String,
    /// The charset that the web server named.
    pub charset: Option<String>,
    /// The decompressed bytes.
    pub body: Bytes,
}

/// Fetches. Clones share limits, turns and connections.
#[derive(Debug, Clone)]
pub struct Fetcher(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    client: Client,
    rules: Arc<AddressRules>,
    settings: FetchSettings,
    pacing: Pacing,
    robots: RobotsCache,
    in_flight: Semaphore,
}

/// What is accepted, best first.
const ACCEPTED: HeaderValue = HeaderValue::from_static(
    "text/html, application/xhtml+xml, text/markdown;q=0.9, text/plain;q=0.9, application/pdf;q=0.9, */*;q=0.5",
);

impl Fetcher {
    /// `base_url` tells web servers whom to complain to.
    pub fn new(settings: FetchSettings, base_url: &str, lookup: Arc<dyn Lookup>) -> Result<Self, reqwest::Error> {
        // The client asks the process for its TLS provider; a second choice of the same one is refused, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let rules = Arc::new(AddressRules::new(settings.allow_private.clone()));
        let agent = settings.user_agent.clone();
        let agent = agent.unwrap_or_else(|| format!("{}/{} (+{base_url})", robots::PRODUCT, env!("CARGO_PKG_VERSION")));
        let client = Client::builder()
            .user_agent(agent)
            .dns_resolver(GuardedResolver::new(lookup, Arc::clone(&rules)))
            .redirect(redirect::Policy::none())
            .no_proxy()
            .http1_only()
            .referer(false)
            .connect_timeout(settings.connect_timeout)
            .read_timeout(settings.stall_timeout)
            // A connection that is kept was judged when it was made, but hosts get one request a second at most anyway.
            .pool_idle_timeout(Duration::from_secs(5))
            .build()?;
        let in_flight = Semaphore::new(settings.in_flight_max.clamp(1, Semaphore::MAX_PERMITS));
        let (pacing, robots) = (Pacing::default(), RobotsCache::default());
        Ok(Self(Arc::new(Shared { client, rules, settings, pacing, robots, in_flight })))
    }

    /// Fetches a page. Waiting for the host's turn has no limit of its own: drop the future to give up.
    pub async fn fetch(&self, url: &WebUrl) -> Result<Fetched, FetchError> {
        let shared = &*self.0;
        let response = shared.follow(url, true).await?;
        let Answered { url, response, until } = response;
        if !response.status().is_success() {
            return Err(FetchError::Status(response.status().as_u16()));
        }
        let declared = MediaType::declared(response.headers().get(CONTENT_TYPE));
        if declared.as_ref().is_some_and(|declared| !declared.is_read()) {
            return Err(FetchError::Unsupported);
        }
        let body = read(response, shared.settings.body_bytes_max, until).await?;
        let media = MediaType::settled(declared, &body).ok_or(FetchError::Unsupported)?;
        Ok(Fetched { url, media_type: media.essence, charset: media.charset, body })
    }
}

/// An answer that is no redirect and nothing to try again, its body not read yet.
struct Answered {
    url: WebUrl,
    response: Response,
    until: Instant,
}

impl Shared {
    /// Follows redirects, each of them judged like the first address.
    async fn follow(&self, begun: &WebUrl, ask_robots: bool) -> Result<Answered, FetchError> {
        let mut url = begun.clone();
        let mut left = self.settings.timeout;
        for _ in 0..=self.settings.redirects_max {
            self.judge(&url)?;
            let rules = if ask_robots { Box::pin(self.rules_of(&url)).await? } else { Rules::Everything };
            if !rules.allow(url.as_str()) {
                return Err(FetchError::RobotsDisallowed);
            }
            let answered = self.request(&url, rules.delay(), &mut left).await?;
            let Some(location) = redirected(&answered.response) else { return Ok(answered) };
            let next = url.join(&location).map_err(|_| FetchError::BadRedirect)?;
            if url.as_url().scheme() == "https" && next.as_url().scheme() == "http" {
                return Err(FetchError::Downgraded);
            }
            url = next;
        }
        Err(FetchError::TooManyRedirects)
    }

    /// Names are judged when they are resolved.
    fn judge(&self, url: &WebUrl) -> Result<(), FetchError> {
        if !self.settings.ports.contains(&url.port()) {
            return Err(FetchError::BlockedPort(url.port()));
        }
        if url.literal().is_some_and(|address| !self.rules.allows(address)) {
            return Err(FetchError::BlockedAddress);
        }
        Ok(())
    }

    /// What the origin of an address allows. One that cannot be asked cannot be fetched from either, for the same reason.
    async fn rules_of(&self, url: &WebUrl) -> Result<Rules, FetchError> {
        if self.settings.robots == RobotsPolicy::Ignore {
            return Ok(Rules::Everything);
        }
        let origin = url.origin();
        if let Some(rules) = self.robots.get(&origin) {
            return Ok(rules);
        }
        let rules = self.ask_for_rules(url).await?;
        self.robots.put(origin, rules.clone(), self.settings.robots_cached_for);
        Ok(rules)
    }

    async fn ask_for_rules(&self, url: &WebUrl) -> Result<Rules, FetchError> {
        let robots = url.join("/robots.txt").map_err(|_| FetchError::BadRedirect)?;
        let answered = match self.follow(&robots, false).await {
            Ok(answered) => answered,
            // It leads to where nothing is fetched from: it has none.
            Err(FetchError::TooManyRedirects | FetchError::BadRedirect | FetchError::Downgraded) => {
                return Ok(Rules::Everything);
            }
            Err(error) => return Err(error),
        };
        match answered.response.status() {
            status if status.is_success() => {
                let (text, _) = read_up_to(answered.response, robots::BYTES_MAX, answered.until).await?;
                Ok(Rules::read(&text))
            }
            // RFC 9309, sections 2.3.1.3 and 2.3.1.4.
            status if status.is_server_error() => Ok(Rules::Nothing),
            _ => Ok(Rules::Everything),
        }
    }

    /// One request, tried again while that makes sense. `left` is what all requests of this page may still take.
    async fn request(&self, url: &WebUrl, delay: Duration, left: &mut Duration) -> Result<Answered, FetchError> {
        let mut pauses = backoff::ExponentialBackoff {
            initial_interval: Duration::from_millis(500),
            max_elapsed_time: None,
            ..backoff::ExponentialBackoff::default()
        };
        for tries_left in (0..=self.settings.retries).rev() {
            let interval = self.settings.host_interval.max(delay);
            let turn = self.pacing.turn(url.host(), interval).await;
            // A closed semaphore would mean that nothing is bounded any more; it never is.
            let _place = self.in_flight.acquire().await.map_err(|_| FetchError::Connect)?;
            let (begun, until) = (Instant::now(), Instant::now() + *left);
            let sent = timeout_at(until, self.client.get(url.as_url().clone()).header(ACCEPT, ACCEPTED).send()).await;
            *left = left.saturating_sub(begun.elapsed());
            let outcome = match sent {
                Ok(Ok(response)) => Ok(Answered { url: url.clone(), response, until }),
                Ok(Err(error)) => Err(FetchError::of(&error)),
                Err(_elapsed) => Err(FetchError::Timeout),
            };
            let pause = pauses.next_backoff().unwrap_or_default();
            let wait = match &outcome {
                Ok(answered) => match wait_after(&answered.response) {
                    None => return outcome,
                    Some(asked) if asked > self.settings.retry_after_max => return Err(FetchError::RateLimited),
                    Some(asked) => asked.max(pause),
                },
                Err(error) if error.is_passing() => pause,
                Err(_) => return outcome,
            };
            if tries_left == 0 {
                let limited =
                    matches!(&outcome, Ok(answered) if answered.response.status() == StatusCode::TOO_MANY_REQUESTS);
                return if limited { Err(FetchError::RateLimited) } else { outcome };
            }
            // The host keeps its turn: others would only meet the same trouble.
            tokio::time::sleep(wait).await;
            drop(turn);
        }
        Err(FetchError::Connect)
    }
}

/// How long to wait before an answer is asked for again; `None` for one that stands.
fn wait_after(response: &Response) -> Option<Duration> {
    let status = response.status();
    let passing = matches!(status.as_u16(), 429 | 500 | 502 | 503 | 504);
    let seconds = || {
        let value = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
        // A date would be judged by a clock that need not be ours: it counts as longer than we wait.
        value.trim().parse().map_or(Some(Duration::MAX), |seconds| Some(Duration::from_secs(seconds)))
    };
    passing.then(|| seconds().unwrap_or_default())
}

fn redirected(response: &Response) -> Option<String> {
    let redirects = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    let location = response.headers().get(LOCATION).filter(|_| redirects)?;
    Some(String::from_utf8_lossy(location.as_bytes()).into_owned())
}

/// The whole body; too much of it is an error.
async fn read(response: Response, bytes_max: usize, until: Instant) -> Result<Bytes, FetchError> {
    match read_up_to(response, bytes_max, until).await? {
        (body, true) => Ok(body),
        (_, false) => Err(FetchError::TooLarge(bytes_max)),
    }
}

/// At most so many decompressed bytes, and whether that was all.
async fn read_up_to(mut response: Response, bytes_max: usize, until: Instant) -> Result<(Bytes, bool), FetchError> {
    let mut body = BytesMut::new();
    loop {
        match timeout_at(until, response.chunk()).await {
            Ok(Ok(Some(chunk))) => {
                let room = bytes_max - body.len();
                body.extend_from_slice(&chunk[..chunk.len().min(room)]);
                if chunk.len() > room {
                    return Ok((body.freeze(), false));
                }
            }
            Ok(Ok(None)) => return Ok((body.freeze(), true)),
            Ok(Err(error)) => return Err(FetchError::of(&error)),
            Err(_elapsed) => return Err(FetchError::Timeout),
        }
    }
}
