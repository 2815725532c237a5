//! Settings of embedding.

use std::fmt;
use std::time::Duration;

use ::http::{HeaderValue, Uri};
use serde::{Deserialize, Serialize};

/// `[knowledge.embedding]`
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct EmbeddingSettings {
    pub provider: EmbeddingProvider,
    pub threads: usize,
    pub http: HttpEmbeddingSettings,
}

/// Provider of embeddings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EmbeddingProvider {
    /// The bundled model.
    #[default]
    Bundled,
    /// An OpenAI-compatible endpoint.
    Http,
    /// None: search is lexical only.
    None,
}

/// `[knowledge.embedding.http]`
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct HttpEmbeddingSettings {
    pub base_url: Option<String>,
    pub model: Option<String>,
    pub api_key: Option<String>,
    pub dimensions: u16,
    pub dimensions_asked: bool,
    pub inputs_max: usize,
    pub requests_max: usize,
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
    #[serde(with = "humantime_serde")]
    pub deadline: Duration,
    /// Delay before the first retry; doubled for each further one. No setting of an operator: tests retry at once.
    #[serde(skip)]
    pub retry_delay_min: Duration,
    /// Maximum delay of the backoff. `Retry-After` may request a longer one.
    /// No setting of an operator: tests retry at once.
    #[serde(skip)]
    pub retry_delay_max: Duration,
    /// Maximum size of a response, in bytes. No setting of an operator: tests send small responses.
    #[serde(skip)]
    pub body_bytes_max: usize,
}

#[derive(Debug)]
pub(super) struct EndpointAddress {
    pub(super) url: String,
    pub(super) model: String,
    pub(super) authorization: Option<HeaderValue>,
}

impl Default for HttpEmbeddingSettings {
    fn default() -> Self {
        Self {
            base_url: None,
            model: None,
            api_key: None,
            dimensions: 0,
            dimensions_asked: false,
            inputs_max: 64,
            requests_max: 4,
            timeout: Duration::from_secs(30),
            deadline: Duration::from_mins(2),
            retry_delay_min: Duration::from_millis(250),
            retry_delay_max: Duration::from_secs(10),
            body_bytes_max: 64 * 1024 * 1024,
        }
    }
}

impl EmbeddingSettings {
    /// Invalid values, as pairs of field and rule.
    pub fn problems(&self) -> Vec<(String, String)> {
        /// A higher number of threads is assumed to be a typing error.
        const THREADS_MAX: usize = 1024;
        let threads = (self.threads > THREADS_MAX).then(|| ("threads", format!("must be at most {THREADS_MAX}")));
        let own = threads.into_iter().map(|(field, rule)| (field.to_owned(), rule));
        let http = self.http.problems(self.provider == EmbeddingProvider::Http);
        own.chain(http.into_iter().map(|(field, rule)| (format!("http.{field}"), rule))).collect()
    }
}

impl HttpEmbeddingSettings {
    /// More than the dimensions of the largest known models.
    const DIMENSIONS_MAX: u16 = 16_384;

    fn problems(&self, used: bool) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        if (used || self.base_url.is_some()) && self.url().is_none() {
            faults.push(("base_url", "must be like https://api.example.com/v1, without a query".to_owned()));
        }
        if used && self.model.as_deref().is_none_or(str::is_empty) {
            faults.push(("model", "must name the model of the endpoint".to_owned()));
        }
        if used && !(1..=Self::DIMENSIONS_MAX).contains(&self.dimensions) {
            faults.push(("dimensions", format!("must be between 1 and {}", Self::DIMENSIONS_MAX)));
        }
        if self.authorization().is_none() {
            faults.push(("api_key", "has characters that no header takes".to_owned()));
        }
        for (field, value) in [("inputs_max", self.inputs_max), ("requests_max", self.requests_max)] {
            if value == 0 {
                faults.push((field, "must be at least 1".to_owned()));
            }
        }
        for (field, value) in [("timeout", self.timeout), ("deadline", self.deadline)] {
            if value.is_zero() {
                faults.push((field, "must be longer than 0s".to_owned()));
            }
        }
        faults
    }

    /// The endpoint that these settings name; `None` if they name none or are invalid.
    pub(super) fn endpoint(&self) -> Option<EndpointAddress> {
        let model = self.model.clone().filter(|model| !model.is_empty())?;
        Some(EndpointAddress { url: self.url()?, model, authorization: self.authorization()? })
    }

    /// URL of the requests; `None` if the base URL is invalid.
    pub(super) fn url(&self) -> Option<String> {
        let base = self.base_url.as_deref()?.trim_end_matches('/');
        let uri: Uri = base.parse().ok()?;
        let usable =
            matches!(uri.scheme_str(), Some("http" | "https")) && uri.authority().is_some() && uri.query().is_none();
        usable.then(|| format!("{base}/embeddings"))
    }

    /// The `Authorization` header: `Some(None)` without a key, `None` if the key is not a valid header value.
    #[expect(clippy::option_option, reason = "no key and a bad key are different things")]
    pub(super) fn authorization(&self) -> Option<Option<HeaderValue>> {
        let Some(key) = &self.api_key else { return Some(None) };
        let mut value = HeaderValue::from_str(&format!("Bearer {key}")).ok()?;
        value.set_sensitive(true);
        Some(Some(value))
    }
}

/// Hides the API key.
impl fmt::Debug for HttpEmbeddingSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpEmbeddingSettings")
            .field("base_url", &self.base_url)
            .field("model", &self.model)
            .field("api_key", &self.api_key.as_ref().map(|_| "…"))
            .field("dimensions", &self.dimensions)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(settings: &EmbeddingSettings) -> Vec<String> {
        settings.problems().into_iter().map(|(field, _)| field).collect()
    }

    #[test]
    fn defaults_are_complete_and_an_endpoint_needs_three_words() {
        assert_eq!(fields(&EmbeddingSettings::default()), [""; 0]);
        let mut settings = EmbeddingSettings { provider: EmbeddingProvider::Http, ..EmbeddingSettings::default() };
        assert_eq!(fields(&settings), ["http.base_url", "http.model", "http.dimensions"]);
        settings.http.base_url = Some("http://127.0.0.1:1/v1/".into());
        settings.http.model = Some("m".into());
        settings.http.dimensions = 3;
        assert_eq!(fields(&settings), [""; 0]);
        assert_eq!(settings.http.url().unwrap(), "http://127.0.0.1:1/v1/embeddings");
    }

    #[test]
    fn values_out_of_range_are_named() {
        let http = HttpEmbeddingSettings {
            base_url: Some("ftp://x".into()),
            api_key: Some("a\nb".into()),
            inputs_max: 0,
            timeout: Duration::ZERO,
            ..HttpEmbeddingSettings::default()
        };
        let settings = EmbeddingSettings { threads: 5000, http, ..EmbeddingSettings::default() };
        let expected = ["threads", "http.base_url", "http.api_key", "http.inputs_max", "http.timeout"];
        assert_eq!(fields(&settings), expected);
    }

    #[test]
    fn the_key_is_not_shown() {
        let http = HttpEmbeddingSettings { api_key: Some("hush".into()), ..HttpEmbeddingSettings::default() };
        assert!(!format!("{:?}", EmbeddingSettings { http, ..EmbeddingSettings::default() }).contains("hush"));
    }
}
