//! Retries of transient failures.

use std::net::Ipv4Addr;

use domain::item::Fault;
use knowledge::fetch::{FetchError, FetchSettings};
use tokio::net::TcpListener;

use crate::site::{Site, Step, answer, head, page};
use crate::{fetch, fetcher, settings_for};

/// Number of requests for each target.
fn counts(site: &Site, targets: &[&str]) -> Vec<usize> {
    let requests = site.targets();
    targets.iter().map(|target| requests.iter().filter(|request| request == target).count()).collect()
}

#[tokio::test]
async fn statuses_that_may_pass_are_tried_again() {
    let site = Site::start(|request, count| match (request.target.as_str(), count) {
        ("/recovers", 2) | ("/busy-once", 1) => page("fine now"),
        ("/404", _) => answer(404, &[("content-type", "text/html")], "<p>secret of the server</p>"),
        ("/410", _) => answer(410, &[], ""),
        ("/recovers" | "/500", _) => answer(500, &[], ""),
        ("/503", _) => answer(503, &[("retry-after", "0")], ""),
        ("/busy-once", _) => answer(429, &[("retry-after", "0")], ""),
        ("/busy", _) => answer(429, &[], ""),
        ("/busy-for-long", _) => answer(429, &[("retry-after", "3600")], ""),
        ("/down-for-long", _) => answer(503, &[("retry-after", "Tue, 31 Dec 2199 23:59:59 GMT")], ""),
        (other, _) => panic!("{other}"),
    })
    .await;
    let fetcher = fetcher(settings_for(&site));
    for (path, expected, requests) in [
        ("/recovers", None, 3),
        ("/busy-once", None, 2),
        ("/404", Some(Fault::Http(404)), 1),
        ("/410", Some(Fault::Http(410)), 1),
        ("/500", Some(Fault::Http(500)), 3),
        ("/503", Some(Fault::Http(503)), 3),
        ("/busy", Some(Fault::RateLimitedByHost), 3),
        ("/busy-for-long", Some(Fault::RateLimitedByHost), 1),
        ("/down-for-long", Some(Fault::RateLimitedByHost), 1),
    ] {
        let answered = fetch(&fetcher, &site.url(path)).await;
        assert_eq!(answered.as_ref().err().and_then(FetchError::fault), expected, "{path}");
        assert_eq!(counts(&site, &[path]), [requests], "{path}");
        let said = answered.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(!said.contains("secret") && !said.contains("127.0.0.1"), "{said}");
    }
}

#[tokio::test]
async fn connections_that_break_are_tried_again() {
    let site = Site::start(|request, count| {
        let announced = head(200, &[("content-type", "text/plain"), ("content-length", "100")]);
        match (request.target.as_str(), count) {
            ("/at-once" | "/in-the-head" | "/in-the-body", 2) => page("fine now"),
            ("/at-once", _) => vec![],
            ("/in-the-head", _) => vec![Step::Send(b"HTTP/1.1 200 OK\r\ncont".to_vec())],
            _ => vec![Step::Send([announced, b"ten bytes.".to_vec()].concat())],
        }
    })
    .await;
    let fetcher = fetcher(settings_for(&site));
    for path in ["/at-once", "/in-the-head", "/in-the-body"] {
        fetch(&fetcher, &site.url(path)).await.unwrap();
    }
    assert_eq!(fetch(&fetcher, &site.url("/always")).await, Err(FetchError::NoConnection));
    assert_eq!(counts(&site, &["/at-once", "/in-the-head", "/in-the-body", "/always"]), [3, 3, 3, 3]);
}

#[tokio::test]
async fn an_absent_server_is_a_failed_connection() {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap().local_addr().unwrap().port();
    let site = Site::start(|_, _| page("hello")).await;
    let fetcher = fetcher(FetchSettings { ports: vec![port], ..settings_for(&site) });
    let error = fetch(&fetcher, &format!("http://127.0.0.1:{port}/")).await.unwrap_err();
    assert_eq!((error.fault(), error), (Some(Fault::ConnectFailed), FetchError::NoConnection));
}

#[tokio::test]
async fn a_response_that_is_not_http_is_a_failed_connection_and_not_retried() {
    let site = Site::start(|_, _| vec![Step::Send(b"SSH-2.0-OpenSSH_9.6\r\n\r\n".to_vec())]).await;
    let error = fetch(&fetcher(settings_for(&site)), &site.url("/")).await.unwrap_err();
    assert_eq!((error.fault(), error), (Some(Fault::ConnectFailed), FetchError::NotHttp));
    assert_eq!(site.requests().len(), 1);
}
