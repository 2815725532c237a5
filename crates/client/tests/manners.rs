//! The client against a scripted server that fails in various ways.

#![expect(clippy::unwrap_used, reason = "any unexpected value fails the test")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use client::{Client, Credential, Error, RetrySettings, Settings};
use domain::ids::BatchId;
use domain::secret::Secret;
use futures_util::stream;
use serde_json::json;
use tokio::net::TcpListener;
use wire::knowledge::{BatchMessage, BatchRequest};

/// Received requests: method, path, headers, body.
type Received = Arc<Mutex<Vec<(Method, String, HeaderMap, Bytes)>>>;

/// A server that returns the n-th response for the n-th request, and the last one for all further requests.
async fn peer(answers: Vec<fn() -> Response>) -> (String, Received) {
    let requests: Received = Arc::default();
    let log = Arc::clone(&requests);
    let router = Router::new().fallback(async move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| {
        let nth = {
            let mut requests = log.lock().unwrap();
            requests.push((method, uri.to_string(), headers, body));
            requests.len() - 1
        };
        answers[nth.min(answers.len() - 1)]()
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, requests)
}

fn client(url: &str) -> Client {
    let retry =
        RetrySettings { retries_max: 3, delay_min: Duration::from_millis(1), delay_max: Duration::from_secs(2) };
    Client::new(&Settings { retry, rejoin_for: Duration::ZERO, ..Settings::of(url) }).unwrap()
}

fn later() -> Response {
    let body = json!({ "error": "temporarily_unavailable", "retryable": true, "reason": "overloaded" });
    (StatusCode::FAILED_DEPENDENCY, [("retry-after", "0")], axum::Json(body)).into_response()
}

fn much_later() -> Response {
    let body = json!({ "error": "temporarily_unavailable", "retryable": true });
    (StatusCode::FAILED_DEPENDENCY, [("retry-after", "3600")], axum::Json(body)).into_response()
}

fn in_another_century() -> Response {
    let body = json!({ "error": "temporarily_unavailable", "retryable": true });
    let date = [("retry-after", "Fri, 01 Jan 2100 00:00:00 GMT")];
    (StatusCode::FAILED_DEPENDENCY, date, axum::Json(body)).into_response()
}

fn computers() -> Response {
    axum::Json(json!({ "computers": [], "and_something_new": 1 })).into_response()
}

fn receipt() -> Response {
    let body = json!({ "receipt_id": "019b76da-a800-7274-8acf-2e56e162ebd9" });
    (StatusCode::ACCEPTED, axum::Json(body)).into_response()
}

fn cut() -> Response {
    let half = stream::iter([Ok(Bytes::from_static(b"{\"receipt")), Err(std::io::Error::other("gone"))]);
    Body::from_stream(half).into_response()
}

#[tokio::test]
async fn a_question_is_asked_again_when_the_server_says_later() {
    let (url, requests) = peer(vec![later, later, computers]).await;
    assert_eq!(client(&url).account_computers().await.unwrap().computers, []);
    assert_eq!(requests.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn a_question_is_asked_only_so_often() {
    let (url, requests) = peer(vec![later]).await;
    let error = client(&url).account_computers().await.unwrap_err();
    assert_eq!((error.code(), requests.lock().unwrap().len()), (Some("temporarily_unavailable"), 4));
    assert_eq!(error.to_string(), "the server said temporarily_unavailable (424): overloaded");
}

#[tokio::test]
async fn a_long_delay_that_a_server_requests_is_not_waited_for() {
    let (url, requests) = peer(vec![much_later]).await;
    let error = client(&url).account_computers().await.unwrap_err();
    assert_eq!(error.refusal().unwrap().retry_after, Some(Duration::from_hours(1)));
    assert_eq!(requests.lock().unwrap().len(), 1);
    let (url, requests) = peer(vec![in_another_century]).await;
    let error = client(&url).account_computers().await.unwrap_err();
    assert!(error.refusal().unwrap().retry_after > Some(Duration::from_hours(24 * 365)), "{error:?}");
    assert_eq!(requests.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn what_would_be_done_twice_is_not_sent_twice() {
    let (url, requests) = peer(vec![later]).await;
    let error = client(&url).register_anonymous().await.unwrap_err();
    assert!(error.is_temporary());
    assert_eq!(requests.lock().unwrap().len(), 1);
    let (url, requests) = peer(vec![cut]).await;
    assert!(matches!(client(&url).space_create("Garden", false).await, Err(Error::Unreachable { .. })));
    assert_eq!(requests.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn an_event_whose_answer_was_lost_is_sent_again_to_the_byte() {
    let (url, requests) = peer(vec![cut, receipt]).await;
    let event = Bytes::from_static(br#"{ "event_id" : "x" }"#);
    client(&url).event_submit(event.clone()).await.unwrap();
    let requests = requests.lock().unwrap();
    assert_eq!(requests.iter().map(|(_, _, _, body)| body.clone()).collect::<Vec<_>>(), [event.clone(), event]);
}

#[tokio::test]
async fn an_absent_server_is_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = client(&url).register_anonymous().await.unwrap_err();
    assert_eq!(error.to_string(), format!("the server at {url} cannot be reached"));
}

#[tokio::test]
async fn a_credential_follows_no_redirect_and_shows_nowhere() {
    let (url, requests) = peer(vec![|| axum::response::Redirect::temporary("/elsewhere").into_response()]).await;
    let client = client(&url).with(Credential::Bearer(Secret::presented("at_very_secret")));
    let error = client.account_summary().await.unwrap_err();
    assert_eq!(error.code(), Some("http_307"));
    let requests = requests.lock().unwrap();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].2["authorization"], "Bearer at_very_secret");
    assert!(!format!("{client:?} {error:?}").contains("very_secret"));
}

const BATCH: &str = "019b76da-a800-7a67-8a14-94a3f41b0634";

fn message(seq: u32) -> Bytes {
    let data = match seq {
        0 => json!({ "type": "progress", "processed": 0, "total": 1 }),
        1 => json!({ "type": "success", "id": BATCH, "url": "https://example.com/" }),
        2 => json!({ "type": "something_newer", "x": 1 }),
        3 => json!({ "type": "progress", "processed": 1, "total": 1 }),
        _ => json!({ "type": "complete" }),
    };
    format!(": still there\n\nid: {BATCH}:{seq}\ndata: {data}\n\n").into()
}

/// A stream of the messages from `from` to `to`, which then ends, or is cut within the next message.
fn stream_of(from: u32, to: u32, whole: bool) -> Response {
    let mut body: Vec<u8> = (from..to).flat_map(message).collect();
    if !whole {
        body.extend_from_slice(&message(to)[..20]);
    }
    ([("content-type", "text/event-stream"), ("x-batch-id", BATCH)], body).into_response()
}

#[tokio::test]
async fn a_broken_stream_is_resumed_after_the_last_message() {
    let answers: Vec<fn() -> Response> =
        vec![|| stream_of(0, 2, false), later, || stream_of(2, 3, false), || stream_of(3, 5, true)];
    let (url, requests) = peer(answers).await;
    let mut stream = client(&url).batch_add(&BatchRequest::default()).await.unwrap();
    assert_eq!(stream.batch(), BATCH.parse::<BatchId>().unwrap());
    let mut messages = Vec::new();
    while let Some(message) = stream.next().await {
        messages.push(message.unwrap());
    }
    let expected: Vec<BatchMessage> = (0..5)
        .map(|seq| {
            let text = String::from_utf8(message(seq).to_vec()).unwrap();
            serde_json::from_str(text.split("data: ").nth(1).unwrap()).unwrap()
        })
        .collect();
    assert_eq!(messages, expected);
    assert_eq!(messages[2], BatchMessage::Unknown);
    let requests = requests.lock().unwrap();
    let resumes: Vec<_> = requests
        .iter()
        .map(|(method, path, headers, _)| {
            let after = headers.get("last-event-id").map(|id| id.to_str().unwrap().to_owned());
            (method.as_str().to_owned(), path.clone(), after)
        })
        .collect();
    let join = |after: u32| ("GET".to_owned(), format!("/v1/batch-add/{BATCH}"), Some(format!("{BATCH}:{after}")));
    assert_eq!(resumes, [("POST".to_owned(), "/v1/batch-add".to_owned(), None), join(1), join(1), join(2)]);
}

#[tokio::test]
async fn a_stream_that_never_says_anything_is_given_up() {
    let (url, requests) = peer(vec![|| stream_of(0, 1, false), || stream_of(1, 1, false)]).await;
    let mut stream = client(&url).batch_add(&BatchRequest::default()).await.unwrap();
    assert!(stream.next().await.unwrap().is_ok());
    assert!(matches!(stream.next().await, Some(Err(Error::Broken { .. }))));
    assert!(stream.next().await.is_none());
    assert_eq!(requests.lock().unwrap().len(), 4);
}

#[tokio::test]
async fn a_restarting_server_is_waited_for() {
    let answers: Vec<fn() -> Response> =
        vec![|| stream_of(0, 2, false), later, later, later, later, later, later, || stream_of(2, 5, true)];
    let (url, requests) = peer(answers).await;
    let retry = RetrySettings { retries_max: 1, delay_min: Duration::from_millis(1), ..RetrySettings::default() };
    let client = Client::new(&Settings { retry, ..Settings::of(&url) }).unwrap();
    let mut stream = client.batch_add(&BatchRequest::default()).await.unwrap();
    for _ in 0..5 {
        stream.next().await.unwrap().unwrap();
    }
    assert!(stream.next().await.is_none());
    assert_eq!(requests.lock().unwrap().len(), 8);
}

#[tokio::test]
async fn another_server_at_the_address_is_recognised() {
    let (url, _) = peer(vec![|| "<html>".into_response()]).await;
    assert!(matches!(client(&url).usage_bar().await, Err(Error::Unreadable { .. })));
}

fn endless() -> Response {
    let piece = Bytes::from(vec![b'x'; 1 << 16]);
    let body = Body::from_stream(stream::repeat_with(move || Ok::<_, std::io::Error>(piece.clone())));
    (StatusCode::OK, [("x-batch-id", BATCH)], body).into_response()
}

fn endless_refusal() -> Response {
    (StatusCode::BAD_REQUEST, endless()).into_response()
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_not_read_to_its_end() {
    let limited = |url: &str| Client::new(&Settings { response_bytes_max: 1 << 18, ..Settings::of(url) }).unwrap();
    let (url, _) = peer(vec![endless]).await;
    let error = limited(&url).usage_bar().await.unwrap_err();
    assert!(matches!(error, Error::Unreadable { .. }), "{error:?}");
    assert!(domain::reasons(&error).contains("262144 bytes"), "{error:?}");
    let mut export = Box::pin(limited(&url).export().await.unwrap());
    let mut pieces = Vec::new();
    while let Some(Ok(piece)) = futures_util::StreamExt::next(&mut export).await {
        pieces.push(piece.len());
    }
    assert!(pieces.iter().sum::<usize>() <= 1 << 18, "one line has a limit");
    let mut messages = limited(&url).batch_add(&BatchRequest::default()).await.unwrap();
    assert!(messages.next().await.unwrap().is_err());
    // A refusal with an oversized body is identified by its status.
    let (url, _) = peer(vec![endless_refusal]).await;
    assert_eq!(limited(&url).usage_bar().await.unwrap_err().code(), Some("http_400"));
}
