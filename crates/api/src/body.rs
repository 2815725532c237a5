//! Reads bodies, with limits of size and time, and with errors that name the place of a fault.

pub mod slow;
mod typed;

use actors::InfraError;
use app::config::BODY_BYTES_HARD_MAX;
use axum::body::{Body, HttpBody};
use axum::extract::{FromRef, FromRequest, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::response::IntoResponse;
use bytes::{Bytes, BytesMut};
use domain::canonical::{self, MalformedReason};
use http_body_util::{LengthLimitError, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::error::Error;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::time::Instant;

use self::slow::{SlowBodies, SlowBody};
use super::error::{ApiError, ApiResult, Code};
use super::media_type;

/// The unparsed bytes of a body.
#[derive(Debug)]
pub struct RawBody(pub Bytes);

impl<S: Send + Sync> FromRequest<S> for RawBody
where
    Arc<BodyReader>: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        Arc::<BodyReader>::from_ref(state).read(&parts, body).await.map(Self)
    }
}

/// Reads the bodies of requests.
#[derive(Debug)]
pub struct BodyReader {
    pub(super) slow: SlowBodies,
}

impl BodyReader {
    /// The limits of bodies that arrive slowly.
    pub(super) fn slow(&self) -> &SlowBodies {
        &self.slow
    }

    /// Reads a body of at most [`BODY_BYTES_HARD_MAX`] bytes within `http.body_deadline`.
    pub async fn read(&self, parts: &Parts, body: Body) -> Result<Bytes, ApiError> {
        let limit = Limit { bytes_max: BODY_BYTES_HARD_MAX, deadline: self.slow.body_deadline() };
        let mut received = Received::default();
        let mut pieces = BodyPieces::new(parts, body, limit, &self.slow)?;
        while let Some(piece) = pieces.next().await? {
            received.add(piece);
        }
        Ok(received.whole())
    }
}

/// How large a body may be, and how long it may take.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// Maximum size in bytes.
    pub bytes_max: usize,
    /// Maximum time from the first read to the end.
    pub deadline: Duration,
}

impl Limit {
    fn too_large(self) -> ApiError {
        ApiError::new(Code::PayloadTooLarge).with("bytes_max", self.bytes_max.into())
    }
}

/// A body on its way. One with too large a `Content-Length` is refused unread; one that is awaited is a [slow body](slow).
#[derive(Debug)]
pub struct BodyPieces<'p> {
    parts: &'p Parts,
    body: Limited<Body>,
    limit: Limit,
    bodies: &'p SlowBodies,
    came: usize,
    slow: Option<SlowBody<'p>>,
}

impl<'p> BodyPieces<'p> {
    /// Nothing is read yet.
    pub fn new(parts: &'p Parts, body: Body, limit: Limit, bodies: &'p SlowBodies) -> Result<Self, ApiError> {
        if u64::try_from(limit.bytes_max).is_ok_and(|most| body.size_hint().lower() > most) {
            return Err(limit.too_large());
        }
        Ok(Self { parts, body: Limited::new(body, limit.bytes_max), limit, bodies, came: 0, slow: None })
    }

    /// The next piece; `None` after the last one.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        let limit = self.limit;
        let unread = |error: Box<dyn Error + Send + Sync>| {
            let is_large = error.is::<LengthLimitError>();
            match malformed(&*error) {
                _ if is_large => limit.too_large(),
                Some(fault) => ApiError::invalid("", format!("the chunks of the body are malformed: {fault}")),
                None => ApiError::unavailable("body_unreadable", Duration::from_secs(1)),
            }
        };
        while !self.body.is_end_stream() {
            let body = &mut self.body;
            let frame = match &self.slow {
                // Most bodies arrive together with their head and need no timer.
                None => match poll_fn(|context| Poll::Ready(Pin::new(&mut *body).poll_frame(context))).await {
                    Poll::Ready(frame) => frame,
                    Poll::Pending => {
                        self.awaited()?;
                        continue;
                    }
                },
                Some(slow) => slow.frame(body).await?,
            };
            let Some(frame) = frame else { break };
            // A frame without data holds trailers, which are ignored.
            let Ok(piece) = frame.map_err(unread)?.into_data() else { continue };
            self.came += piece.len();
            if let Some(slow) = &mut self.slow {
                slow.count(piece.len())?;
            }
            return Ok(Some(piece));
        }
        self.slow.take().map_or(Ok(()), SlowBody::end)?;
        Ok(None)
    }

    /// Waits for something else before the next piece, without a place in the gate. The sender's time does not pass.
    pub async fn meanwhile<T>(&mut self, wait: impl Future<Output = T>) -> Result<T, ApiError> {
        let begun = Instant::now();
        let slow = self.awaited()?;
        let done = wait.await;
        slow.excuse(begun.elapsed());
        Ok(done)
    }

    fn awaited(&mut self) -> Result<&mut SlowBody<'p>, ApiError> {
        Ok(match self.slow.take() {
            Some(slow) => self.slow.insert(slow),
            None => self.slow.insert(SlowBody::begin(self.parts, self.came, self.limit.deadline, self.bodies)?),
        })
    }
}

