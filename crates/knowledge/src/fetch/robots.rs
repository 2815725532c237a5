//! The `robots.txt` files of sites (RFC 9309), in a bounded cache.
//!
//! The cache holds the text, which is parsed for every page: rules with `$` compile to regular expressions, and a
//! malicious file could make its parsed form a thousand times larger.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use domain::ids::UserAccountId;
use texting_robots::Robot;
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::Instant;

use super::FetchError;
use super::settings::FetchSettings;

/// Maximum number of rules with `$` that are parsed. Each compiles to a regular expression, in about a quarter of a
/// millisecond.
const ANCHORED_RULES_MAX: usize = 250;
/// Lifetime of a failure to fetch `robots.txt`, during which the site is not fetched.
const FAILURE_CACHED_FOR: Duration = Duration::from_mins(1);
/// Maximum number of concurrent parses.
const READINGS_MAX: usize = 4;
/// Size of a cache entry without a text, in bytes.
const ENTRY_BYTES: usize = 256;

/// Cache of the sites' rules.
#[derive(Debug)]
pub(super) struct Robots {
    product: String,
    cached_for: Duration,
    cached_max: usize,
    cached_bytes_max: usize,
    sites: Mutex<Sites>,
    readings: Semaphore,
}

#[derive(Debug, Default)]
struct Sites {
    by_origin: HashMap<String, Site>,
    /// Number of accesses, for the eviction of the least recently used site.
    uses: u64,
}

#[derive(Debug, Clone)]
struct Site {
    known: Option<CachedRobots>,
    /// Fetched once for each account, even if several pages wait for it: no account waits for the turns of another.
    asked: HashMap<UserAccountId, Arc<OnceCell<CachedRobots>>>,
    used: u64,
}

#[derive(Debug, Clone)]
struct CachedRobots {
    known: RobotsState,
    until: Instant,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RobotsState {
    /// No `robots.txt`, which allows everything.
    NoRules,
    /// The text of the `robots.txt`.
    Rules(Bytes),
    /// The file could not be fetched, which forbids everything.
    Unreachable(FetchError),
}

/// The decision about one page.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ruling {
    pub(super) is_allowed: bool,
    pub(super) crawl_delay_seconds: Option<f32>,
}

impl Robots {
    pub(super) fn new(product: String, settings: &FetchSettings) -> Self {
        Self {
            product,
            cached_for: settings.robots_cached_for,
            cached_max: settings.robots_cached_max,
            cached_bytes_max: settings.robots_cached_bytes_max,
            sites: Mutex::default(),
            readings: Semaphore::new(READINGS_MAX),
        }
    }

    /// The state of a site. Calls `ask` only if it is not cached, and only for one of the waiting callers of an account.
    pub(super) async fn known(
        &self,
        origin: &str,
        account: &UserAccountId,
        ask: impl Future<Output = RobotsState>,
    ) -> RobotsState {
        let cell = match self.site(origin, account) {
            Ok(known) => return known,
            Err(cell) => cell,
        };
        let learned = async {
            let known = ask.await;
            let lifetime =
                if matches!(known, RobotsState::Unreachable(_)) { FAILURE_CACHED_FOR } else { self.cached_for };
            CachedRobots { known, until: Instant::now() + lifetime }
        };
        let cached = cell.get_or_init(|| learned).await.clone();
        let known = cached.known.clone();
        if let Some(site) = self.sites().by_origin.get_mut(origin)
            && site.asked.remove(account).is_some()
        {
            site.known = Some(cached);
        }
        self.forget_beyond_bounds();
        known
    }

    /// Evaluates a text for a page.
    pub(super) async fn ruling(&self, text: Bytes, url: String) -> Ruling {
        let _reading = self.readings.acquire().await;
        let product = self.product.clone();
        let read = tokio::task::spawn_blocking(move || ruling(&product, &text, &url)).await;
        // A text that makes the parser panic forbids everything.
        read.unwrap_or(Ruling { is_allowed: false, crawl_delay_seconds: None })
    }

    /// The state of a site, or the cell in which this account waits for it.
    fn site(&self, origin: &str, account: &UserAccountId) -> Result<RobotsState, Arc<OnceCell<CachedRobots>>> {
        let mut sites = self.sites();
        sites.uses += 1;
        let used = sites.uses;
        let now = Instant::now();
        let new = || Site { known: None, asked: HashMap::new(), used };
        let site = sites.by_origin.entry(origin.to_owned()).or_insert_with(new);
        site.used = used;
        match &site.known {
            Some(cached) if cached.until > now => Ok(cached.known.clone()),
            _ => Err(Arc::clone(site.asked.entry(account.clone()).or_default())),
        }
    }

