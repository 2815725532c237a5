//! Embeddings from an OpenAI-compatible endpoint, `POST /embeddings`.
//!
//! 1. The texts of a call are sent in requests of [`HttpEmbeddingSettings::inputs_max`], one after the other. Calls run
//!    concurrently; calls for content are limited by [`HttpEmbeddingSettings::requests_max`].
//! 2. Transient failures (no connection, timeout, 408, 429, 5xx) are retried until the deadline, after the delay of
//!    `Retry-After` or an exponential backoff. No delay is started that would exceed the deadline.
//! 3. Every response is checked: one vector per text, of the configured length, all numbers finite, not all zero.
//!    Vectors are normalised to length 1.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use domain::memory::ModelId;
use domain::{Clock, Rng, retry_after};
use http::{HeaderValue, StatusCode, header};
use reqwest::redirect::Policy;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until, timeout};

use super::settings::{EndpointAddress, HttpEmbeddingSettings};
use super::urgency::Urgency;

/// Client of the endpoint. Clones share connections.
#[derive(Debug, Clone)]
pub(super) struct Http(Arc<Endpoint>);

#[derive(Debug)]
struct Endpoint {
    client: reqwest::Client,
    url: String,
    authorization: Option<HeaderValue>,
    model: ModelId,
    content: Semaphore,
    settings: HttpEmbeddingSettings,
    rng: Rng,
}

/// Timeout of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Why the endpoint returned no vectors.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpFailure {
    /// A timeout or the deadline passed.
    #[error("the embedding endpoint did not answer in time")]
    Timeout,
    /// The connection failed or was closed.
    #[error("the embedding endpoint cannot be reached: {0}")]
    Connection(String),
    /// The endpoint responded with an error status.
    #[error("the embedding endpoint answered {status}: {detail}")]
    Status {
        /// Status of the response.
        status: StatusCode,
        /// Start of the response body, without the API key.
        detail: String,
    },
    /// The response does not contain one valid vector per text.
    #[error("the embedding endpoint gave no usable vectors: {0}")]
    Answer(String),
}

impl HttpFailure {
    /// Whether the failure is transient, so that the request can be retried.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Timeout | Self::Connection(_) => true,
            Self::Status { status, .. } => {
                status.is_server_error()
                    || matches!(*status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
            }
            Self::Answer(_) => false,
        }
    }
}

#[derive(Serialize)]
struct EmbeddingRequest<'a> {
    model: &'a str,
    input: &'a [String],
    encoding_format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<u16>,
}

#[derive(Deserialize)]
struct EmbeddingResponse {
    data: Vec<EmbeddingEntry>,
}

#[derive(Deserialize)]
struct EmbeddingEntry {
    index: Option<usize>,
    embedding: Vec<f32>,
}

impl Http {
    /// Creates a client of `endpoint`, which comes from the settings.
    pub(super) fn new(endpoint: EndpointAddress, settings: &HttpEmbeddingSettings, rng: &Rng) -> reqwest::Result<Self> {
        let client = http_client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(Policy::none())
            .no_proxy()
            .tcp_nodelay(true)
            .build()?;
        let EndpointAddress { url, model, authorization } = endpoint;
        Ok(Self(Arc::new(Endpoint {
            client,
            url,
            authorization,
            model: ModelId { name: model, dimensions: settings.dimensions },
            content: Semaphore::new(settings.requests_max),
            settings: settings.clone(),
            rng: rng.clone(),
        })))
    }

    pub(super) fn model(&self) -> &ModelId {
        &self.0.model
    }

    pub(super) async fn embed(&self, texts: Vec<String>, urgency: Urgency) -> Result<Vec<Vec<f32>>, HttpFailure> {
        let mut vectors = Vec::with_capacity(texts.len());
        for some in texts.chunks(self.0.settings.inputs_max) {
            let _turn = match urgency {
                Urgency::Query => None,
                // The semaphore is never closed; if it were, the request would just not be limited.
                Urgency::Content => self.0.content.acquire().await.ok(),
            };
            vectors.extend(self.0.embed_some(some).await?);
        }
        Ok(vectors)
    }
}

