//! `[http]`: the public listener.

use std::net::SocketAddr;
use std::time::Duration;

use axum::http::Uri;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// No body is read beyond this many bytes, on any route.
pub const BODY_BYTES_HARD_MAX: usize = 1024 * 1024;

/// `[http]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct HttpSettings {
    pub bind: SocketAddr,
    pub base_url: Option<String>,
    pub auth_name: String,
    pub trusted_proxies: Vec<IpNet>,
    pub connections_max: usize,
    pub connections_per_address_max: usize,
    pub descriptors_reserved: u64,
    pub requests_max: usize,
    #[serde(with = "humantime_serde")]
    pub head_deadline: Duration,
    pub head_bytes_max: usize,
    #[serde(with = "humantime_serde")]
    pub idle_deadline: Duration,
    #[serde(with = "humantime_serde")]
    pub body_deadline: Duration,
    pub body_rate_min: usize,
    #[serde(with = "humantime_serde")]
    pub body_rate_after: Duration,
    pub bodies_per_address_max: usize,
    pub bodies_bytes_max: usize,
    #[serde(with = "humantime_serde")]
    pub write_deadline: Duration,
    pub unread_bytes_max: u64,
    #[serde(with = "humantime_serde")]
    pub unread_deadline: Duration,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            bind: SocketAddr::from(([127, 0, 0, 1], 8080)),
            base_url: None,
            auth_name: "attache".into(),
            trusted_proxies: Vec::new(),
            connections_max: 16_384,
            connections_per_address_max: 256,
            descriptors_reserved: 512,
            requests_max: 1024,
            head_deadline: Duration::from_secs(10),
            head_bytes_max: 32 << 10,
            idle_deadline: Duration::from_secs(75),
            body_deadline: Duration::from_secs(15),
            body_rate_min: 1024,
            body_rate_after: Duration::from_secs(5),
            bodies_per_address_max: 32,
            bodies_bytes_max: 256 << 20,
            write_deadline: Duration::from_secs(30),
            unread_bytes_max: 64 << 10,
            unread_deadline: Duration::from_millis(250),
        }
    }
}

impl HttpSettings {
    /// Values that break a rule, as pairs of field and rule.
    pub fn problems(&self) -> Vec<(String, String)> {
        let mut problems = Vec::new();
        let mut rule = |is_valid: bool, field: &str, rule: &str| {
            if !is_valid {
                problems.push((field.to_owned(), rule.to_owned()));
            }
        };
        let base_url = self.base_url.as_deref().is_none_or(is_base_url);
        rule(base_url, "base_url", "must be like https://attache.example.com, without a slash or query at the end");
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        rule(
            !self.auth_name.is_empty() && self.auth_name.bytes().all(token),
            "auth_name",
            "must be of letters, digits, '-' and '_'",
        );
        rule(self.connections_max > 0, "connections_max", "must be at least 1");
        rule(self.requests_max > 0, "requests_max", "must be at least 1");
        rule(!self.head_deadline.is_zero(), "head_deadline", "must be longer than 0s");
        rule(self.head_bytes_max >= 8192, "head_bytes_max", "must be at least 8192: the buffer of a connection");
        rule(!self.idle_deadline.is_zero(), "idle_deadline", "must be longer than 0s");
        rule(!self.body_deadline.is_zero(), "body_deadline", "must be longer than 0s");
        rule(!self.body_rate_after.is_zero(), "body_rate_after", "must be longer than 0s");
        rule(!self.write_deadline.is_zero(), "write_deadline", "must be longer than 0s");
        let one_body = self.bodies_bytes_max >= BODY_BYTES_HARD_MAX;
        rule(one_body, "bodies_bytes_max", "must be at least 1048576: the largest body of most routes");
        problems
    }
}

fn is_base_url(text: &str) -> bool {
    let Ok(uri) = text.parse::<Uri>() else { return false };
    let scheme = matches!(uri.scheme_str(), Some("http" | "https"));
    let plain = uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
    scheme && plain && uri.query().is_none() && !text.ends_with('/') && !text.contains('#')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_is_scheme_host_and_perhaps_a_path() {
        for good in ["http://127.0.0.1:8080", "https://attache.example.com", "https://example.com/attache"] {
            assert!(is_base_url(good), "{good}");
        }
        for bad in ["", "attache", "ftp://x", "https://x/", "https://x?y", "https://user@x", "https://x#y"] {
            assert!(!is_base_url(bad), "{bad}");
        }
    }
}
