//! Settings of the language model of the filter.

use std::fmt;
use std::time::Duration;

use http::HeaderValue;
use serde::{Deserialize, Serialize};
use url::Url;

/// `[knowledge.llm]`
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct LlmSettings {
    pub base_url: Option<String>,
    pub api_key: Option<String>,
    pub model: String,
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
    /// Maximum length of the text that the model receives, in characters.
    /// No setting of an operator: tests send short texts.
    #[serde(skip)]
    pub content_chars_max: usize,
    pub in_flight_max: usize,
}

impl Default for LlmSettings {
    fn default() -> Self {
        Self {
            base_url: None,
            api_key: None,
            model: String::new(),
            timeout: Duration::from_secs(20),
            content_chars_max: 8000,
            in_flight_max: 4,
        }
    }
}

/// Why the settings are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLlm {
    /// Not a usable base URL.
    #[error("must be like https://api.example.com/v1, without user name, query and fragment")]
    Url,
    /// Not a valid header value.
    #[error("has characters that a header must not have")]
    ApiKey,
}

impl LlmSettings {
    /// Invalid values, as pairs of field and rule.
    pub fn problems(&self) -> Vec<(String, String)> {
        let rule = |broken: bool, field: &'static str, rule: &str| broken.then(|| (field.to_owned(), rule.to_owned()));
        let invalid = |field: &str, error: Option<InvalidLlm>| error.map(|error| (field.to_owned(), error.to_string()));
        let faults = [
            invalid("base_url", self.base_url().err()),
            invalid("api_key", self.authorization().err()),
            rule(self.base_url.is_some() && self.model.trim().is_empty(), "model", "must be named when base_url is"),
            rule(self.timeout.is_zero(), "timeout", "must be longer than 0s"),
            rule(self.in_flight_max == 0, "in_flight_max", "must be at least 1"),
        ];
        faults.into_iter().flatten().collect()
    }

    /// The base URL without a trailing slash.
    pub(super) fn base_url(&self) -> Result<Option<&str>, InvalidLlm> {
        let Some(text) = self.base_url.as_deref() else { return Ok(None) };
        let url = Url::parse(text).map_err(|_| InvalidLlm::Url)?;
        let is_base = matches!(url.scheme(), "http" | "https")
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        if is_base { Ok(Some(text.trim_end_matches('/'))) } else { Err(InvalidLlm::Url) }
    }

    pub(super) fn authorization(&self) -> Result<Option<HeaderValue>, InvalidLlm> {
        let header = |token: &String| {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| InvalidLlm::ApiKey)?;
            value.set_sensitive(true);
            Ok(value)
        };
        self.api_key.as_ref().map(header).transpose()
    }
}

/// Hides the API key.
impl fmt::Debug for LlmSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LlmSettings")
            .field("base_url", &self.base_url)
            .field("api_key", &self.api_key.as_ref().map(|_| "…"))
            .field("model", &self.model)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_its_bounds() {
        assert_eq!(LlmSettings::default().problems(), []);
        for url in ["x", "ftp://x", "http://u@x/v1", "https://x/v1?k=1", "https://x/#y"] {
            let settings = LlmSettings { base_url: Some(url.into()), model: "m".into(), ..LlmSettings::default() };
            assert_eq!(settings.problems()[0].0, "base_url", "{url}");
        }
        let wrong = LlmSettings {
            base_url: Some("https://x/v1/".into()),
            api_key: Some("a\nb".into()),
            model: " ".into(),
            timeout: Duration::ZERO,
            in_flight_max: 0,
            ..LlmSettings::default()
        };
        assert_eq!(wrong.problems().len(), 4);
        assert_eq!(wrong.base_url(), Ok(Some("https://x/v1")));
    }

    #[test]
    fn the_key_is_never_shown() {
        let settings = LlmSettings { api_key: Some("hush".into()), ..LlmSettings::default() };
        assert!(!format!("{settings:?} {:?}", settings.authorization()).contains("hush"));
    }
}
