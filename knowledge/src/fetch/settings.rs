//! `[knowledge.fetch]`.

use std::time::Duration;

use http::HeaderValue;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// Whether web servers are asked what they allow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RobotsPolicy {
    /// `robots.txt` is obeyed (RFC 9309).
    #[default]
    Obey,
    /// It is not asked for; for closed networks.
    Ignore,
}

/// How pages are fetched, and from where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FetchSettings {
    /// Private networks that may be fetched from all the same; loopback counts as private.
    pub allow_private: Vec<IpNet>,
    /// Ports that may be fetched from.
    pub ports: Vec<u16>,
    /// Whether `robots.txt` is obeyed.
    pub robots: RobotsPolicy,
    /// How long a `robots.txt` is believed.
    #[serde(with = "humantime_serde")]
    pub robots_cached_for: Duration,
    /// What the fetcher calls itself; built from version and base URL when it is not set.
    pub user_agent: Option<String>,
    /// Fetches at once, over all batches.
    pub in_flight_max: usize,
    /// Pause between two requests to one host.
    #[serde(with = "humantime_serde")]
    pub host_interval: Duration,
    /// Redirects that are followed.
    pub redirects_max: usize,
    /// How long connecting may take.
    #[serde(with = "humantime_serde")]
    pub connect_timeout: Duration,
    /// How long a web server may send nothing.
    #[serde(with = "humantime_serde")]
    pub stall_timeout: Duration,
    /// How long one request may take, from the first redirect to the last byte.
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
    /// Bytes of one page, counted after decompression.
    pub body_bytes_max: usize,
    /// How often a request is tried again that failed for now.
    pub retries: u32,
    /// How long a web server may ask us to wait before the next try.
    #[serde(with = "humantime_serde")]
    pub retry_after_max: Duration,
}

impl Default for FetchSettings {
    fn default() -> Self {
        Self {
            allow_private: Vec::new(),
            ports: vec![80, 443, 8080, 8443],
            robots: RobotsPolicy::Obey,
            robots_cached_for: Duration::from_hours(1),
            user_agent: None,
            in_flight_max: 32,
            host_interval: Duration::from_secs(1),
            redirects_max: 5,
            connect_timeout: Duration::from_secs(5),
            stall_timeout: Duration::from_secs(10),
            timeout: Duration::from_secs(30),
            body_bytes_max: 10 * 1024 * 1024,
            retries: 2,
            retry_after_max: Duration::from_secs(10),
        }
    }
}

impl FetchSettings {
    /// What is wrong with these values, as pairs of field and rule.
    pub fn problems(&self) -> Vec<(&'static str, &'static str)> {
        let agent = self.user_agent.as_deref().unwrap_or("attache");
        let rules = [
            (self.ports.is_empty(), "ports", "must name at least one"),
            (self.in_flight_max == 0, "in_flight_max", "must be at least 1"),
            (self.connect_timeout.is_zero(), "connect_timeout", "must be longer than 0s"),
            (self.stall_timeout.is_zero(), "stall_timeout", "must be longer than 0s"),
            (self.timeout.is_zero(), "timeout", "must be longer than 0s"),
            (self.body_bytes_max == 0, "body_bytes_max", "must be at least 1"),
            (self.redirects_max > 20, "redirects_max", "must be at most 20"),
            (HeaderValue::from_str(agent).is_err(), "user_agent", "has characters that no header takes"),
        ];
        rules.into_iter().filter(|(broken, _, _)| *broken).map(|(_, field, rule)| (field, rule)).collect()
    }
}