    fn forget_beyond_bounds(&self) {
        let mut sites = self.sites();
        let bytes: usize = sites.by_origin.values().map(Site::bytes).sum();
        if sites.by_origin.len() <= self.cached_max && bytes <= self.cached_bytes_max {
            return;
        }
        let mut by_use: Vec<(u64, usize, String)> =
            sites.by_origin.iter().map(|(origin, site)| (site.used, site.bytes(), origin.clone())).collect();
        by_use.sort_unstable();
        // Evicts more than necessary, so that the next insertions need no eviction.
        let (count_max, bytes_max) =
            (self.cached_max - self.cached_max / 8, self.cached_bytes_max - self.cached_bytes_max / 8);
        let (mut count, mut bytes) = (by_use.len(), bytes);
        for (_, site_bytes, origin) in by_use {
            if count <= count_max && bytes <= bytes_max {
                break;
            }
            sites.by_origin.remove(&origin);
            count -= 1;
            bytes -= site_bytes;
        }
    }

    fn sites(&self) -> MutexGuard<'_, Sites> {
        // Every update leaves the map consistent.
        self.sites.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Site {
    fn bytes(&self) -> usize {
        ENTRY_BYTES
            + self.known.as_ref().map_or(0, |remembered| match &remembered.known {
                RobotsState::Rules(text) => text.len(),
                RobotsState::NoRules | RobotsState::Unreachable(_) => 0,
            })
    }
}

fn ruling(product: &str, text: &[u8], url: &str) -> Ruling {
    let unreadable = Ruling { is_allowed: false, crawl_delay_seconds: None };
    let Ok(robot) = Robot::new(product, readable(text)) else { return unreadable };
    Ruling { is_allowed: robot.allowed(url), crawl_delay_seconds: robot.delay }
}

/// The text up to the line with the first rule beyond [`ANCHORED_RULES_MAX`].
fn readable(text: &[u8]) -> &[u8] {
    let too_many = text.iter().enumerate().filter(|(_, byte)| **byte == b'$').nth(ANCHORED_RULES_MAX);
    let Some((position, _)) = too_many else { return text };
    let line = text[..position].iter().rposition(|byte| matches!(byte, b'\n' | b'\r'));
    &text[..line.unwrap_or_default()]
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn account(name: &str) -> UserAccountId {
        name.parse().unwrap()
    }

    fn robots(settings: &FetchSettings) -> Robots {
        Robots::new("attache".to_owned(), settings)
    }

    #[test]
    fn rules_for_our_agent_or_for_all_agents_apply() {
        let text = b"User-agent: *\nDisallow: /\n\nUser-agent: Attache\nDisallow: /private\nAllow: /private/open$\nCrawl-delay: 2.5\n";
        for (path, is_allowed) in
            [("/", true), ("/private/x", false), ("/private/open", true), ("/private/open/x", false)]
        {
            let actual = ruling("attache", text, &format!("https://example.com{path}"));
            assert_eq!(actual, Ruling { is_allowed, crawl_delay_seconds: Some(2.5) }, "{path}");
        }
        assert!(!ruling("attache", b"User-agent: *\nDisallow: /a", "https://example.com/ab").is_allowed);
        assert!(ruling("attache", b"User-agent: other\nDisallow: /", "https://example.com/ab").is_allowed);
        assert!(ruling("attache", b"<html>no such page</html>", "https://example.com/").is_allowed);
        assert!(ruling("attache", b"", "https://example.com/").is_allowed);
    }

    #[test]
    fn a_text_with_too_many_expressions_is_read_in_part() {
        let rule = "Disallow: /*a$\n";
        let text = format!("User-agent: *\n{}Disallow: /late\n", rule.repeat(ANCHORED_RULES_MAX + 5));
        assert_eq!(readable(text.as_bytes()).len() + 1, "User-agent: *\n".len() + rule.len() * ANCHORED_RULES_MAX);
        assert!(!ruling("attache", text.as_bytes(), "https://example.com/xa").is_allowed);
        assert_eq!(readable(b"Disallow: /a$"), b"Disallow: /a$");
    }

    #[test]
    fn robots_soak() {
        let words = &[
            "User-agent:",
            "attache",
            "*",
            "$",
            "Disallow:",
            "Allow: /",
            "Crawl-delay:",
            "1e308",
            "-1",
            "\n",
            "\r",
            "\0",
            "#",
            "%",
            "%2F",
            "/*",
            "?",
            "\u{feff}",
            "Sitemap:",
            "[",
            "\\",
            "(",
        ];
        fuzz::run("robots", words, |text| {
            assert!(readable(text).split(|byte| *byte == b'$').count() <= ANCHORED_RULES_MAX + 1);
            for url in
                ["https://example.com/", "https://example.com/private/open?a=1&b", "https://example.com/%C3%BC/x.html"]
            {
                let ruling = ruling("attache", text, url);
                assert!(ruling.crawl_delay_seconds.is_none_or(|seconds| !seconds.is_nan()), "{ruling:?}");
            }
        });
    }

    #[tokio::test(start_paused = true)]
    async fn a_site_is_requested_once_until_its_entry_expires() {
        let settings = FetchSettings::default();
        let (robots, ada) = (robots(&settings), account("ada"));
        let requests = AtomicUsize::new(0);
        let ask = |known: RobotsState| async {
            requests.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            known
        };
        let all = futures_util::future::join_all(
            (0..10).map(|_| robots.known("https://a.example", &ada, ask(RobotsState::NoRules))),
        )
        .await;
        assert_eq!(all, vec![RobotsState::NoRules; 10]);
        tokio::time::advance(settings.robots_cached_for / 2).await;
        robots.known("https://a.example", &account("ada"), ask(RobotsState::NoRules)).await;
        assert_eq!(requests.load(Ordering::Relaxed), 1);
        tokio::time::advance(settings.robots_cached_for / 2).await;
        robots.known("https://a.example", &account("ada"), ask(RobotsState::Unreachable(FetchError::TooSlow))).await;
        assert_eq!(requests.load(Ordering::Relaxed), 2);
        tokio::time::advance(FAILURE_CACHED_FOR).await;
        robots.known("https://a.example", &account("ada"), ask(RobotsState::NoRules)).await;
        assert_eq!(requests.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn no_account_waits_for_the_turns_of_another() {
        let robots = robots(&FetchSettings::default());
        let (origin, ada, bob) = ("https://a.example", account("ada"), account("bob"));
        let waits_for_its_turn = robots.known(origin, &bob, std::future::pending());
        tokio::pin!(waits_for_its_turn);
        assert!(tokio::time::timeout(Duration::ZERO, &mut waits_for_its_turn).await.is_err());
        assert_eq!(robots.known(origin, &ada, async { RobotsState::NoRules }).await, RobotsState::NoRules);
        assert_eq!(robots.known(origin, &bob, std::future::pending()).await, RobotsState::NoRules);
    }

    #[tokio::test]
    async fn who_gives_up_asking_leaves_it_to_the_next() {
        let robots = robots(&FetchSettings::default());
        let gave_up = tokio::time::timeout(
            Duration::ZERO,
            robots.known("https://a.example", &account("ada"), std::future::pending()),
        )
        .await;
        assert!(gave_up.is_err());
        assert_eq!(
            robots.known("https://a.example", &account("ada"), async { RobotsState::NoRules }).await,
            RobotsState::NoRules
        );
    }

    #[tokio::test]
    async fn sites_and_their_bytes_are_bounded() {
        let settings =
            FetchSettings { robots_cached_max: 16, robots_cached_bytes_max: 10_000, ..FetchSettings::default() };
        let robots = robots(&settings);
        for number in 0..100 {
            robots.known(&format!("https://{number}.example"), &account("ada"), async { RobotsState::NoRules }).await;
            robots.known("https://busy.example", &account("ada"), async { RobotsState::NoRules }).await;
        }
        assert!(robots.sites().by_origin.len() <= 16);
        assert!(robots.sites().by_origin.contains_key("https://busy.example"));
        for number in 0..100 {
            let text = Bytes::from(vec![b'#'; 1000]);
            robots
                .known(&format!("https://{number}.example"), &account("ada"), async { RobotsState::Rules(text) })
                .await;
            assert!(robots.sites().by_origin.values().map(Site::bytes).sum::<usize>() <= 10_000);
        }
        robots
            .known("https://large.example", &account("ada"), async {
                RobotsState::Rules(Bytes::from(vec![b'#'; 20_000]))
            })
            .await;
        assert!(robots.sites().by_origin.values().map(Site::bytes).sum::<usize>() <= 10_000);
    }
}
