//! Sends requests, and retries them where that is safe.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use bytes::{Bytes, BytesMut};
use domain::{Clock, retry_after};
use futures_util::{Stream, StreamExt};
use http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method};
use reqwest::{RequestBuilder, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::error::ErrorBody;

use crate::error::{Error, Refusal};
use crate::{Client, Credential};

/// When a request may be retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryRule {
    /// Always: the request is idempotent.
    Always,
    /// Only if it cannot have reached the server.
    UnlessSent,
}

#[derive(Debug, Clone)]
pub(crate) struct ApiRequest {
    pub url: String,
    pub method: Method,
    pub repeat: RetryRule,
    body: Option<(&'static str, Bytes)>,
    headers: HeaderMap,
}

impl ApiRequest {
    /// A read, which may always be retried.
    pub fn get(url: String) -> Self {
        Self { url, method: Method::GET, repeat: RetryRule::Always, body: None, headers: HeaderMap::new() }
    }

    /// A write, which is retried only if it was not sent.
    pub fn new(method: Method, url: String) -> Self {
        Self { method, repeat: RetryRule::UnlessSent, ..Self::get(url) }
    }

    pub fn json(self, body: &impl Serialize) -> Result<Self, Error> {
        let bytes = serde_json::to_vec(body).map_err(|source| unreadable(&self.url, source))?;
        Ok(self.bytes(bytes.into()))
    }

    /// Sets a serialised JSON body.
    pub fn bytes(self, bytes: Bytes) -> Self {
        Self { body: Some(("application/json", bytes)), ..self }
    }

    /// Sets a body of JSON lines.
    pub fn ndjson(self, bytes: Bytes) -> Self {
        Self { body: Some(("application/x-ndjson", bytes)), ..self }
    }

    pub fn form(self, body: &impl Serialize) -> Result<Self, Error> {
        let text = serde_urlencoded::to_string(body).map_err(|source| unreadable(&self.url, source))?;
        Ok(Self { body: Some(("application/x-www-form-urlencoded", text.into())), ..self })
    }

    pub fn header(mut self, name: &'static str, value: &str) -> Result<Self, Error> {
        let value = HeaderValue::from_str(value).map_err(|source| unreadable(&self.url, source))?;
        self.headers.insert(name, value);
        Ok(self)
    }

    /// Marks the request as idempotent.
    pub fn freely(self) -> Self {
        Self { repeat: RetryRule::Always, ..self }
    }
}

impl Client {
    pub(crate) fn base(&self, path: &str) -> String {
        format!("{}{path}", self.base_url())
    }

    pub(crate) fn rag(&self, path: &str) -> String {
        format!("{}{path}", self.rag_url())
    }

    /// Sends the request and parses the JSON response.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, ask: ApiRequest) -> Result<T, Error> {
        let url = ask.url.clone();
        let body = self.ask_bytes(ask).await?;
        serde_json::from_slice(&body).map_err(|source| unreadable(&url, source))
    }

    /// Sends the request and returns the body of the response.
    pub(crate) async fn ask_bytes(&self, ask: ApiRequest) -> Result<Bytes, Error> {
        let once = async || {
            let response = self.sent(&ask, Some(self.settings.timeout)).await?;
            self.body(response, &ask.url).await
        };
        self.repeated(ask.repeat, once).await
    }

    /// Sends the request and returns the response before its body.
    pub(crate) async fn ask_stream(&self, ask: ApiRequest) -> Result<Response, Error> {
        self.repeated(ask.repeat, async || self.sent(&ask, None).await).await
    }

    /// Sends the request once; an error status is an error.
    async fn sent(&self, ask: &ApiRequest, timeout: Option<Duration>) -> Result<Response, Error> {
        let sent = self.request(ask, timeout).send().await;
        let response = sent.map_err(|source| self.unreachable(&ask.url, source))?;
        if response.status().is_success() { Ok(response) } else { Err(self.refusal(response, &ask.url).await) }
    }