/// The fault of a chunked body that breaks the rules of RFC 9112, section 7.1; `None`: the body did not arrive.
fn malformed<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e io::Error> {
    let of_io = error.downcast_ref::<io::Error>();
    let is_fault = |error: &&io::Error| matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::InvalidData);
    of_io.filter(is_fault).or_else(|| malformed(error.source()?))
}

/// The pieces of a body; a body in one piece is not copied.
#[derive(Debug, Default)]
struct Received {
    first: Bytes,
    all: BytesMut,
}

impl Received {
    fn add(&mut self, piece: Bytes) {
        if self.first.is_empty() && self.all.is_empty() {
            self.first = piece;
            return;
        }
        self.all.extend_from_slice(&std::mem::take(&mut self.first));
        self.all.extend_from_slice(&piece);
    }

    fn whole(self) -> Bytes {
        if self.all.is_empty() { self.first } else { self.all.freeze() }
    }
}

/// A response with this body. Its members are in alphabetical order, regardless of their order in the type.
pub fn answer(body: &impl Serialize) -> ApiResult {
    let body = serde_json::to_value(body).map_err(|error| InfraError::Internal(error.to_string()))?;
    Ok(axum::Json(body).into_response())
}

/// A JSON object. What does not fit is 400 `invalid_request` with `issues: [{path, message}]`.
#[derive(Debug)]
pub struct JsonBody<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T>
where
    Arc<BodyReader>: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let RawBody(bytes) = RawBody::from_request(request, state).await?;
        json(&bytes).map(Self)
    }
}

/// Reads a JSON object as strictly as an event, except that numbers may be large. An error names the place of the first fault.
pub fn json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    fitting(canonical::parse(bytes)?)
}

/// The same for routes that refuse other text than JSON with `invalid_json`.
pub fn json_or_invalid_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    fitting(canonical::parse(bytes).map_err(|fault| match fault.reason {
        MalformedReason::NotUtf8 | MalformedReason::NotJson => Code::InvalidJson.into(),
        _ => ApiError::from(fault),
    })?)
}

/// The same for JSON that was read already.
pub fn fitting<T: DeserializeOwned>(value: Value) -> Result<T, ApiError> {
    Ok(typed::object(value)?)
}

/// The parameters of an `application/x-www-form-urlencoded` body (RFC 6749, appendix B). Unknown ones are ignored, one that is sent
/// twice is refused (section 3.2).
#[derive(Debug)]
pub struct FormBody(Vec<(String, String)>);

impl<S: Send + Sync> FromRequest<S> for FormBody
where
    Arc<BodyReader>: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let form = media_type::is(kind, "application/x-www-form-urlencoded");
        let RawBody(bytes) = RawBody::from_request(request, state).await?;
        if !form && !bytes.is_empty() {
            return Err(ApiError::invalid("", "the body must be application/x-www-form-urlencoded"));
        }
        let pairs = serde_urlencoded::from_bytes(&bytes);
        pairs.map(Self).map_err(|error| ApiError::invalid("", format!("the form cannot be read: {error}")))
    }
}

impl FormBody {
    /// A parameter; empty counts as absent (RFC 6749, section 3.2).
    pub fn get(&self, name: &str) -> Result<Option<&str>, ApiError> {
        let mut values = self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let value = values.next();
        if values.next().is_some() {
            return Err(ApiError::invalid(name, "must not be sent twice"));
        }
        Ok(value.filter(|value| !value.is_empty()))
    }

