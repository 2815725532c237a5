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
pub struct HttpSettings {
    /// Address of the public listener.
    pub bind: SocketAddr,
    /// How people and agents reach it from outside, without a slash at the end; every link that is printed begins with it. When it is
    /// not set, it is `http://` and the bound address.
    pub base_url: Option<String>,
    /// Middle of the session cookie's name.
    pub auth_name: String,
    /// Networks of proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// How many connections may be open.
    pub connections_max: usize,
    /// How many of them one address may have; 0 is no limit. Trusted proxies have as many as they like.
    pub connections_per_address_max: usize,
    /// File descriptors that public connections leave to everything else: databases, outgoing connections, the operator's listener.
    pub descriptors_reserved: u64,
    /// How many requests may be in progress; one more is answered 424 at once.
    pub requests_max: usize,
    /// How long a client may take to send the head of a request.
    #[serde(with = "humantime_serde")]
    pub head_deadline: Duration,
    /// Maximum size of the head of a request.
    pub head_bytes_max: usize,
    /// How long a connection may be idle after a response; `head_deadline`, if it is shorter, while connections are scarce.
    #[serde(with = "humantime_serde")]
    pub idle_deadline: Duration,
    /// How long a client may take to send the body of a request.
    #[serde(with = "humantime_serde")]
    pub body_deadline: Duration,
    /// Minimum rate of a body in bytes per second, after `body_rate_after` has elapsed; 0 is no limit.
    pub body_rate_min: usize,
    /// How long a body may be slower.
    #[serde(with = "humantime_serde")]
    pub body_rate_after: Duration,
    /// How many bodies one address may be sending at a time; 0 is no limit. Bodies that come together with their head do not count.
    pub bodies_per_address_max: usize,
    /// Bytes of all such bodies that may be in memory, and of heads beyond 8 KiB each.
    pub bodies_bytes_max: usize,
    /// How long a client may read nothing of a response before its connection is closed.
    #[serde(with = "humantime_serde")]
    pub write_deadline: Duration,
    /// Maximum size of the rest of a body that is discarded before a response, so that the connection is kept; 0 discards none.
    pub unread_bytes_max: u64,
    /// How long the server waits for that rest.
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