    /// The body of a response, unless it exceeds the limit.
    async fn body(&self, mut response: Response, url: &str) -> Result<Bytes, Error> {
        let bytes_max = self.settings.response_bytes_max;
        let mut body = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(|source| self.unreachable(url, source))? {
            if chunk.len() > bytes_max.saturating_sub(body.len()) {
                return Err(unreadable(url, TooLong { bytes_max }));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }

    /// The body in pieces. A line that exceeds the limit ends it with an error.
    pub(crate) fn lines(&self, response: Response) -> impl Stream<Item = Result<Bytes, Error>> + use<> {
        let (url, bytes_max) = (response.url().to_string(), self.settings.response_bytes_max);
        let (client, mut unended) = (self.clone(), 0_usize);
        response.bytes_stream().map(move |piece| {
            let piece = piece.map_err(|source| client.unreachable(&url, source))?;
            unended = match piece.iter().rposition(|byte| *byte == b'\n') {
                Some(end) => piece.len() - end - 1,
                None => unended.saturating_add(piece.len()),
            };
            if unended > bytes_max { Err(unreadable(&url, TooLong { bytes_max })) } else { Ok(piece) }
        })
    }

    /// The error of an unreachable server, with the base URL of the requested surface.
    fn unreachable(&self, asked: &str, source: reqwest::Error) -> Error {
        let url = if asked.starts_with(self.base_url()) { self.base_url() } else { self.rag_url() };
        Error::Unreachable { url: url.to_owned(), source }
    }

    async fn refusal(&self, response: Response, url: &str) -> Error {
        let status = response.status().as_u16();
        let header_value = response.headers().get(RETRY_AFTER);
        let retry_after = header_value.and_then(|value| retry_after(value.to_str().ok()?, Clock::system().now()));
        // A truncated or oversized body has no code either: the status is used instead.
        let body = self.body(response, url).await.unwrap_or_default();
        let body = serde_json::from_slice(&body)
            .unwrap_or_else(|_| ErrorBody { error: format!("http_{status}"), ..ErrorBody::default() });
        Box::new(Refusal { status, body, retry_after }).into()
    }

    fn request(&self, ask: &ApiRequest, timeout: Option<Duration>) -> RequestBuilder {
        let mut request = self.http.request(ask.method.clone(), &ask.url).headers(ask.headers.clone());
        request = match &self.credential {
            Credential::None => request,
            Credential::Bearer(token) => {
                request.header(AUTHORIZATION, sensitive(&format!("Bearer {}", token.expose())))
            }
            Credential::Cookie(pair) => request.header(COOKIE, sensitive(pair.expose())),
        };
        if let Some((kind, body)) = &ask.body {
            request = request.header(CONTENT_TYPE, *kind).body(body.clone());
        } else if ask.method != Method::GET {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        match timeout {
            Some(timeout) => request.timeout(timeout),
            None => request,
        }
    }

    async fn repeated<T, F: AsyncFnMut() -> Result<T, Error>>(
        &self,
        repeat: RetryRule,
        mut once: F,
    ) -> Result<T, Error> {
        let retry = self.settings.retry;
        let mut delays = ExponentialBuilder::default()
            .with_jitter()
            .with_min_delay(retry.delay_min)
            .with_max_delay(retry.delay_max)
            .with_max_times(retry.retries_max)
            .build();
        loop {
            let error = match once().await {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let again = match repeat {
                RetryRule::Always => error.is_temporary(),
                RetryRule::UnlessSent => error.never_sent(),
            };
            let retry_after = error.refusal().and_then(|refusal| refusal.retry_after);
            let Some(delay) = delays.next().filter(|_| again) else { return Err(error) };
            if retry_after.is_some_and(|retry_after| retry_after > retry.delay_max) {
                return Err(error);
            }
            tokio::time::sleep(retry_after.map_or(delay, |retry_after| retry_after.max(delay))).await;
        }
    }
}

fn sensitive(text: &str) -> HeaderValue {
    // A credential with invalid header characters cannot be valid; the server rejects this value with 401.
    let mut value = HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static("Bearer"));
    value.set_sensitive(true);
    value
}

/// A body exceeds `Settings::response_bytes_max`.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the response is longer than {bytes_max} bytes")]
struct TooLong {
    bytes_max: usize,
}

pub(crate) fn unreadable(url: &str, source: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Unreadable { url: url.to_owned(), source: Box::new(source) }
}
