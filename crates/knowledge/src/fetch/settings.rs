//! Settings of fetching.

use std::time::Duration;

use domain::fair::FairLimits;
use http::HeaderValue;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// `[knowledge.fetch]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct FetchSettings {
    pub ports: Vec<u16>,
    pub allow_private: Vec<IpNet>,
    pub robots: RobotsRule,
    /// Lifetime of a cached `robots.txt`. No setting of an operator: tests read it again at once.
    #[serde(skip)]
    pub robots_cached_for: Duration,
    /// Maximum number of cached `robots.txt` files. No setting of an operator: tests cache few.
    #[serde(skip)]
    pub robots_cached_max: usize,
    /// Maximum size of the cached files, in bytes. No setting of an operator: tests cache few.
    #[serde(skip)]
    pub robots_cached_bytes_max: usize,
    #[serde(with = "humantime_serde")]
    pub crawl_delay_max: Duration,
    pub user_agent: String,
    #[serde(with = "humantime_serde")]
    pub connect_timeout: Duration,
    #[serde(with = "humantime_serde")]
    pub stall_timeout: Duration,
    #[serde(with = "humantime_serde")]
    pub total_timeout: Duration,
    /// Timeout of a `robots.txt`, counted in the same way. No setting of an operator: tests wait less.
    #[serde(skip)]
    pub robots_timeout: Duration,
    pub body_bytes_max: usize,
    pub in_flight_max: usize,
    pub in_flight_per_account_max: usize,
    pub in_flight_slow_max: usize,
    /// Duration after which a request was slow. No setting of an operator: tests wait less.
    #[serde(skip)]
    pub slow_after: Duration,
    #[serde(with = "humantime_serde")]
    pub host_interval: Duration,
    pub retries_max: u32,
    /// Mean delay before the first retry; doubled for each further one. No setting of an operator: tests wait less.
    #[serde(skip)]
    pub retry_pause: Duration,
    /// Maximum delay that `Retry-After` may request; an item that would wait longer fails.
    /// No setting of an operator: tests wait less.
    #[serde(skip)]
    pub retry_after_max: Duration,
}

/// Whether `robots.txt` applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RobotsRule {
    /// Forbidden pages are skipped.
    Obey,
    /// `robots.txt` is not fetched; for closed networks.
    Ignore,
}

impl Default for FetchSettings {
    fn default() -> Self {
        Self {
            ports: vec![80, 443, 8080, 8443],
            allow_private: Vec::new(),
            robots: RobotsRule::Obey,
            robots_cached_for: Duration::from_hours(1),
            robots_cached_max: 1024,
            robots_cached_bytes_max: 16 * 1024 * 1024,
            crawl_delay_max: Duration::from_secs(10),
            user_agent: "attache/{version} (+{base_url})".to_owned(),
            connect_timeout: Duration::from_secs(5),
            stall_timeout: Duration::from_secs(10),
            total_timeout: Duration::from_secs(30),
            robots_timeout: Duration::from_secs(15),
            body_bytes_max: 10 * 1024 * 1024,
            in_flight_max: 16,
            in_flight_per_account_max: 4,
            in_flight_slow_max: 8,
            slow_after: Duration::from_secs(3),
            host_interval: Duration::from_secs(1),
            retries_max: 2,
            retry_pause: Duration::from_millis(500),
            retry_after_max: Duration::from_secs(30),
        }
    }
}

impl FetchSettings {
    /// Invalid values, as pairs of field and rule.
    pub fn problems(&self) -> Vec<(String, String)> {
        let hour = Duration::from_hours(1);
        let waits = [
            ("connect_timeout", self.connect_timeout),
            ("stall_timeout", self.stall_timeout),
            ("total_timeout", self.total_timeout),
        ];
        let waits = waits
            .map(|(field, wait)| (!wait.is_zero() && wait <= hour, field, "must be longer than 0s, and at most 1h"));
        let pauses = [("crawl_delay_max", self.crawl_delay_max), ("host_interval", self.host_interval)];
        let pauses = pauses.map(|(field, pause)| (pause <= hour, field, "must be at most 1h"));
        let counts = [
            ("in_flight_max", self.in_flight_max),
            ("in_flight_per_account_max", self.in_flight_per_account_max),
            ("in_flight_slow_max", self.in_flight_slow_max),
            ("body_bytes_max", self.body_bytes_max),
        ];
        let counts = counts.map(|(field, count)| (count > 0, field, "must be at least 1"));
        let others = [
            (
                !self.ports.is_empty() && !self.ports.contains(&0),
                "ports",
                "must name at least one port, and none of them 0",
            ),
            (self.retries_max <= 10, "retries_max", "must be at most 10"),
            (
                self.agent("").is_some(),
                "user_agent",
                "must begin with a word of letters, digits, '-' and '_', and fit a header",
            ),
        ];
        let rules = waits.into_iter().chain(pauses).chain(counts).chain(others);
        rules.filter(|(is_valid, ..)| !is_valid).map(|(_, field, rule)| (field.to_owned(), rule.to_owned())).collect()
    }

    /// The places of requests. A batch waits with a few items only, so the queue needs no separate limit.
    pub(super) fn places(&self) -> FairLimits {
        FairLimits {
            slow_max: self.in_flight_slow_max,
            ..FairLimits::new(self.in_flight_max, self.in_flight_per_account_max)
        }
    }

    /// The `User-Agent` header for a server at `base_url`, and its product token, which `robots.txt` rules match.
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
            host_interval: Duration::from_hours(2),
            user_agent: "{base_url}".to_owned(),
            ..FetchSettings::default()
        };
        let fields: Vec<String> = wrong.problems().into_iter().map(|(field, _)| field).collect();
        assert_eq!(fields, ["stall_timeout", "host_interval", "in_flight_max", "ports", "user_agent"]);
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
