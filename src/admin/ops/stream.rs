//! `GET /ops/v1/stream`: actors, flow and acts as server-sent events (WHATWG HTML, section 9.2).
//!
//! Each stream reads its topics once a second, so nothing is read while no client listens.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use app::App;
use app::acts::shown;
use app::phase::Phases;
use axum::body::{Body, Bytes};
use axum::extract::{Extension, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use domain::act::ActAuthor;
use domain::ids::EventId;
use futures_util::stream::{self, Stream, StreamExt as _};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wire::ops::Flow;

use super::flow::flow_of;
use super::node::own_tree;
use super::refusal::Refusal;
use super::request::OpsQuery;
use super::state::OpsState;

/// Maximum number of concurrent streams.
pub const STREAMS_MAX: usize = 16;

/// Interval at which a stream reads its topics.
const READ_EVERY: Duration = Duration::from_secs(1);

/// Passes without an event after which a comment is sent.
const QUIET_PASSES: u32 = 15;

/// Acts of a pass.
const ACTS_MAX: usize = 50;

/// Names of the topics.
const TOPICS: [&str; 3] = ["tree", "flow", "acts"];

/// The query of the stream.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topics {
    topics: Option<String>,
}

/// A stream and its position.
struct Watch {
    app: App,
    by: ActAuthor,
    topics: Vec<String>,
    /// The newest act that was sent or existed at the start.
    act: Option<EventId>,
    flow: Option<Flow>,
    quiet: u32,
    is_first: bool,
    _place: OwnedSemaphorePermit,
}

/// `GET /ops/v1/stream?topics=tree,flow,acts`: a stream of the topics; with `Last-Event-ID` the later acts.
pub async fn watch(
    State(OpsState { app, phases, streams }): State<OpsState>,
    Extension(by): Extension<ActAuthor>,
    OpsQuery(Topics { topics }): OpsQuery<Topics>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let topics = topics.as_deref().unwrap_or("tree,flow,acts").split(',').map(str::to_owned).collect::<Vec<_>>();
    if let Some(unknown) = topics.iter().find(|topic| !TOPICS.contains(&topic.as_str())) {
        let detail = format!("topics: {unknown:?} is none of {}", TOPICS.join(", "));
        return Err(Refusal::invalid("invalid_query", detail));
    }
    let place = place(&streams)?;
    let after = headers.get("last-event-id").and_then(|id| id.to_str().ok()).and_then(|id| id.parse().ok());
    let newest = app.store.acts(None, 1).await?.first().map(|act| act.id);
    let act = after.or(newest);
    let watch = Watch { app, by, topics, act, flow: None, quiet: 0, is_first: true, _place: place };
    let events = stream::unfold(watch, |mut watch| async move {
        let piece = watch.next().await?;
        Some((piece, watch))
    });
    Ok(server_sent(events, phases))
}

/// The response with server-sent events, which ends when the node stops.
pub fn server_sent(events: impl Stream<Item = Bytes> + Send + 'static, phases: Phases) -> Response {
    let events = events.take_until(async move { phases.stopping().await }).map(Ok::<_, Infallible>);
    let mut response = Response::new(Body::from_stream(events));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

impl Watch {
    /// The events of the next pass that has some; `None` once the operator is no longer in the configuration.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if !std::mem::take(&mut self.is_first) {
                tokio::time::sleep(READ_EVERY).await;
            }
            let settings = self.app.live.get();
            let is_there = |name: &String| settings.admin.operator.iter().any(|operator| operator.name == *name);
            if !self.by.operator.as_ref().is_none_or(is_there) {
                return None;
            }
            let text = self.pass().await;
            self.quiet = if text.is_empty() { self.quiet + 1 } else { 0 };
            if self.quiet >= QUIET_PASSES {
                self.quiet = 0;
                return Some(Bytes::from_static(b":\n\n"));
            }
            if !text.is_empty() {
                return Some(Bytes::from(text));
            }
        }
    }

    /// The events of one pass. A topic that cannot be read is left out until it can be.
    async fn pass(&mut self) -> String {
        let mut text = String::new();
        let wants = |topic: &str| self.topics.iter().any(|own| own == topic);
        if wants("tree")
            && let Ok(tree) = own_tree(&self.app).await
        {
            text.push_str(&event("tree", None, &tree));
        }
        if wants("flow")
            && let Ok(flow) = flow_of(&self.app).await
            && self.flow.as_ref() != Some(&flow)
        {
            text.push_str(&event("flow", None, &flow));
            self.flow = Some(flow);
        }
        if wants("acts")
            && let Ok(acts) = self.app.store.acts(None, ACTS_MAX).await
        {
            let newer = acts.iter().take_while(|act| self.act.is_none_or(|last| act.id > last));
            let newer: Vec<_> = newer.collect();
            for act in newer.into_iter().rev() {
                self.act = Some(act.id);
                if let Ok(shown) = shown(act) {
                    text.push_str(&event("act", Some(act.id), &shown.act));
                }
            }
        }
        text
    }
}

/// An event with JSON on one line. Only acts have ids: a client that joins again gets the acts since then.
pub fn event(name: &str, id: Option<EventId>, data: &impl Serialize) -> String {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("event: {name}\n{id}data: {}\n\n", json!(data))
}

/// The places of the streams.
pub fn places() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(STREAMS_MAX))
}

/// A place for one more stream.
pub fn place(places: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Refusal> {
    let detail = format!("{STREAMS_MAX} streams are open, more are not possible");
    let full = || Refusal::new(StatusCode::FAILED_DEPENDENCY, "too_many_streams", detail).later();
    Arc::clone(places).try_acquire_owned().map_err(|_| full())
}
