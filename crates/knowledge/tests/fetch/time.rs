//! Timeouts and cancellation.

use std::sync::Arc;
use std::time::Duration;

use domain::item::Fault;
use knowledge::fetch::{FetchError, FetchSettings, Fetcher, FetcherDependencies};

use crate::site::{Site, Step, head, page, redirect};
use crate::{fetch, fetcher, settings_for};

const LONG: Duration = Duration::from_mins(10);
const SHORT: Duration = Duration::from_millis(250);

#[tokio::test]
async fn a_server_that_stops_in_the_middle_is_left() {
    let site = Site::start(|request, _| match request.target.as_str() {
        "/silent" => vec![Step::Hang],
        "/head" => vec![Step::Send(b"HTTP/1.1 200 OK\r\ncontent-type: text/ht".to_vec()), Step::Hang],
        "/body" => vec![Step::Send(head(200, &[("content-type", "text/html")])), Step::Hang],
        _ => {
            let opening = head(200, &[("content-type", "text/html"), ("content-length", "1000")]);
            vec![Step::Send([opening, b"<html>".to_vec()].concat()), Step::Hang]
        }
    })
    .await;
    let settings =
        FetchSettings { connect_timeout: SHORT, stall_timeout: SHORT, total_timeout: LONG, ..settings_for(&site) };
    let fetcher = fetcher(settings);
    for path in ["/silent", "/head", "/body", "/middle"] {
        let error = fetch(&fetcher, &site.url(path)).await.unwrap_err();
        assert_eq!(error.fault(), Some(Fault::Timeout), "{path}");
    }
    assert_eq!(site.requests().len(), 4, "who is slow once is not asked again");
}

#[tokio::test]
async fn a_head_that_drips_is_left() {
    let site = Site::start(|_, _| vec![Step::Drip(b"HTTP/1.1 200 OK\r\nx-a: b".to_vec())]).await;
    let settings =
        FetchSettings { connect_timeout: SHORT, stall_timeout: SHORT, total_timeout: LONG, ..settings_for(&site) };
    assert_eq!(fetch(&fetcher(settings), &site.url("/")).await, Err(FetchError::TooSlow));
}

#[tokio::test]
async fn a_slow_body_is_dropped_at_the_pages_deadline() {
    let site = Site::start(|request, _| match request.target.as_str() {
        "/redirected" => redirect("/drip"),
        _ => vec![Step::Send(head(200, &[("content-type", "text/html")])), Step::Drip(b"a".to_vec())],
    })
    .await;
    let settings = FetchSettings { stall_timeout: LONG, total_timeout: 2 * SHORT, ..settings_for(&site) };
    let fetcher = fetcher(settings);
    for path in ["/drip", "/redirected"] {
        assert_eq!(fetch(&fetcher, &site.url(path)).await, Err(FetchError::TooSlow), "{path}");
    }
}

#[tokio::test]
async fn retries_come_out_of_the_pages_time() {
    let site = Site::start(|_, _| crate::site::answer(500, &[], "")).await;
    let settings = FetchSettings { total_timeout: LONG, retry_pause: 4 * LONG, ..settings_for(&site) };
    let gave_up = tokio::time::timeout(LONG / 10, fetch(&fetcher(settings), &site.url("/"))).await;
    assert_eq!(gave_up, Ok(Err(FetchError::Status(500))));
    assert_eq!(site.requests().len(), 1);
}

/// A resolver that never responds.
struct Mute;

impl reqwest::dns::Resolve for Mute {
    fn resolve(&self, _: reqwest::dns::Name) -> reqwest::dns::Resolving {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn names_without_an_answer_are_skipped() {
    let rng = domain::Rng::seeded(1);
    let surroundings = FetcherDependencies {
        resolver: Arc::new(Mute),
        ..FetcherDependencies::system("https://attache.example.com", domain::Clock::system(), rng)
    };
    let settings =
        FetchSettings { connect_timeout: SHORT, stall_timeout: LONG, total_timeout: LONG, ..FetchSettings::default() };
    let fetcher = Fetcher::new(settings, surroundings).unwrap();
    let error = fetch(&fetcher, "http://mute.example/").await.unwrap_err();
    assert_eq!(error.fault(), Some(Fault::Timeout));
}

#[tokio::test]
async fn who_gives_up_gives_everything_back() {
    let site = Site::start(|request, _| if request.target == "/hang" { vec![Step::Hang] } else { page("hello") }).await;
    let fetcher =
        fetcher(FetchSettings { in_flight_max: 1, stall_timeout: LONG, total_timeout: LONG, ..settings_for(&site) });
    for _ in 0..3 {
        let (first, second) = (site.url("/hang"), site.url("/hang"));
        let hanging = async { tokio::join!(fetch(&fetcher, &first), fetch(&fetcher, &second)) };
        assert!(tokio::time::timeout(SHORT, hanging).await.is_err());
    }
    fetch(&fetcher, &site.url("/")).await.unwrap();
}
