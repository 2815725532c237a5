//! Knobs of fetching.

use std::time::Duration;

use http::HeaderValue;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// `[knowledge.fetch]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FetchSettings {
    /// Ports that are connected to.
    pub ports: Vec<u16>,
    /// Private networks, loopback included, that are fetched from all the same. Link-local networks and the metadata services of
    /// clouds stay closed, whatever is listed.
    pub allow_private: Vec<IpNet>,
    /// Whether `robots.txt` is obeyed.
    pub robots: RobotsRule,
    /// How long a `robots.txt` is believed.
    #[serde(with = "humantime_serde")]
    pub robots_cached_for: Duration,
    /// How long a site whose `robots.txt` could not be read is left alone.
    #[serde(with = "humantime_serde")]
    pub robots_failure_cached_for: Duration,
    /// How many sites' `robots.txt` are remembered.
    pub robots_cached_max: usize,
    /// How many bytes of them are remembered.
    pub robots_cached_bytes_max: usize,
    /// Longest wait between two requests that a `Crawl-delay` brings about.
    #[serde(with = "humantime_serde")]
    pub crawl_delay_max: Duration,
    /// How we introduce ourselves; `{version}` and `{base_url}` are filled in. `robots.txt` addresses us by what stands before the
    /// first `/` or space.
    pub user_agent: String,
    /// Longest wait for a connection, name and TLS included.
    #[serde(with = "humantime_serde")]
    pub connect_timeout: Duration,
    /// Longest wait for the head of an answer, connecting aside, and for the next bytes of its body.
    #[serde(with = "humantime_serde")]
    pub stall_timeout: Duration,
    /// How long a page may take over all redirects and retries; waiting for its turn aside.
    #[serde(with = "humantime_serde")]
    pub total_timeout: Duration,
    /// The same for a `robots.txt`.
    #[serde(with = "humantime_serde")]
    pub robots_timeout: Duration,
    /// How many redirects are followed.
    pub redirects_max: usize,
    /// Largest page, in bytes after decompression.
    pub body_bytes_max: usize,
    /// Largest head of an answer, in bytes of its fields' names and values.
    pub head_bytes_max: usize,
    /// How many requests are in progress at once.
    pub in_flight_max: usize,
    /// Shortest time between the starts of two requests to one host.
    #[serde(with = "humantime_serde")]
    pub host_interval: Duration,
    /// How often a request is sent again after a failure that may pass.
    pub retries_max: u32,
    /// Middle of the wait before the first retry; it doubles with every further one.
    #[serde(with = "humantime_serde")]
    pub retry_pause: Duration,
    /// Longest wait that a web server may ask for with `Retry-After`; beyond it the item fails.
    #[serde(with = "humantime_serde")]
    pub retry_after_max: Duration,
}

/// Whether `robots.txt` is obeyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RobotsRule {
    /// Pages that it forbids are skipped.
    Obey,
    /// It is not asked for: for closed networks.
    Ignore,
}

impl Default for FetchSettings {
    fn default() -> Self {
        Self {
            ports: vec![80, 443, 8080, 8443],
            allow_private: Vec::new(),
            robots: RobotsRule::Obey,
            robots_cached_for: Duration::from_hours(1),
            robots_failure_cached_for: Duration::from_mins(1),
            robots_cached_max: 1024,
            robots_cached_bytes_max: 16 * 1024 * 1024,
            crawl_delay_max: Duration::from_secs(10),
            user_agent: "attache/{version} (+{base_url})".to_owned(),
            connect_timeout: Duration::from_secs(5),
            stall_timeout: Duration::from_secs(10),
            total_timeout: Duration::from_secs(30),
            robots_timeout: Duration::from_secs(15),
            redirects_max: 5,
            body_bytes_max: 10 * 1024 * 1024,
            head_bytes_max: 64 * 1024,
            in_flight_max: 16,
            host_interval: Duration::from_secs(1),
            retries_max: 2,
            retry_pause: Duration::from_millis(500),
            retry_after_max: Duration::from_secs(30),
        }
    }
}

