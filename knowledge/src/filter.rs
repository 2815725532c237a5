//! Decides whether an account keeps new content (`docs/decisions/0044-content-filter.md`).
//!
//! A language model decides if the operator has configured one: any endpoint that speaks the chat protocol of `OpenAI`. Its input is
//! untrusted text, so it can only return a verdict: the rest of its answer is discarded, and only categories that the
//! account has are accepted. Without a model, the include and exclude lists decide by whole words.
//!
//! **If it fails** (no answer in time, an error, nonsense), the item is kept and marked `unfiltered`: a filter that is down must not lose
//! what people add.

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

/// More than any verdict needs, with the wrapping that endpoints put around it.
const ANSWER_BYTES_MAX: usize = 256 * 1024;

/// Decides about new content. Clones share connections and the bound on them.
#[derive(Debug, Clone)]
pub struct Filter {
    model: Option<Arc<Model>>,
}

/// A filter that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// The settings name no usable endpoint.
    #[error(transparent)]
    Settings(#[from] InvalidLlm),
    /// The HTTP library.
    #[error("making the HTTP client: {0}")]
    Http(#[from] reqwest::Error),
}

impl Filter {
    /// A filter that asks the model that the settings name, if they name one; nothing is sent yet.
    pub fn new(settings: &LlmSettings) -> Result<Self, FilterError> {
        Ok(Self { model: Model::new(settings)?.map(Arc::new) })
    }

    /// Whether there is a model to ask: what [`FilterSettings::warnings`] wants to know.
    pub fn has_model(&self) -> bool {
        self.model.is_some()
    }

    /// Decides. Never fails: see the module's words on failures.
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

/// The lists may be long and so may the text: more work than a thread that others wait for should do.
async fn by_words(wanted: &FilterSettings, candidate: Candidate<'_>) -> FilterVerdict {
    let rules = Rules::new(wanted);
    let (title, text) = (candidate.title.unwrap_or_default().to_owned(), candidate.markdown.to_owned());
    let judged = tokio::task::spawn_blocking(move || rules.judge(&title, &text)).await;
    judged.unwrap_or_else(|_| FilterVerdict::unfiltered("the rules could not be applied"))
}

#[derive(Debug)]
struct Model {
    http: reqwest::Client,
    url: String,
    authorization: Option<HeaderValue>,
    settings: LlmSettings,
    permits: Semaphore,
}

/// Why there is no verdict.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("no answer in time")]
    Timeout,
    #[error("{0}")]
    Http(reqwest::Error),
    #[error("status {0}")]
    Status(StatusCode),
    #[error("an answer of more than {ANSWER_BYTES_MAX} bytes")]
    TooLarge,
    #[error("an answer that is no verdict")]
    Garbage,
}

impl Failure {
    /// What the verdict log says: nothing of the operator's endpoint.
    fn for_people(&self) -> &'static str {
        match self {
            Self::Timeout => "the language model did not answer in time",
            Self::Http(_) | Self::Status(_) => "the language model was not available",
            Self::TooLarge | Self::Garbage => "the language model gave no usable answer",
        }
    }
}

impl Model {
    fn new(settings: &LlmSettings) -> Result<Option<Self>, FilterError> {
        let Some(base_url) = settings.base_url()? else { return Ok(None) };
        // Fails when the process has chosen one already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().redirect(Policy::none()).no_proxy().build()?;
        Ok(Some(Self {
            http,
            url: format!("{base_url}/chat/completions"),
            authorization: settings.authorization()?,
            settings: settings.clone(),
            permits: Semaphore::new(settings.in_flight_max.max(1)),
        }))
    }

    async fn judge(&self, wanted: &FilterSettings, candidate: Candidate<'_>) -> Result<FilterVerdict, Failure> {
        let body = prompt::request(&self.settings, wanted, candidate);
        // Waiting for a turn is no failure of the model's. The semaphore is never closed.
        let _permit = self.permits.acquire().await;
        let asked = tokio::time::timeout(self.settings.timeout, self.ask(&body)).await;
        let answer = asked.unwrap_or(Err(Failure::Timeout))?;
        answer::verdict(&answer, &wanted.categories).ok_or(Failure::Garbage)
    }

    async fn ask(&self, body: &serde_json::Value) -> Result<BytesMut, Failure> {
        let broken = |error: reqwest::Error| Failure::Http(error.without_url());
        let mut request = self.http.post(&self.url).json(body);
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let mut response = request.send().await.map_err(broken)?;
        if !response.status().is_success() {
            return Err(Failure::Status(response.status()));
        }
        let mut answer = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(broken)? {
            if answer.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err(Failure::TooLarge);
            }
            answer.extend_from_slice(&chunk);
        }
        Ok(answer)
    }
}
