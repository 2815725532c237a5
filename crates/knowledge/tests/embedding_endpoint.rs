//! Embeddings from an OpenAI-compatible endpoint, with its failures.

#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is the answer")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use domain::Rng;
use knowledge::embed::{
    EmbedError, Embedder, EmbeddingProvider, EmbeddingSettings, HttpEmbeddingSettings, HttpFailure,
};
use serde_json::{Value, json};
use wiremock::matchers::{header, method, path};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

const KEY: &str = "sk-canary";

fn settings(server: &MockServer) -> EmbeddingSettings {
    let http = HttpEmbeddingSettings {
        base_url: Some(format!("{}/v1", server.uri())),
        model: Some("text-small".into()),
        api_key: Some(KEY.into()),
        dimensions: 2,
        inputs_max: 3,
        retry_delay_min: Duration::from_millis(1),
        retry_delay_max: Duration::from_millis(4),
        ..HttpEmbeddingSettings::default()
    };
    EmbeddingSettings { provider: EmbeddingProvider::Http, http, ..EmbeddingSettings::default() }
}

fn embedder(settings: &EmbeddingSettings) -> Embedder {
    Embedder::new(settings, &Rng::seeded(1)).unwrap()
}

fn texts(count: usize) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}

/// Responds with a vector that identifies its text, which is a number.
fn answer(request: &Request) -> ResponseTemplate {
    let body: Value = request.body_json().unwrap();
    let inputs = body["input"].as_array().unwrap().iter().map(|text| text.as_str().unwrap().parse::<f64>().unwrap());
    let data: Vec<Value> =
        inputs.enumerate().map(|(index, number)| json!({"index": index, "embedding": [1.0, number]})).collect();
    ResponseTemplate::new(200).set_body_json(json!({"object": "list", "data": data}))
}

/// An endpoint that fails `times` times and then works.
async fn failing_first(times: usize, failure: ResponseTemplate) -> (MockServer, Arc<AtomicUsize>) {
    let (server, requests) = (MockServer::start().await, Arc::new(AtomicUsize::new(0)));
    let count = requests.clone();
    let respond = move |request: &Request| {
        let earlier = count.fetch_add(1, Ordering::SeqCst);
        if earlier < times { failure.clone() } else { answer(request) }
    };
    Mock::given(method("POST")).and(path("/v1/embeddings")).respond_with(respond).mount(&server).await;
    (server, requests)
}