impl FetchSettings {
    /// What is wrong with these values, as pairs of field and rule.
    pub fn problems(&self) -> Vec<(String, String)> {
        let hour = Duration::from_hours(1);
        let waits = [
            ("connect_timeout", self.connect_timeout),
            ("stall_timeout", self.stall_timeout),
            ("total_timeout", self.total_timeout),
            ("robots_timeout", self.robots_timeout),
        ];
        let waits = waits
            .map(|(field, wait)| (!wait.is_zero() && wait <= hour, field, "must be longer than 0s, and at most 1h"));
        let pauses = [
            ("crawl_delay_max", self.crawl_delay_max),
            ("host_interval", self.host_interval),
            ("retry_pause", self.retry_pause),
            ("retry_after_max", self.retry_after_max),
        ];
        let pauses = pauses.map(|(field, pause)| (pause <= hour, field, "must be at most 1h"));
        let counts = [
            ("in_flight_max", self.in_flight_max),
            ("body_bytes_max", self.body_bytes_max),
            ("head_bytes_max", self.head_bytes_max),
            ("robots_cached_max", self.robots_cached_max),
            ("robots_cached_bytes_max", self.robots_cached_bytes_max),
        ];
        let counts = counts.map(|(field, count)| (count > 0, field, "must be at least 1"));
        let day = Duration::from_hours(24);
        let others = [
            (
                !self.ports.is_empty() && !self.ports.contains(&0),
                "ports",
                "must name at least one port, and none of them 0",
            ),
            (self.robots_cached_for <= day, "robots_cached_for", "must be at most 24h"),
            (self.robots_failure_cached_for <= day, "robots_failure_cached_for", "must be at most 24h"),
            (self.redirects_max <= 20, "redirects_max", "must be at most 20"),
            (self.retries_max <= 10, "retries_max", "must be at most 10"),
            (
                self.agent("").is_some(),
                "user_agent",
                "must begin with a word of letters, digits, '-' and '_', and fit a header",
            ),
        ];
        let rules = waits.into_iter().chain(pauses).chain(counts).chain(others);
        rules.filter(|(kept, ..)| !kept).map(|(_, field, rule)| (field.to_owned(), rule.to_owned())).collect()
    }

    /// The `User-Agent` of a server that is reached at `base_url`, and the word in it that `robots.txt` knows us by.
    pub(super) fn agent(&self, base_url: &str) -> Option<(HeaderValue, String)> {
        let text = self.user_agent.replace("{version}", env!("CARGO_PKG_VERSION")).replace("{base_url}", base_url);
        let product = text.split(['/', ' ']).next().unwrap_or_default().to_owned();
        let word = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let header = HeaderValue::from_str(&text).ok()?;
        (!product.is_empty() && product.bytes().all(word)).then_some((header, product))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_sound_and_wrong_values_are_named() {
        assert_eq!(FetchSettings::default().problems(), []);
        let wrong = FetchSettings {
            ports: Vec::new(),
            in_flight_max: 0,
            stall_timeout: Duration::ZERO,
            retry_after_max: Duration::from_hours(2),
            user_agent: "{base_url}".to_owned(),
            ..FetchSettings::default()
        };
        let fields: Vec<String> = wrong.problems().into_iter().map(|(field, _)| field).collect();
        assert_eq!(fields, ["stall_timeout", "retry_after_max", "in_flight_max", "ports", "user_agent"]);
    }

    #[test]
    fn the_settings_are_read_as_an_operator_writes_them() {
        let text = "allow_private = ['10.0.0.0/8']\nrobots = 'ignore'\nhost_interval = '250ms'";
        let settings: FetchSettings = toml::from_str(text).unwrap();
        assert_eq!(settings.robots, RobotsRule::Ignore);
        assert_eq!(settings.host_interval, Duration::from_millis(250));
        assert_eq!(settings.ports, [80, 443, 8080, 8443]);
    }

    #[test]
    fn we_introduce_ourselves_by_name_version_and_address() {
        let (header, product) = FetchSettings::default().agent("https://attache.example.com").unwrap();
        let expected = concat!("attache/", env!("CARGO_PKG_VERSION"), " (+https://attache.example.com)");
        assert_eq!((header.to_str().unwrap(), product.as_str()), (expected, "attache"));
    }
}