    /// A parameter that must be there.
    pub fn require(&self, name: &str) -> Result<&str, ApiError> {
        self.get(name)?.ok_or_else(|| ApiError::invalid(name, "is required"))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream::{self, StreamExt};
    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use serde::Deserialize;

    use domain::live::Live;

    use super::*;
    use crate::gate::Gate;
    use crate::receiving::ReceiveMemory;
    use app::config::HttpSettings as Settings;

    #[derive(Debug, Deserialize)]
    struct Example {
        list: Vec<u8>,
    }

    #[test]
    fn a_fault_in_json_is_named_with_its_place() {
        let fault = |text: &str| {
            let error = json::<Example>(text.as_bytes()).unwrap_err();
            assert_eq!(error.code(), Code::InvalidRequest);
            format!("{error:?}")
        };
        assert!(fault(r#"{"list": [1, "x"]}"#).contains("list[1]"));
        assert!(fault(r#"{"list": []} x"#).contains("follow"));
        assert!(fault("[[1]]").contains("an object"));
        assert!(!fault("{").contains('?'));
        assert_eq!(json::<Example>(br#" {"list": [1]}"#).unwrap().list, [1]);
        assert!(json::<Example>(br#"{"list": [1], "a": {"b": 1}, "c": {"b": 1}}"#).is_ok());
    }

    #[test]
    fn repeated_members_are_refused_for_every_type() {
        for twice in [r#"{"a": 1, "a": 1}"#, r#"{"a": 1, "b": [], "\u0061": {}}"#] {
            let error = json::<serde_json::Value>(twice.as_bytes()).unwrap_err();
            assert_eq!(error.first_issue().unwrap(), "a: must not be sent twice");
        }
        let deep =
            json::<serde_json::Value>(br#"{"list": [], "b": [{"a": 1}, {"a": {"c/d": 1, "c/d": 2}}]}"#).unwrap_err();
        assert_eq!(deep.first_issue().unwrap(), "b[1].a.c/d: must not be sent twice");
        for other in ["null", "1", "\"a\"", "[]"] {
            assert_eq!(json::<serde_json::Value>(other.as_bytes()).unwrap_err().code(), Code::InvalidRequest);
        }
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only its reading is of interest")]
    struct Outer {
        inner: Inner,
        number: f64,
        more: Option<Vec<Inner>>,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only its reading is of interest")]
    struct Inner {
        word: String,
    }

    #[test]
    fn faults_are_named_in_the_words_of_json() {
        let told = |text: &[u8]| json::<Outer>(text).unwrap_err().first_issue().unwrap();
        assert_eq!(told(b"{}"), "inner: is required");
        assert_eq!(told(br#"{"inner": {}}"#), "inner.word: is required");
        assert_eq!(told(br#"{"inner": {"word": "a", "word": "b"}}"#), "inner.word: must not be sent twice");
        assert_eq!(told(br#"{"number": "x, expected y"}"#), "number: must be a number, and is a string");
        assert_eq!(told(br#"{"inner": 5}"#), "inner: must be an object, and is a number");
        assert_eq!(told(br#"{"inner": {"word": null}}"#), "inner.word: must be a string, and is null");
        assert_eq!(told(br#"{"inner": {"word": true}}"#), "inner.word: must be a string, and is a boolean");
        assert_eq!(told(br#"{"more": {}}"#), "more: must be an array, and is an object");
        assert_eq!(told(br#"{"more": [{"word": "a"}, ["b"]]}"#), "more[1]: must be an object, and is an array");
        assert_eq!(told(br"[1, 2]"), "must be an object, and is an array");
        assert!(told(br#"{"inner": {"word": "a", "other": 18446744073709551616}}"#).starts_with("number: "));
        assert_eq!(told(b"5"), "must be an object, and is a number");
        assert!(
            told(br#"{"number": 1, "inner": {"word": "a"}, "more": [{"word": "\ud800"}]}"#)
                .starts_with("more[0].word: ")
        );
        assert!(told(b"{\"pad\": \"\xff\"}").contains("UTF-8"));
    }

    /// A body of these pieces, which ends or not.
    fn pieces(pieces: &[&'static str], ends: bool) -> Body {
        let frames: Vec<_> = pieces.iter().map(|piece| Ok::<_, Infallible>(Frame::data(Bytes::from(*piece)))).collect();
        let frames = stream::iter(frames);
        if ends {
            Body::new(StreamBody::new(frames))
        } else {
            Body::new(StreamBody::new(frames.chain(stream::pending())))
        }
    }

    /// Reads a body with these settings and returns its bytes or the error code.
    async fn received(body: Body, settings: &Settings) -> Result<Bytes, Code> {
        let memory = ReceiveMemory::new(settings.bodies_bytes_max);
        let bodies =
            SlowBodies::new(settings.clone().into(), settings.bodies_per_address_max, Arc::new(Gate::new(1)), memory);
        let (parts, ()) = Request::new(()).into_parts();
        let limit = Limit { bytes_max: 8, deadline: settings.body_deadline };
        let mut received = Received::default();
        let mut pieces = BodyPieces::new(&parts, body, limit, &bodies).map_err(|error| error.code())?;
        while let Some(piece) = pieces.next().await.map_err(|error| error.code())? {
            received.add(piece);
        }
        Ok(received.whole())
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_read_whole_in_time_and_within_its_limit() {
        let settings = Settings { body_rate_after: Duration::from_mins(1), ..Settings::default() };
        let code = async |body: Body| received(body, &settings).await;
        assert_eq!(code(Body::empty()).await.unwrap(), "");
        assert_eq!(code(Body::from("12345678")).await.unwrap(), "12345678");
        assert_eq!(code(Body::from("123456789")).await.unwrap_err(), Code::PayloadTooLarge);
        for (sent, read) in [(&["1234", "5678"][..], "12345678"), (&["", "1", "", "2"], "12"), (&[], ""), (&["1"], "1")]
        {
            assert_eq!(code(pieces(sent, true)).await.unwrap(), read);
            let begun = tokio::time::Instant::now();
            assert_eq!(code(pieces(sent, false)).await.unwrap_err(), Code::TemporarilyUnavailable);
            assert_eq!(begun.elapsed(), settings.body_deadline);
        }
        assert_eq!(code(pieces(&["1234", "56789"], true)).await.unwrap_err(), Code::PayloadTooLarge);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_has_to_come_with_a_minimal_rate() {
        let settings = Settings { body_rate_min: 2, ..Settings::default() };
        let begun = tokio::time::Instant::now();
        assert_eq!(received(pieces(&["1234"], false), &settings).await, Err(Code::TemporarilyUnavailable));
        // The first four bytes extend the time by two seconds.
        assert_eq!(begun.elapsed(), settings.body_rate_after + Duration::from_secs(2));
        let one_a_second = |each: &'static str| {
            let frames = stream::iter(0..8).then(move |_| async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok::<_, Infallible>(Frame::data(Bytes::from(each)))
            });
            Body::new(StreamBody::new(Box::pin(frames)))
        };
        let settings = Settings { body_rate_min: 1, ..Settings::default() };
        assert_eq!(received(one_a_second("1"), &settings).await.unwrap(), "11111111");
        assert_eq!(received(one_a_second(""), &settings).await, Err(Code::TemporarilyUnavailable));
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_in_transit_share_a_limit_of_bytes() {
        let settings = Settings { bodies_bytes_max: 3, ..Settings::default() };
        assert_eq!(received(pieces(&["1", "2", "3"], true), &settings).await.unwrap(), "123");
        let begun = tokio::time::Instant::now();
        assert_eq!(received(pieces(&["1234"], false), &settings).await, Err(Code::TemporarilyUnavailable));
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn changed_limits_of_bodies_hold_for_the_next_body() {
        let live = Live::new(Settings::default());
        let bodies_per_address_max = Live::new(1);
        let memory = ReceiveMemory::new(1000);
        let slow = SlowBodies::new(live.clone(), bodies_per_address_max.clone(), Arc::new(Gate::new(1)), memory);
        let reader = BodyReader { slow };
        let (parts, ()) = Request::new(()).into_parts();
        let seconds = async || {
            let begun = Instant::now();
            let error = reader.read(&parts, pieces(&["1"], false)).await.unwrap_err();
            assert_eq!(error.code(), Code::TemporarilyUnavailable);
            begun.elapsed().as_secs()
        };
        assert_eq!(seconds().await, live.get().body_rate_after.as_secs());
        live.set(Settings { body_rate_min: 0, body_deadline: Duration::from_secs(2), ..Settings::default() });
        assert_eq!(seconds().await, 2);
        live.set(Settings { body_rate_after: Duration::from_secs(3), ..Settings::default() });
        assert_eq!(seconds().await, 3);
        let later = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(seconds().await, 0, "the address has one body under way");
            bodies_per_address_max.set(2);
            assert_eq!(seconds().await, 3);
        };
        let (first, ()) = tokio::join!(seconds(), later);
        assert_eq!(first, 3);
    }

    #[test]
    fn a_form_parameter_is_there_once_or_refused() {
        let form = FormBody(vec![
            ("a".into(), "1".into()),
            ("b".into(), String::new()),
            ("c".into(), "1".into()),
            ("c".into(), "2".into()),
        ]);
        assert_eq!(form.get("a").unwrap(), Some("1"));
        assert_eq!(form.get("b").unwrap(), None);
        assert!(form.get("c").is_err());
        assert!(form.require("d").is_err());
    }
}