#[tokio::test]
async fn texts_go_in_requests_of_the_configured_size_and_come_back_in_order() {
    let server = MockServer::start().await;
    let bearer = format!("Bearer {KEY}");
    let endpoint =
        Mock::given(method("POST")).and(path("/v1/embeddings")).and(header("authorization", bearer.as_str()));
    endpoint.respond_with(answer).expect(3).mount(&server).await;
    let embedder = embedder(&settings(&server));
    let vectors = embedder.embed(texts(7)).await.unwrap();
    assert_eq!(vectors.len(), 7);
    for (vector, number) in vectors.iter().zip([0.0_f32, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) {
        assert!((vector[1] / vector[0] - number).abs() < 1e-5);
        assert!((vector[0].hypot(vector[1]) - 1.0).abs() < 1e-6);
    }
    let sent: Vec<Value> = server.received_requests().await.unwrap().iter().map(|r| r.body_json().unwrap()).collect();
    assert_eq!(sent[2], json!({"model": "text-small", "input": ["6"], "encoding_format": "float"}));
    assert_eq!(embedder.model().unwrap().to_string(), "text-small/2");
}

#[tokio::test]
async fn what_may_pass_is_tried_again() {
    for status in [408, 429, 500, 503] {
        let (server, requests) = failing_first(3, ResponseTemplate::new(status)).await;
        assert_eq!(embedder(&settings(&server)).embed(texts(1)).await.unwrap().len(), 1, "{status}");
        assert_eq!(requests.load(Ordering::SeqCst), 4, "{status}");
    }
}

#[tokio::test]
async fn the_pause_that_is_asked_for_goes_before_our_own() {
    let asks = |seconds: &str| ResponseTemplate::new(429).insert_header("retry-after", seconds);
    let (server, requests) = failing_first(1, asks("0")).await;
    let mut patient = settings(&server);
    patient.http.retry_delay_min = Duration::from_hours(1);
    patient.http.retry_delay_max = Duration::from_hours(1);
    assert_eq!(embedder(&patient).embed(texts(1)).await.unwrap().len(), 1);
    assert_eq!(requests.load(Ordering::SeqCst), 2);

    let (server, requests) = failing_first(1, asks("3600")).await;
    let failed = embedder(&settings(&server)).embed(texts(1)).await;
    assert!(matches!(failed, Err(EmbedError::Http(HttpFailure::Status { status, .. })) if status.as_u16() == 429));
    assert_eq!(requests.load(Ordering::SeqCst), 1, "an hour is beyond the deadline");
}

#[tokio::test]
async fn a_refusal_is_final_and_never_shows_the_key() {
    let (server, requests) =
        failing_first(9, ResponseTemplate::new(401).set_body_string(format!("bad key {KEY}"))).await;
    let embedder = embedder(&settings(&server));
    let refused = embedder.embed(texts(1)).await.unwrap_err();
    assert_eq!(refused.to_string(), "the embedding endpoint answered 401 Unauthorized: bad key …");
    assert_eq!(requests.load(Ordering::SeqCst), 1);
    assert!(!format!("{embedder:?} {refused:?}").contains(KEY));
}

#[tokio::test]
async fn a_silent_endpoint_is_left_and_an_absent_one_is_named() {
    let (server, requests) = failing_first(9, ResponseTemplate::new(200).set_delay(Duration::from_mins(1))).await;
    let mut settings = settings(&server);
    settings.http.timeout = Duration::from_millis(20);
    settings.http.deadline = Duration::from_millis(200);
    let silent = embedder(&settings).embed(texts(1)).await;
    assert_eq!(silent.unwrap_err(), EmbedError::Http(HttpFailure::Timeout));
    assert!(requests.load(Ordering::SeqCst) > 1, "it was tried again");

    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    settings.http.base_url = Some(format!("http://{unused}/v1"));
    let absent = embedder(&settings).embed(texts(1)).await;
    assert!(matches!(absent, Err(EmbedError::Http(HttpFailure::Connection(_)))), "{absent:?}");
}

#[tokio::test]
async fn answers_that_are_no_vectors_are_refused_at_once() {
    for body in [json!({"data": []}), json!({"data": [{"embedding": [1, 2, 3]}]}), json!({"error": "no"})] {
        let (server, requests) = failing_first(9, ResponseTemplate::new(200).set_body_json(&body)).await;
        let failed = embedder(&settings(&server)).embed(texts(1)).await;
        assert!(matches!(failed, Err(EmbedError::Http(HttpFailure::Answer(_)))), "{body}: {failed:?}");
        assert_eq!(requests.load(Ordering::SeqCst), 1);
    }
    let (server, _) = failing_first(9, ResponseTemplate::new(200).set_body_bytes(vec![b' '; 5000])).await;
    let mut settings = settings(&server);
    settings.http.body_bytes_max = 4000;
    let large = embedder(&settings).embed(texts(1)).await.unwrap_err();
    assert_eq!(large.to_string(), "the embedding endpoint gave no usable vectors: the answer is too large");
}

#[tokio::test]
async fn a_search_does_not_wait_for_content() {
    let server = MockServer::start().await;
    let slow = |request: &Request| {
        let body: Value = request.body_json().unwrap();
        let answer = answer(request);
        if body["input"][0] == "9" { answer } else { answer.set_delay(Duration::from_mins(1)) }
    };
    Mock::given(method("POST")).respond_with(slow).mount(&server).await;
    let mut settings = settings(&server);
    settings.http.requests_max = 1;
    let embedder = embedder(&settings);
    let contents = futures_util::future::join(embedder.embed(texts(1)), embedder.embed(texts(1)));
    tokio::select! {
        _ = contents => panic!("content goes one after the other"),
        found = embedder.embed_query("9".to_owned()) => assert_eq!(found.unwrap().len(), 2),
    }
}

#[tokio::test]
async fn without_a_provider_there_are_no_vectors() {
    let settings = EmbeddingSettings { provider: EmbeddingProvider::None, ..EmbeddingSettings::default() };
    let embedder = Embedder::new(&settings, &Rng::seeded(1)).unwrap();
    assert_eq!(embedder.model(), None);
    assert_eq!(embedder.embed(texts(1)).await, Err(EmbedError::Off));
}
