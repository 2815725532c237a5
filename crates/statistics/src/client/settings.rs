//! Settings of the connection to an external statistics service.

use std::fmt;
use std::time::Duration;

use http::{HeaderValue, Uri};
use serde::{Deserialize, Serialize};

use crate::breaker::BreakerSettings;

/// Settings `[upstream]`: address, token and deadlines of a statistics service.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct UpstreamSettings {
    pub url: Option<String>,
    pub token: Option<String>,
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
    pub breaker: BreakerSettings,
}

impl Default for UpstreamSettings {
    fn default() -> Self {
        Self { url: None, token: None, timeout: Duration::from_secs(10), breaker: BreakerSettings::default() }
    }
}

/// Errors of the settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUpstream {
    /// `url` is not a base URL.
    #[error("upstream.url must be like https://statistics.example.com, without a query")]
    Url,
    /// The token contains characters that a header does not allow.
    #[error("upstream.token has characters that no header takes")]
    Token,
}

impl UpstreamSettings {
    /// Invalid values, as pairs of field and violated rule.
    pub fn problems(&self) -> Vec<(String, String)> {
        let url = self.url.as_ref().and_then(|_| self.base_url().err()).map(|fault| ("url", fault.to_string()));
        let token = self.authorization().err().map(|fault| ("token", fault.to_string()));
        let longer = |name, value: Duration| value.is_zero().then(|| (name, "must be longer than 0s".to_owned()));
        let problems = [url, token, longer("timeout", self.timeout)];
        problems.into_iter().flatten().map(|(field, rule)| (field.to_owned(), rule)).collect()
    }

    /// The base URL, without a slash at the end.
    pub(super) fn base_url(&self) -> Result<String, InvalidUpstream> {
        let text = self.url.as_deref().ok_or(InvalidUpstream::Url)?.trim_end_matches('/');
        let uri: Uri = text.parse().map_err(|_| InvalidUpstream::Url)?;
        let http = matches!(uri.scheme_str(), Some("http" | "https")) && uri.authority().is_some();
        if http && uri.query().is_none() { Ok(text.to_owned()) } else { Err(InvalidUpstream::Url) }
    }

    pub(super) fn authorization(&self) -> Result<Option<HeaderValue>, InvalidUpstream> {
        let header = |token: &String| {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| InvalidUpstream::Token)?;
            value.set_sensitive(true);
            Ok(value)
        };
        self.token.as_ref().map(header).transpose()
    }
}

/// Hides the token, which is a secret.
impl fmt::Debug for UpstreamSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamSettings")
            .field("url", &self.url)
            .field("token", &self.token.as_ref().map(|_| "…"))
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_a_base_and_a_token_fits_a_header() {
        let with = |url: &str| UpstreamSettings { url: Some(url.into()), ..UpstreamSettings::default() };
        assert_eq!(with("http://127.0.0.1:1/").base_url().unwrap(), "http://127.0.0.1:1");
        for wrong in ["", "statistics", "ftp://x", "http://x?y=1"] {
            assert_eq!(with(wrong).problems().len(), 1, "{wrong}");
        }
        let token = UpstreamSettings { token: Some("a\nb".into()), ..UpstreamSettings::default() };
        assert_eq!(token.problems()[0].0, "token");
        assert_eq!(UpstreamSettings::default().problems(), []);
        assert!(!format!("{:?}", UpstreamSettings { token: Some("hush".into()), ..with("http://x") }).contains("hush"));
    }
}
