//! The URLs under which clients reach the server.

use std::net::SocketAddr;

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
    /// The configured URLs; by default those of the bound listeners.
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

    /// The path of the base URL, without a slash at the end: empty unless a proxy serves the pages below a path.
    pub fn root_path(&self) -> &str {
        &self.base[self.origin().len()..]
    }

    /// Whether browsers reach the pages over https.
    pub fn is_https(&self) -> bool {
        self.base.starts_with("https://")
    }
}
