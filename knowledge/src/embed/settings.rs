//! Knobs of embedding.

use std::fmt;
use std::time::Duration;

use ::http::{HeaderValue, Uri};
use serde::{Deserialize, Serialize};

/// `[knowledge.embedding]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EmbeddingSettings {
    /// Where vectors come from.
    pub provider: Provider,
    /// Threads that run the bundled model; 0: one for each processor.
    pub threads: usize,
    /// Tokens that one thread works on at a time: a search waits for them at most, about 1 ms for 6.
    pub batch_tokens_max: usize,
    /// The endpoint, when it is one.
    pub http: HttpEmbeddingSettings,
}

/// Where vectors come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// The model inside the program.
    #[default]
    Bundled,
    /// An OpenAI-compatible endpoint.
    Http,
    /// Nowhere: search finds words only.
    None,
}

/// `[knowledge.embedding.http]`
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpEmbeddingSettings {
    /// What `/embeddings` is appended to, like `https://api.example.com/v1`.
    pub base_url: Option<String>,
    /// The model's name there.
    pub model: Option<String>,
    /// Bearer token that the endpoint asks for.
    pub api_key: Option<String>,
    /// Numbers of that model's vectors.
    pub dimensions: u16,
    /// Whether the request asks for that many: some models shorten their vectors, some endpoints know no such member.
    pub dimensions_asked: bool,
    /// Texts of one request.
    pub inputs_max: usize,
    /// Requests under way for content; searches are not counted.
    pub requests_max: usize,
    /// Longest wait for one answer.
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
    /// Longest time for one request with all its repetitions.
    #[serde(with = "humantime_serde")]
    pub deadline: Duration,
    /// Longest wait for a connection.
    #[serde(with = "humantime_serde")]
    pub connect_timeout: Duration,
    /// First pause before a repetition; each further one is twice as long.
    #[serde(with = "humantime_serde")]
    pub retry_delay_min: Duration,
    /// Longest pause that we choose ourselves; the endpoint may ask for longer ones.
    #[serde(with = "humantime_serde")]
    pub retry_delay_max: Duration,
    /// Largest answer that is read, in bytes.
    pub body_bytes_max: usize,
}

impl Default for EmbeddingSettings {
    fn default() -> Self {
        Self {
            provider: Provider::default(),
            threads: 0,
            batch_tokens_max: 256,
            http: HttpEmbeddingSettings::default(),
        }
    }
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
            connect_timeout: Duration::from_secs(5),
            retry_delay_min: Duration::from_millis(250),
            retry_delay_max: Duration::from_secs(10),
            body_bytes_max: 64 * 1024 * 1024,
        }
    }
}

impl EmbeddingSettings {
    /// What is wrong with these values, as pairs of field and rule.
    pub fn problems(&self) -> Vec<(String, String)> {
        /// More threads than any machine needs are a slip of the keyboard.
        const THREADS_MAX: usize = 1024;
        /// Beyond this, memory grows and nothing gets faster.
        const TOKENS_MAX: usize = 65_536;
        let threads = (self.threads > THREADS_MAX).then(|| ("threads", format!("must be at most {THREADS_MAX}")));
        let tokens = (!(1..=TOKENS_MAX).contains(&self.batch_tokens_max))
            .then(|| ("batch_tokens_max", format!("must be between 1 and {TOKENS_MAX}")));
        let own = [threads, tokens].into_iter().flatten().map(|(field, rule)| (field.to_owned(), rule));
        let http = self.http.problems(self.provider == Provider::Http);
        own.chain(http.into_iter().map(|(field, rule)| (format!("http.{field}"), rule))).collect()
    }
}

impl HttpEmbeddingSettings {
    /// Dimensions of the largest known models, with room.
    const DIMENSIONS_MAX: u16 = 16_384;

    fn problems(&self, used: bool) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        if (used || self.base_url.is_some()) && self.url().is_none() {
            found.push(("base_url", "must be like https://api.example.com/v1, without a query".to_owned()));
        }
        if used && self.model.as_deref().is_none_or(str::is_empty) {
            found.push(("model", "must name the model of the endpoint".to_owned()));
        }
        if used && !(1..=Self::DIMENSIONS_MAX).contains(&self.dimensions) {
            found.push(("dimensions", format!("must be between 1 and {}", Self::DIMENSIONS_MAX)));
        }
        if self.authorization().is_none() {
            found.push(("api_key", "has characters that no header takes".to_owned()));
        }
        for (field, value) in [
            ("inputs_max", self.inputs_max),
            ("requests_max", self.requests_max),
            ("body_bytes_max", self.body_bytes_max),
        ] {
            if value == 0 {
                found.push((field, "must be at least 1".to_owned()));
            }
        }
        for (field, value) in [
            ("timeout", self.timeout),
            ("deadline", self.deadline),
            ("connect_timeout", self.connect_timeout),
            ("retry_delay_min", self.retry_delay_min),
            ("retry_delay_max", self.retry_delay_max),
        ] {
            if value.is_zero() {
                found.push((field, "must be longer than 0s".to_owned()));
            }
        }
        found
    }

    /// Where requests go.
    pub(super) fn url(&self) -> Option<String> {
        let base = self.base_url.as_deref()?.trim_end_matches('/');
        let uri: Uri = base.parse().ok()?;
        let usable =
            matches!(uri.scheme_str(), Some("http" | "https")) && uri.authority().is_some() && uri.query().is_none();
        usable.then(|| format!("{base}/embeddings"))
    }

    /// The header, `Some(None)` without a key; `None` when the key fits no header.
    #[expect(clippy::option_option, reason = "no key and a bad key are different things")]
    pub(super) fn authorization(&self) -> Option<Option<HeaderValue>> {
        let Some(key) = &self.api_key else { return Some(None) };
        let mut value = HeaderValue::from_str(&format!("Bearer {key}")).ok()?;
        value.set_sensitive(true);
        Some(Some(value))
    }
}

/// The key is a secret.
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
        let mut settings = EmbeddingSettings { provider: Provider::Http, ..EmbeddingSettings::default() };
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
        let settings = EmbeddingSettings { threads: 5000, batch_tokens_max: 0, http, ..EmbeddingSettings::default() };
        let expected =
            ["threads", "batch_tokens_max", "http.base_url", "http.api_key", "http.inputs_max", "http.timeout"];
        assert_eq!(fields(&settings), expected);
    }

    #[test]
    fn the_key_is_not_shown() {
        let http = HttpEmbeddingSettings { api_key: Some("hush".into()), ..HttpEmbeddingSettings::default() };
        assert!(!format!("{:?}", EmbeddingSettings { http, ..EmbeddingSettings::default() }).contains("hush"));
    }
}
