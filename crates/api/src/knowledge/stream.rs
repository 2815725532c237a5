//! Streams of server-sent events (`docs/decisions/0024-batches.md`; WHATWG HTML, section 9.2).

use std::convert::Infallible;
use std::fmt::Display;
use std::time::Duration;

use app::phase::Phases;
use app::services::knowledge::credential::{Credential, CredentialChecks};
use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use domain::ids::{BatchId, UserAccountId};
use domain::live::Live;
use futures_util::stream::{self, Stream, StreamExt};

use super::places::{Full, Permit, Places};
use crate::error::ApiError;

const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
const X_BATCH_ID: HeaderName = HeaderName::from_static(wire::knowledge::X_BATCH_ID);

/// One event: its id, and data of one line, as JSON always is.
pub fn event(id: &impl Display, data: &str) -> String {
    format!("id: {id}\ndata: {data}\n\n")
}

/// An event without an id: a client that joins again continues after the previous event.
pub fn event_of_this_stream(data: &str) -> String {
    format!("data: {data}\n\n")
}

/// `Retry-After` when no stream is available.
const SOON: Duration = Duration::from_secs(5);

/// Opens event streams, within the limits for all accounts together and per account. Clones share the limits.
#[derive(Debug, Clone)]
pub struct EventStreams {
    places: Places,
    checks: CredentialChecks,
    /// All streams end when the server stops.
    phases: Phases,
    /// Time without events after which a comment is sent.
    heartbeat: Live<Duration>,
}

impl EventStreams {
    /// `places` limits concurrent streams, `checks` ends streams with a revoked credential; all end when the server stops.
    pub fn new(places: Places, checks: CredentialChecks, phases: Phases, heartbeat: Live<Duration>) -> Self {
        Self { places, checks, phases, heartbeat }
    }

    /// Checks the credential of a response that is no event stream.
    pub fn checks(&self) -> CredentialChecks {
        self.checks.clone()
    }

    /// Returns when the server stops, which ends all streams.
    pub fn closing(&self) -> impl Future<Output = ()> + Send + 'static {
        let phases = self.phases.clone();
        async move { phases.stopping().await }
    }

    /// Takes a place among the concurrent streams. The handler calls this before it starts the work that the stream reports.
    pub fn place(&self, account: &UserAccountId) -> Result<Permit, ApiError> {
        self.places.take(account).map_err(|full| match full {
            Full::Account => ApiError::rate_limited(SOON),
            Full::All => ApiError::unavailable("too_many_streams", SOON),
        })
    }

    /// The pieces of a response, which hold its place; if the credential ends first, `last` is the last one.
    pub fn guarded<T, S>(
        &self,
        place: Permit,
        credential: Credential,
        pieces: S,
        last: T,
    ) -> impl Stream<Item = T> + Send + use<T, S>
    where
        T: Send + 'static,
        S: Stream<Item = T> + Send + 'static,
    {
        self.checks().while_valid(credential, pieces, last).map(move |piece| {
            let _held_until_the_response_ends = &place;
            piece
        })
    }

    /// A response that ends with the events or with the credential; if the credential ends first, `last` is the last event. A heartbeat
    /// comment is sent after a time without events.
    pub fn respond(
        &self,
        place: Permit,
        credential: Credential,
        events: impl Stream<Item = Bytes> + Send + 'static,
        last: String,
    ) -> Response {
        // A client reconnects to the next server process if a shutdown ends its stream.
        let closed = self.closing();
        let beating = beating(events, self.heartbeat.clone());
        let guarded = self.guarded(place, credential, beating, Bytes::from(last));
        let pieces = guarded.take_until(closed).map(Ok::<_, Infallible>);
        let mut response = Response::new(Body::from_stream(pieces));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
        headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
        response
    }
}

/// Names the batch that a stream reports.
pub fn of_batch(mut response: Response, batch: BatchId) -> Response {
    let batch = HeaderValue::from_str(&batch.to_string()).unwrap_or(HeaderValue::from_static(""));
    response.headers_mut().insert(X_BATCH_ID, batch);
    response
}

fn beating(events: impl Stream<Item = Bytes> + Send + 'static, heartbeat: Live<Duration>) -> impl Stream<Item = Bytes> {
    const COMMENT: Bytes = Bytes::from_static(b":\n\n");
    stream::unfold((Box::pin(events), heartbeat), |(mut events, heartbeat)| async move {
        let every = **heartbeat.get();
        match tokio::time::timeout(every, events.next()).await {
            Ok(Some(piece)) => Some((piece, (events, heartbeat))),
            Ok(None) => None,
            Err(_) => Some((COMMENT, (events, heartbeat))),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn silence_is_broken_by_comments_and_nothing_is_lost() {
        let slow = stream::unfold(0_u64, |nth| async move {
            tokio::time::sleep(Duration::from_secs(20 * nth)).await;
            (nth < 3).then(|| (Bytes::from(event(&nth, "{}")), nth + 1))
        });
        let pieces: Vec<Bytes> = beating(slow, Duration::from_secs(15).into()).collect().await;
        let expected = ["id: 0\ndata: {}\n\n", ":\n\n", "id: 1\ndata: {}\n\n", ":\n\n", ":\n\n"];
        assert_eq!(pieces[..5], expected);
        assert_eq!(pieces[5], "id: 2\ndata: {}\n\n");
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_heartbeat_is_in_force_from_the_next_one_on() {
        let heartbeat = Live::new(Duration::from_secs(15));
        let mut pieces = Box::pin(beating(stream::pending(), heartbeat.clone()));
        let mut next = async || {
            let start = tokio::time::Instant::now();
            pieces.next().await.unwrap();
            start.elapsed().as_secs()
        };
        assert_eq!(next().await, 15);
        heartbeat.set(Duration::from_secs(2));
        assert_eq!(next().await, 2);
    }
}
