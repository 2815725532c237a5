//! The client of an external statistics service (`docs/decisions/0010-statistics-service.md`).
//!
//! Requests are built from scratch: the sender's exact bytes, its scope in three headers, and nothing else from the client's request. The
//! service must be idempotent on `event_id`, so an event without a response can be sent again and is never counted twice.

mod settings;
mod shown;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use domain::Rng;
use domain::ids::{EventId, ReceiptId};
use domain::trace::TraceContext;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use reqwest::redirect::Policy;
use serde::Deserialize;
use tracing::Instrument as _;

use crate::breaker::{Admission, Breaker, CallResult};
use crate::contract::{
    ACCOUNT, ActivityQuery, IDENTITY, MACHINE, Passed, RecordScope, Submission, SubmitOutcome, Unavailable,
};
use crate::trace;
use proofs::merkle::tile::TilePath;

pub use settings::{InvalidUpstream, UpstreamSettings};

/// Timeout of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Maximum size of a response body in bytes: a page of activity is the largest, 500 events.
const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Number of retries of a read when no connection could be made. Events are never retried here.
const READ_RETRIES: u32 = 2;

/// Time after which an idle connection is closed.
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);

/// Maximum number of idle connections.
const IDLE_CONNECTIONS_MAX: usize = 256;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Header of W3C Trace Context.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// A client of one service. Clones share connections and breaker.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base_url: String,
    authorization: Option<HeaderValue>,
    timeout: Duration,
    breaker: Arc<Mutex<Breaker>>,
    rng: Rng,
}

