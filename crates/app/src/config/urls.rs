//! The URLs under which clients reach the server.

use std::net::{IpAddr, SocketAddr};

use super::Settings;

/// The public URLs, without a slash at the end.
#[derive(Debug, Clone)]
pub struct Urls {
    /// Base URL of the pages and of the account and agent API (`http.base_url`).
    pub base: String,
    /// Base URL of the knowledge API (`knowledge.base_url`).
    pub rag: String,
}

impl Urls {
    /// The configured URLs; by default the URLs of the bound listeners.
    pub fn configured(settings: &Settings, public: SocketAddr, knowledge: Option<SocketAddr>) -> Self {
        let base = settings.http.base_url.clone().unwrap_or_else(|| format!("http://{public}"));
        let rag = settings.knowledge.base_url.clone().or_else(|| Some(format!("http://{}", knowledge?)));
        Self { rag: rag.unwrap_or_else(|| base.clone()), base }
    }

    /// The origin of the pages: scheme, host and port of the base URL.
    pub fn origin(&self) -> &str {
        let after_scheme = self.base.find("://").map_or(0, |at| at + 3);
        let end = self.base[after_scheme..].find('/').map_or(self.base.len(), |at| after_scheme + at);
        &self.base[..end]
    }

    /// The host of the base URL, with its port if it has one.
    pub fn host(&self) -> &str {
        self.origin().split("://").nth(1).unwrap_or_else(|| self.origin())
    }

    /// The path of the base URL, without a slash at the end: empty unless a proxy serves the pages below a path.
    pub fn root_path(&self) -> &str {
        &self.base[self.origin().len()..]
    }

    /// Whether the base URL is a loopback address, so that only programs and browsers of this host reach the
    /// server.
    pub fn is_loopback(&self) -> bool {
        let authority = self.host();
        let host = authority
            .rsplit_once(':')
            .map_or(authority, |(host, port)| if port.ends_with(']') { authority } else { host });
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }

    /// Whether browsers reach the pages over https.
    pub fn is_https(&self) -> bool {
        self.base.starts_with("https://")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_of_this_host_alone_is_recognised() {
        let is_loopback = |base: &str| Urls { base: base.to_owned(), rag: String::new() }.is_loopback();
        for base in [
            "http://127.0.0.1:8080",
            "http://localhost",
            "http://localhost:80/below",
            "http://[::1]:8080",
            "http://[::1]",
        ] {
            assert!(is_loopback(base), "{base}");
        }
        for base in [
            "https://attache.example.com",
            "http://127.0.0.1.example.com",
            "http://10.0.0.1:8080",
            "http://[2001:db8::1]",
        ] {
            assert!(!is_loopback(base), "{base}");
        }
    }
}
