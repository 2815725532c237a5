//! Decides whether an account keeps new content (`docs/decisions/0025-from-url-to-text.md`).
//!
//! If the operator has configured a language model, it decides: any endpoint with the chat protocol of `OpenAI`. Its
//! input is untrusted text, so it can only return a verdict. The rest of its response is discarded, and only existing
//! categories of the account are accepted. Without a model, the include and exclude lists decide by whole words.
//!
//! **If it fails** (timeout, error, invalid response), the item is kept and marked `unfiltered`, so that a failing
//! filter loses no content.

mod answer;
mod prompt;
mod settings;

use std::sync::Arc;

use bytes::BytesMut;
use domain::filter::{FilterSettings, FilterVerdict, Rules};
use http::{HeaderValue, StatusCode, header};
use reqwest::redirect::Policy;
use tokio::sync::Semaphore;

pub use prompt::Candidate;
pub use settings::{InvalidLlm, LlmSettings};

/// Maximum size of a response; larger than any verdict with its wrapping.
const ANSWER_BYTES_MAX: usize = 256 * 1024;

/// Decides about new content. Clones share connections and the limit of requests.
#[derive(Debug, Clone)]
pub struct Filter {
    model: Option<Arc<LanguageModel>>,
}

/// Why a filter cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// The settings of the endpoint are invalid.
    #[error(transparent)]
    Settings(#[from] InvalidLlm),
    /// The HTTP client cannot be created.
    #[error("cannot create an HTTP client")]
    Http(#[from] reqwest::Error),
}

impl Filter {
    /// Creates a filter with the configured model, if there is one. Sends nothing.
    pub fn new(settings: &LlmSettings) -> Result<Self, FilterError> {
        Ok(Self { model: LanguageModel::new(settings)?.map(Arc::new) })
    }

    /// Whether a model is configured, for [`FilterSettings::warnings`].
    pub fn has_model(&self) -> bool {
        self.model.is_some()
    }

    /// Decides about an item. On failure, returns a verdict that keeps it.
    pub async fn judge(&self, wanted: &FilterSettings, candidate: Candidate<'_>) -> FilterVerdict {
        if !wanted.is_active() {
            return FilterVerdict::unfiltered("");
        }
        let Some(model) = &self.model else {
            return by_words(wanted, candidate).await;
        };
        match model.judge(wanted, candidate).await {
            Ok(verdict) => verdict,
            Err(failure) => {
                tracing::warn!(llm.failure = %failure, "the language model gave no verdict: the item is kept");
                FilterVerdict::unfiltered(failure.for_people())
            }
        }
    }
}

/// Matching long lists in a long text is too slow for an async thread.
async fn by_words(wanted: &FilterSettings, candidate: Candidate<'_>) -> FilterVerdict {
    let rules = Rules::new(wanted);
    let (title, text) = (candidate.title.unwrap_or_default().to_owned(), candidate.markdown.to_owned());
    let judged = tokio::task::spawn_blocking(move || rules.judge(&title, &text)).await;
    judged.unwrap_or_else(|_| FilterVerdict::unfiltered("the rules could not be applied"))
}

#[derive(Debug)]
struct LanguageModel {
    http: reqwest::Client,
    url: String,
    authorization: Option<HeaderValue>,
    settings: LlmSettings,
    permits: Semaphore,
}

/// Why the model returned no verdict.
#[derive(Debug, thiserror::Error)]
enum ModelFailure {
    #[error("timeout")]
    Timeout,
    #[error("{0}")]
    Http(reqwest::Error),
    #[error("status {0}")]
    Status(StatusCode),
    #[error("a response of more than {ANSWER_BYTES_MAX} bytes")]
    TooLarge,
    #[error("a response without a verdict")]
    Garbage,
}

impl ModelFailure {
    /// The reason in the verdict log, without details of the operator's endpoint.
    fn for_people(&self) -> &'static str {
        match self {
            Self::Timeout => "the language model did not answer in time",
            Self::Http(_) | Self::Status(_) => "the language model was not available",
            Self::TooLarge | Self::Garbage => "the language model gave no usable answer",
        }
    }
}

impl LanguageModel {
    fn new(settings: &LlmSettings) -> Result<Option<Self>, FilterError> {
        let Some(base_url) = settings.base_url()? else { return Ok(None) };
        let http = http_client::builder().redirect(Policy::none()).no_proxy().build()?;
        Ok(Some(Self {
            http,
            url: format!("{base_url}/chat/completions"),
            authorization: settings.authorization()?,
            settings: settings.clone(),
            permits: Semaphore::new(settings.in_flight_max.max(1)),
        }))
    }

    async fn judge(&self, wanted: &FilterSettings, candidate: Candidate<'_>) -> Result<FilterVerdict, ModelFailure> {
        let body = prompt::request(&self.settings, wanted, candidate);
        // Waiting for a permit is not part of the model's timeout. The semaphore is never closed.
        let _permit = self.permits.acquire().await;
        let response = tokio::time::timeout(self.settings.timeout, self.ask(&body)).await;
        let answer = response.unwrap_or(Err(ModelFailure::Timeout))?;
        answer::verdict(&answer, &wanted.categories).ok_or(ModelFailure::Garbage)
    }

    async fn ask(&self, body: &serde_json::Value) -> Result<BytesMut, ModelFailure> {
        let broken = |error: reqwest::Error| ModelFailure::Http(error.without_url());
        let mut request = self.http.post(&self.url).json(body);
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let mut response = request.send().await.map_err(broken)?;
        if !response.status().is_success() {
            return Err(ModelFailure::Status(response.status()));
        }
        let mut answer = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(broken)? {
            if answer.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err(ModelFailure::TooLarge);
            }
            answer.extend_from_slice(&chunk);
        }
        Ok(answer)
    }
}