impl Endpoint {
    async fn embed_some(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, HttpFailure> {
        let deadline = Instant::now() + self.settings.deadline;
        let mut pause = self.settings.retry_delay_min;
        loop {
            let left = deadline.saturating_duration_since(Instant::now()).min(self.settings.timeout);
            let attempt = timeout(left, self.attempt(texts)).await;
            let (failure, requested_delay) = match attempt {
                Ok(Ok(vectors)) => return Ok(vectors),
                Ok(Err(failed)) => failed,
                Err(_) => (HttpFailure::Timeout, None),
            };
            let jittered = pause.min(self.settings.retry_delay_max).mul_f64(0.5 + self.rng.fraction() / 2.0);
            // Limited to the deadline, because an endpoint may request a delay that overflows `Instant`.
            let resume = Instant::now() + requested_delay.unwrap_or(jittered).min(self.settings.deadline);
            if !failure.may_pass() || resume >= deadline {
                return Err(failure);
            }
            tracing::warn!(error = domain::reasons(&failure), "an embedding request is tried again");
            sleep_until(resume).await;
            pause = pause.saturating_mul(2).min(self.settings.retry_delay_max);
        }
    }

    /// Sends one request. A failure carries the delay that the endpoint requested.
    async fn attempt(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, (HttpFailure, Option<Duration>)> {
        let dimensions = self.settings.dimensions_asked.then_some(self.model.dimensions);
        let body = EmbeddingRequest { model: &self.model.name, input: texts, encoding_format: "float", dimensions };
        let mut request = self.client.post(&self.url).json(&body);
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let mut response = request.send().await.map_err(|error| (connection(error), None))?;
        let status = response.status();
        let requested_delay = response.headers().get(header::RETRY_AFTER);
        let requested_delay =
            requested_delay.and_then(|value| retry_after(value.to_str().ok()?, Clock::system().now()));
        let mut body = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| (connection(error), None))? {
            if body.len() + chunk.len() > self.settings.body_bytes_max {
                return Err((HttpFailure::Answer("the answer is too large".to_owned()), None));
            }
            body.extend_from_slice(&chunk);
        }
        if status.is_success() {
            return vectors(&body, texts.len(), self.model.dimensions.into())
                .map_err(|why| (HttpFailure::Answer(why), None));
        }
        Err((HttpFailure::Status { status, detail: self.detail(&body) }, requested_delay))
    }

    /// The start of an error response. Removes the API key, which some endpoints repeat.
    fn detail(&self, body: &[u8]) -> String {
        const CHARS_MAX: usize = 200;
        let text = String::from_utf8_lossy(body);
        let text = match &self.settings.api_key {
            Some(key) if !key.is_empty() => text.replace(key, "…"),
            _ => text.into_owned(),
        };
        text.chars().take(CHARS_MAX).collect()
    }
}

/// The normalised vectors of a response, in the order of the texts; or the fault of the response.
fn vectors(body: &[u8], count: usize, dimensions: usize) -> Result<Vec<Vec<f32>>, String> {
    let answer: EmbeddingResponse = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    if answer.data.len() != count {
        return Err(format!("{} vectors for {count} texts", answer.data.len()));
    }
    let mut vectors = vec![Vec::new(); count];
    for (place, entry) in answer.data.into_iter().enumerate() {
        // Some endpoints omit the index, and keep the order of the texts.
        let index = entry.index.unwrap_or(place);
        match vectors.get_mut(index) {
            Some(vector) if vector.is_empty() => *vector = unit(entry.embedding, dimensions)?,
            _ => return Err(format!("index {index} is not one of {count}, or comes twice")),
        }
    }
    Ok(vectors)
}

fn unit(mut vector: Vec<f32>, dimensions: usize) -> Result<Vec<f32>, String> {
    if vector.len() != dimensions {
        return Err(format!("a vector of {} numbers where {dimensions} are configured", vector.len()));
    }
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    if !length.is_normal() {
        return Err("a vector without a direction".to_owned());
    }
    for value in &mut vector {
        *value /= length;
    }
    Ok(vector)
}

fn connection(error: reqwest::Error) -> HttpFailure {
    // The URL is configured by the operator, and need not be repeated in every log line.
    let error = error.without_url();
    if error.is_timeout() {
        return HttpFailure::Timeout;
    }
    HttpFailure::Connection(domain::reasons(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_put_in_order_and_brought_to_length_one() {
        let body = br#"{"data": [{"index": 1, "embedding": [0, 5]}, {"index": 0, "embedding": [3, 4]}], "usage": {}}"#;
        assert_eq!(vectors(body, 2, 2).unwrap(), [[0.6, 0.8], [0.0, 1.0]]);
    }

    #[test]
    fn the_fault_of_a_response_is_named() {
        for (body, why) in [
            (r#"{"data": []}"#, "0 vectors for 1 texts"),
            (r#"{"data": [{"embedding": [1]}]}"#, "a vector of 1 numbers where 2 are configured"),
            (r#"{"data": [{"embedding": [0, 0]}]}"#, "a vector without a direction"),
            (r#"{"data": [{"embedding": [1e38, 1e38]}]}"#, "a vector without a direction"),
            (r#"{"data": [{"index": 1, "embedding": [1, 0]}]}"#, "index 1 is not one of 1, or comes twice"),
        ] {
            assert_eq!(vectors(body.as_bytes(), 1, 2).unwrap_err(), why);
        }
        assert!(vectors(br#"{"data": [{"embedding": [NaN, 1]}]}"#, 1, 2).is_err());
        assert!(vectors(b"<html>", 1, 2).is_err());
    }
}
