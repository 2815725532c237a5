//! A request that is sent again with its `Idempotency-Key` has the first answer, and of two concurrent acts on one object the second is
//! refused.

use std::sync::Arc;

use app::App;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse as _, Response};
use dashmap::DashSet;
use domain::Digest;
use domain::act::ActAuthor;
use domain::ids::EventId;
use domain::node_order::OrderAnswer;
use serde_json::Value;
use store::operator_request::{OperatorRequest, RequestBegun};

use super::refusal::Refusal;
use super::request::BODY_BYTES_MAX;

/// Header with a value that the client chooses for one change (draft-ietf-httpapi-idempotency-key-header).
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Maximum length of the key, in bytes.
const KEY_BYTES_MAX: usize = 255;

/// The objects of the acts that this process carries out now. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct RunningActs(Arc<DashSet<String>>);

/// An act on an object, until it is dropped.
#[derive(Debug)]
pub struct RunningAct {
    acts: RunningActs,
    object: Option<String>,
}

impl RunningActs {
    /// Begins an act on an object. `None` while another one is in progress.
    pub fn begin(&self, object: Option<String>) -> Option<RunningAct> {
        let is_free = object.as_ref().is_none_or(|object| self.0.insert(object.clone()));
        is_free.then(|| RunningAct { acts: self.clone(), object })
    }
}

impl Drop for RunningAct {
    fn drop(&mut self) {
        if let Some(object) = &self.object {
            self.acts.0.remove(object);
        }
    }
}

/// The object that the path of a route names. The store decides about acts on objects that only their bodies name.
pub fn object_of(path: &str, parameters: &RawPathParams) -> Option<String> {
    let kind = path.split('/').nth(1).unwrap_or_default();
    let names: Vec<&str> = parameters.iter().map(|(_, value)| value).collect();
    (!names.is_empty()).then(|| format!("{kind}/{}", names.join("/")))
}

/// The refusal of the second of two acts on one object.
pub fn in_progress() -> Refusal {
    let detail =
        "another act on this object is in progress: look at its outcome, then repeat this one if it is still right";
    Refusal::new(StatusCode::CONFLICT, "act_in_progress", detail).later()
}

/// Begins a request with a key; the error is its answer. Without a key every request is another one.
pub async fn begin(
    app: &App,
    by: &ActAuthor,
    act: EventId,
    request: Request,
) -> Result<(Request, Option<OperatorRequest>), Response> {
    let Some(key) = request.headers().get(IDEMPOTENCY_KEY) else { return Ok((request, None)) };
    let key = key.to_str().ok().filter(|key| (1..=KEY_BYTES_MAX).contains(&key.len()));
    let detail = format!("Idempotency-Key: expected 1 to {KEY_BYTES_MAX} visible characters of ASCII");
    let malformed = || Refusal::invalid("invalid_request", detail).into_response();
    let key = Digest::of(format!("{by}\n{}", key.ok_or_else(malformed)?).as_bytes());
    let (parts, body) = request.into_parts();
    let bytes = to_bytes(body, BODY_BYTES_MAX).await;
    let too_long = |_| Refusal::invalid("invalid_request", "the body cannot be read: 64 KiB at most").into_response();
    let bytes = bytes.map_err(too_long)?;
    let begun = OperatorRequest { key, content: content(&parts, &bytes), act };
    let earlier = app.store.operator_request_begin(&begun, app.clock.now()).await;
    match earlier.map_err(|error| Refusal::fault(&error).into_response())? {
        RequestBegun::First => Ok((Request::from_parts(parts, Body::from(bytes)), Some(begun))),
        RequestBegun::Answered(OrderAnswer { status, body }) => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
            Err((status, axum::Json(body)).into_response())
        }
        RequestBegun::Running => Err(in_progress().into_response()),
        RequestBegun::Recorded(act) => {
            let detail = "the server ended before it answered this request: its act says how it ended";
            Err(Refusal::new(StatusCode::CONFLICT, "answer_lost", detail).of_act(act).into_response())
        }
        RequestBegun::Other => {
            let detail = "another request has used this Idempotency-Key: choose a new one for each change";
            Err(Refusal::invalid("idempotency_key_reused", detail).into_response())
        }
    }
}

fn content(parts: &Parts, body: &[u8]) -> Digest {
    let head = format!("{} {}\n", parts.method, parts.uri);
    Digest::of(&[head.as_bytes(), body].concat())
}

/// Stores the answer to a request with a key. A conflict and a fault may be over soon, so such a request may be sent again.
pub async fn end(app: &App, begun: &OperatorRequest, response: Response) -> Response {
    let (parts, body) = response.into_parts();
    let bytes = to_bytes(body, usize::MAX).await.unwrap_or_else(|_| Bytes::new());
    let passes = [StatusCode::CONFLICT, StatusCode::FAILED_DEPENDENCY].contains(&parts.status);
    let answer = serde_json::from_slice::<Value>(&bytes).ok().filter(|_| !passes);
    let answer = answer.map(|body| OrderAnswer { status: parts.status.as_u16(), body });
    if let Err(error) = app.store.operator_request_end(begun, answer.as_ref()).await {
        tracing::warn!(error = domain::reasons(&error), "the answer to a request of an operator is not kept");
    }
    Response::from_parts(parts, Body::from(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_acts_on_one_object_the_second_is_refused_until_the_first_has_ended() {
        let acts = RunningActs::default();
        let begin = |object: &str| acts.begin(Some(object.to_owned()));
        let first = begin("nodes/a/mail").unwrap();
        assert!(begin("nodes/a/mail").is_none() && begin("nodes/a/claims").is_some());
        assert!(acts.begin(None).is_some() && acts.begin(None).is_some(), "acts without an object run side by side");
        drop(first);
        assert!(begin("nodes/a/mail").is_some());
    }
}