/// Why a client cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The settings are invalid.
    #[error(transparent)]
    Settings(#[from] InvalidUpstream),
    /// The HTTP client could not be created.
    #[error("cannot create an HTTP client")]
    Http(#[from] reqwest::Error),
}

impl Client {
    /// A client of the service in the settings; does not connect.
    pub fn new(settings: &UpstreamSettings, rng: &Rng) -> Result<Self, ClientError> {
        let base_url = settings.base_url()?;
        let authorization = settings.authorization()?;
        let http = http_client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .redirect(Policy::none())
            .no_proxy()
            .tcp_nodelay(true)
            .build()?;
        Ok(Self {
            http,
            base_url,
            authorization,
            timeout: settings.timeout,
            breaker: Arc::new(Mutex::new(Breaker::new(settings.breaker))),
            rng: rng.clone(),
        })
    }

    /// `POST /v1/events`. Never retried here: the sender decides whether to send again.
    #[boxed]
    pub async fn submit(&self, submission: &Submission) -> SubmitOutcome {
        let mut headers = scope_headers(&submission.scope);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(IDEMPOTENCY_KEY, value(&submission.event_id.to_string()));
        let request = self.http.post(format!("{}/v1/events", self.base_url)).headers(headers);
        match self.send(request.body(submission.body.clone())).await {
            Ok(answer) => classify(answer),
            Err(why) => SubmitOutcome::Unavailable(why),
        }
    }

    /// `GET /v1/activity`: a page of events, filtered by the caller's computers.
    #[boxed]
    pub async fn activity(&self, scope: &RecordScope, query: &ActivityQuery) -> Result<Passed, Unavailable> {
        let limit = query.limit.map(|limit| limit.to_string());
        let pairs = [
            ("limit", limit.as_deref()),
            ("cursor", query.cursor.as_deref()),
            ("since", query.since.as_deref()),
            ("lane", query.lane.map(domain::envelope::Lane::as_str)),
        ];
        let answer = self.read("/v1/activity", &pairs, scope_headers(scope)).await?;
        Ok(shown::page(answer, &scope.shown))
    }

    /// `GET /v1/audit/verify`: the audit proof of an event of the caller.
    #[boxed]
    pub async fn proof(&self, scope: &RecordScope, event_id: EventId) -> Result<Passed, Unavailable> {
        let event_id = event_id.to_string();
        let answer = self.read("/v1/audit/verify", &[("event_id", Some(&event_id))], scope_headers(scope)).await?;
        Ok(shown::proof(answer, &scope.shown))
    }

    /// `GET /v1/audit/checkpoint`: the newest checkpoint, passed on unchanged.
    #[boxed]
    pub async fn checkpoint(&self) -> Result<Passed, Unavailable> {
        self.read("/v1/audit/checkpoint", &[], HeaderMap::new()).await
    }

    /// `GET /v1/audit/consistency`, with the parameters as the caller sent them.
    #[boxed]
    pub async fn consistency(&self, from: Option<&str>, to: Option<&str>) -> Result<Passed, Unavailable> {
        self.read("/v1/audit/consistency", &[("from", from), ("to", to)], HeaderMap::new()).await
    }

    /// `GET /v1/audit/keys`: the service's keys, passed on unchanged.
    #[boxed]
    pub async fn keys(&self) -> Result<Passed, Unavailable> {
        self.read("/v1/audit/keys", &[], HeaderMap::new()).await
    }

    /// `GET /v1/log/tile/…`: the hashes of a tile, passed on unchanged.
    #[boxed]
    pub async fn tile(&self, wanted: TilePath) -> Result<Passed, Unavailable> {
        self.read(&format!("/v1/log/tile/{wanted}"), &[], HeaderMap::new()).await
    }

    /// How long requests are still refused after repeated failures; zero during a probe. `None` if the next request is sent.
    pub fn refuses_for(&self) -> Option<Duration> {
        lock(&self.breaker).refuses_for(Instant::now())
    }

    async fn read(
        &self,
        path: &str,
        query: &[(&str, Option<&str>)],
        headers: HeaderMap,
    ) -> Result<Passed, Unavailable> {
        let mut target = format!("{}{path}", self.base_url);
        let given = query.iter().filter_map(|(name, value)| value.map(|value| (*name, value)));
        for (number, (name, value)) in given.enumerate() {
            target.push(if number == 0 { '?' } else { '&' });
            target.push_str(name);
            target.push('=');
            target.extend(percent_encoding::utf8_percent_encode(value, QUERY));
        }
        let mut retries = READ_RETRIES;
        loop {
            match self.send(self.http.get(&target).headers(headers.clone())).await {
                Err(Unavailable::Connect(_)) if retries > 0 => {
                    retries -= 1;
                    tokio::time::sleep(Duration::from_millis(50).mul_f64(0.5 + self.rng.fraction())).await;
                }
                answered => return answered,
            }
        }
    }

    async fn send(&self, mut request: reqwest::RequestBuilder) -> Result<Passed, Unavailable> {
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        // Work without a request, such as the delivery of the outbox, starts a new trace.
        let trace = trace::current().map_or_else(|| TraceContext::begin(&self.rng), |trace| trace.child(&self.rng));
        request = request.header(TRACEPARENT, trace.to_string());
        let attempt = Attempt::admitted(&self.breaker).ok_or(Unavailable::BreakerOpen)?;
        let span = tracing::debug_span!("upstream", trace.id = %trace.trace_id(), span.id = %trace.span_id());
        let exchanged = tokio::time::timeout(self.timeout, self.exchange(request)).instrument(span).await;
        let answer = exchanged.unwrap_or(Err(Unavailable::Timeout));
        attempt.ended(match &answer {
            Ok(passed) if passed.status.is_server_error() => CallResult::Failed,
            Ok(_) => CallResult::Healthy,
            // The service answered; a response beyond our size limit does not show a failure of the service.
            Err(Unavailable::TooLarge) => CallResult::Unknown,
            Err(_) => CallResult::Failed,
        });
        answer
    }

    async fn exchange(&self, request: reqwest::RequestBuilder) -> Result<Passed, Unavailable> {
        let mut response = request.send().await.map_err(failure)?;
        let mut body = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(failure)? {
            if body.len() + chunk.len() > BODY_BYTES_MAX {
                return Err(Unavailable::TooLarge);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Passed::from_parts(response.status(), response.headers(), body.freeze()))
    }
}

/// Characters that a query value may contain unescaped (RFC 3986, section 3.4), except separators of pairs.
const QUERY: &percent_encoding::AsciiSet =
    &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A request in progress. If it is dropped, the breaker records that it was abandoned.
struct Attempt<'b> {
    breaker: &'b Mutex<Breaker>,
    admission: Option<Admission>,
}

impl<'b> Attempt<'b> {
    fn admitted(breaker: &'b Mutex<Breaker>) -> Option<Self> {
        let admission = lock(breaker).admit(Instant::now())?;
        Some(Self { breaker, admission: Some(admission) })
    }

    fn ended(mut self, verdict: CallResult) {
        self.record(verdict);
    }

    fn record(&mut self, verdict: CallResult) {
        if let Some(admission) = self.admission.take() {
            lock(self.breaker).record(admission, verdict, Instant::now());
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.record(CallResult::Unknown);
    }
}

fn lock(breaker: &Mutex<Breaker>) -> MutexGuard<'_, Breaker> {
    // Every update is one assignment, so a panic leaves no partial update.
    breaker.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failure(error: reqwest::Error) -> Unavailable {
    // The URL is in the operator's configuration and need not be in every line of the log.
    let error = error.without_url();
    if error.is_timeout() {
        Unavailable::Timeout
    } else if error.is_connect() {
        Unavailable::Connect(domain::reasons(&error))
    } else {
        Unavailable::Broken(domain::reasons(&error))
    }
}

#[derive(Deserialize)]
struct Receipt {
    receipt_id: ReceiptId,
}

/// Maps the response to a submission to its outcome.
fn classify(answer: Passed) -> SubmitOutcome {
    /// Maximum number of characters of a refusal in the sender's warning and in the entry.
    const DETAIL_MAX: usize = 200;
    let status = answer.status;
    match status {
        _ if status.is_success() => match serde_json::from_slice::<Receipt>(&answer.body) {
            Ok(Receipt { receipt_id }) => SubmitOutcome::Receipt(receipt_id),
            Err(_) => SubmitOutcome::Unavailable(Unavailable::Garbage(status)),
        },
        StatusCode::CONFLICT
        | StatusCode::UNPROCESSABLE_ENTITY
        | StatusCode::FAILED_DEPENDENCY
        | StatusCode::TOO_MANY_REQUESTS => SubmitOutcome::PassThrough(answer),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
            tracing::error!(
                upstream.status = status.as_u16(),
                "the statistics service does not accept our credential: see upstream.token"
            );
            SubmitOutcome::Unavailable(Unavailable::Credential(status))
        }
        _ if status.is_client_error() => {
            let detail = String::from_utf8_lossy(&answer.body).chars().take(DETAIL_MAX).collect();
            SubmitOutcome::Refused { status, detail }
        }
        _ => SubmitOutcome::Unavailable(Unavailable::Status { status, retry_after: answer.retry_after }),
    }
}

fn scope_headers(scope: &RecordScope) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Some(account) = &scope.account {
        headers.insert(HeaderName::from_static(ACCOUNT), value(account.as_str()));
    }
    if !scope.identities.is_empty() {
        let identities: Vec<&str> = scope.identities.iter().map(domain::ids::UserCuid::as_str).collect();
        headers.insert(HeaderName::from_static(IDENTITY), value(&identities.join(",")));
    }
    if let Some(machine) = &scope.machine {
        headers.insert(HeaderName::from_static(MACHINE), value(&machine.to_string()));
    }
    headers
}

/// Identifiers are ASCII words, which are valid header values.
fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""))
}
