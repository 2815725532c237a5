//! The HTTP side of the receiver: OTLP/HTTP 1.x, `POST /v1/traces`.
//!
//! The response is sent when the events of an export are on disk. Exports are processed one after the other, which limits the memory.

use std::fmt;
use std::io;
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, FromRequest, Request, State};
use axum::http::header::{CONTENT_TYPE, ORIGIN, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, post};
use bytes::Bytes;
use domain::tool::Tool;
use hooks::Salt;
use hooks::otlp::{self, SpanEncoding, SpanExport, SpanRejection, SpanRejections};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::body::{BODY_BYTES_MAX, Refusal, decompressed, encoding, is_compressed, media_type};
use crate::hook::{HookFolder, KeptEvents, keep, note, start_sender};

/// Maximum number of exports that are read or wait; further ones get `Retry-After`.
const EXPORTS_MAX: usize = 16;

/// Timeout of a body. The default export timeout of programs is 10 s.
const BODY_WITHIN: Duration = Duration::from_secs(10);

/// Seconds after which a program may export the same spans again.
const RETRY_SECONDS: u16 = 5;

const TRACES_ONLY: &str =
    "attache otlp takes traces only, at /v1/traces: set OTEL_LOGS_EXPORTER=none and OTEL_METRICS_EXPORTER=none\n";

/// The receiver of one profile.
#[derive(Debug, Clone)]
pub struct Receiver {
    shared: Arc<Shared>,
    places: Arc<Semaphore>,
}

#[derive(Debug)]
struct Shared {
    folder: HookFolder,
    profile: String,
    agent: Option<Tool>,
    salt: Salt,
    /// Locked while an export is processed.
    counts: Mutex<SpanCounts>,
}

/// Spans since the start.
#[derive(Debug, Default)]
struct SpanCounts {
    exports: u64,
    spans: u64,
    spooled: u64,
    withheld: u64,
    ignored: u64,
    rejected: u64,
}

impl fmt::Display for SpanCounts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { exports, spans, spooled, withheld, ignored, rejected } = self;
        write!(
            formatter,
            "received {spans} spans in {exports} exports: {spooled} spooled, {withheld} withheld because their level is off, \
             {ignored} ignored because they report no work of a model, tool or agent, {rejected} rejected"
        )
    }
}

impl Receiver {
    /// The receiver of a profile. It starts the sender, which reads the consent levels before the first span arrives.
    pub fn new(folder: HookFolder, profile: String, agent: Option<Tool>) -> io::Result<Self> {
        folder.make()?;
        let salt = folder.salt()?;
        reap(start_sender(&folder, &profile)?);
        let shared = Shared { folder, profile, agent, salt, counts: Mutex::default() };
        Ok(Self { shared: Arc::new(shared), places: Arc::new(Semaphore::new(EXPORTS_MAX)) })
    }

    /// The routes of OTLP/HTTP.
    pub fn router(&self) -> Router {
        let traces = post(traces).layer(DefaultBodyLimit::max(BODY_BYTES_MAX));
        let others = any(|| async { (StatusCode::NOT_FOUND, TRACES_ONLY) });
        Router::new().route("/v1/traces", traces).fallback(others).with_state(self.clone())
    }

    /// The counts of all exports, for people.
    pub fn summary(&self) -> String {
        self.shared.counts.lock().unwrap_or_else(PoisonError::into_inner).to_string()
    }

    /// Handles one export; returns the spans that were rejected.
    async fn receive(&self, request: Request, encoding: SpanEncoding) -> Result<SpanRejections, Refusal> {
        // Browsers send it with every POST of a page, and pages have no spans of this computer.
        if request.headers().contains_key(ORIGIN) {
            return Err(Refusal::of(StatusCode::FORBIDDEN, "pages of browsers may not export spans to attache otlp"));
        }
        let is_compressed = is_compressed(request.headers())?;
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            let message = format!("{EXPORTS_MAX} exports are worked on already: the next one has to wait");
            return Err(Refusal::of(StatusCode::TOO_MANY_REQUESTS, message));
        };
        let body = body(request).await?;
        let shared = Arc::clone(&self.shared);
        let work = tokio::task::spawn_blocking(move || {
            // The place stays taken until the work ends, even if the client disconnects.
            let _place = place;
            let body = if is_compressed { decompressed(&body)? } else { body };
            shared.work(&body, encoding)
        });
        work.await.unwrap_or_else(|_| {
            Err(Refusal::of(StatusCode::INTERNAL_SERVER_ERROR, "attache otlp failed at this export, and continues"))
        })
    }
}

impl Shared {
    /// Reads an export and spools its events.
    fn work(&self, body: &Bytes, encoding: SpanEncoding) -> Result<SpanRejections, Refusal> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let read = otlp::read(body, encoding, self.agent, &self.salt);
        let SpanExport { events, spans, ignored, mut rejections } =
            read.map_err(|error| Refusal::of(StatusCode::BAD_REQUEST, domain::reasons(&error)))?;
        let KeptEvents { spooled, withheld, refused, sender } =
            keep(&self.folder, &self.profile, events).map_err(|error| {
                note(&self.folder, &format!("an export was not recorded: {error}"));
                let message = format!("the events cannot be written: {error}; the export may be repeated");
                Refusal::of(StatusCode::SERVICE_UNAVAILABLE, message)
            })?;
        reap(sender);
        rejections.add(SpanRejection::SpoolFull, refused);
        counts.exports += 1;
        counts.spans += spans;
        counts.spooled += spooled;
        counts.withheld += withheld;
        counts.ignored += ignored;
        counts.rejected += rejections.total();
        Ok(rejections)
    }
}

/// Waits for the end of the sender, so that it does not remain a zombie of this process.
fn reap(sender: Option<Child>) {
    if let Some(mut sender) = sender {
        std::thread::spawn(move || sender.wait());
    }
}

/// The body of a request, within its limits.
async fn body(request: Request) -> Result<Bytes, Refusal> {
    match timeout(BODY_WITHIN, Bytes::from_request(request, &())).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(rejection)) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => Err(Refusal::too_large()),
        Ok(Err(_)) => Err(Refusal::of(StatusCode::BAD_REQUEST, "the body ended early: export again")),
        Err(_) => Err(Refusal::of(StatusCode::REQUEST_TIMEOUT, "the body did not arrive within 10 s: export again")),
    }
}

/// `POST /v1/traces`.
async fn traces(State(receiver): State<Receiver>, request: Request) -> Response {
    let encoding = match encoding(request.headers()) {
        Ok(encoding) => encoding,
        Err(refusal) => return refused(SpanEncoding::Json, &refusal),
    };
    match receiver.receive(request, encoding).await {
        Ok(rejections) => answered(StatusCode::OK, encoding, encoding.response(&rejections)),
        Err(refusal) => refused(encoding, &refusal),
    }
}

fn refused(encoding: SpanEncoding, Refusal { status, message }: &Refusal) -> Response {
    // Status codes of gRPC, which OTLP clients do not interpret.
    let code = match *status {
        StatusCode::FORBIDDEN => 7,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::PAYLOAD_TOO_LARGE => 8,
        StatusCode::INTERNAL_SERVER_ERROR => 13,
        StatusCode::SERVICE_UNAVAILABLE => 14,
        _ => 3,
    };
    let mut response = answered(*status, encoding, encoding.refusal(code, message));
    if matches!(*status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(RETRY_SECONDS));
    }
    response
}

fn answered(status: StatusCode, encoding: SpanEncoding, body: Vec<u8>) -> Response {
    (status, [(CONTENT_TYPE, media_type(encoding))], Body::from(body)).into_response()
}
