//! Web servers as they are.

use std::time::Duration;

use domain::item::Fault;
use knowledge::fetch::{FetchError, FetchSettings, Fetched, RobotsPolicy};

use crate::world::{Act, Server, answer, fetcher, html, page, redirect};

/// Compressed zeros: 64 MiB of them in 64 KiB.
fn bomb() -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let zeros = vec![b'0'; 1024 * 1024];
    for _ in 0..64 {
        encoder.write_all(&zeros).unwrap();
    }
    encoder.finish().unwrap()
}

async fn fetched(server: &Server, path: &str) -> Result<Fetched, FetchError> {
    server.fetcher().fetch(&server.url(path)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_comes_with_its_type_its_charset_and_its_final_address() {
    let server = Server::start(|path, _| match path {
        "/old" => redirect("/new?x=1#part"),
        "/new?x=1" => page("Text/HTML; charset=\"ISO-8859-1\"", b"<p>caf\xe9"),
        _ => answer("404 Not Found", &[], ""),
    })
    .await;
    let fetched = fetched(&server, "/old").await.unwrap();
    assert_eq!((fetched.media_type.as_str(), fetched.charset.as_deref()), ("text/html", Some("ISO-8859-1")));
    assert_eq!((fetched.url, &fetched.body[..]), (server.url("/new?x=1"), &b"<p>caf\xe9"[..]));
    let head = server.heads().pop().unwrap().to_ascii_lowercase();
    assert!(head.contains("user-agent: attache/") && head.contains("(+http://attache.test)"), "{head}");
    assert!(!head.contains("cookie") && !head.contains("authorization") && !head.contains("referer"), "{head}");
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_are_followed_so_far_and_not_in_circles() {
    let server = Server::start(|path, _| match path {
        "/circle" => redirect("/circle"),
        "/robots.txt" => answer("404 Not Found", &[], ""),
        "/nowhere" => redirect("mailto:somebody@example.com"),
        "/6" => html("<p>end"),
        other => redirect(&format!("/{}", other[1..].parse::<u32>().unwrap() + 1)),
    })
    .await;
    assert_eq!(fetched(&server, "/1").await.unwrap().body, "<p>end");
    assert_eq!(fetched(&server, "/0").await.unwrap_err(), FetchError::TooManyRedirects);
    assert_eq!(fetched(&server, "/circle").await.unwrap_err().fault(), Some(Fault::TooManyRedirects));
    assert_eq!(fetched(&server, "/nowhere").await.unwrap_err(), FetchError::BadRedirect);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_web_server_says_is_told() {
    let server = Server::start(|path, _| match path {
        "/robots.txt" => answer("404 Not Found", &[], ""),
        other => answer(&other[1..].replace('-', " "), &[], ""),
    })
    .await;
    for status in [400, 401, 403, 404, 410, 418, 500, 503] {
        let error = fetched(&server, &format!("/{status}-Some")).await.unwrap_err();
        assert_eq!(error.fault(), Some(Fault::Http(status)), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_for_now_is_tried_again() {
    let server = Server::start(|path, before| match (path, before) {
        ("/soon", 0) => answer("500 Internal Server Error", &[], ""),
        ("/soon", 1) => answer("503 Service Unavailable", &[("Retry-After", "0")], ""),
        ("/soon", _) => html("<p>here"),
        ("/later", _) => answer("429 Too Many Requests", &[("Retry-After", "3600")], ""),
        ("/never", _) => answer("429 Too Many Requests", &[("Retry-After", "0")], ""),
        _ => answer("404 Not Found", &[], ""),
    })
    .await;
    let fetcher = fetcher(FetchSettings { retries: 2, ..server.settings() });
    assert_eq!(fetcher.fetch(&server.url("/soon")).await.unwrap().body, "<p>here");
    for path in ["/later", "/never"] {
        let error = fetcher.fetch(&server.url(path)).await.unwrap_err();
        assert_eq!(error.fault(), Some(Fault::RateLimitedByHost), "{path}");
    }
    assert_eq!((server.asked("/soon"), server.asked("/later"), server.asked("/never")), (3, 1, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_counted_after_decompression_and_while_they_come() {
    let bomb = bomb();
    let plain_head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n".to_vec();
    let server = Server::start(move |path, _| match path {
        "/bomb" => answer("200 OK", &[("Content-Type", "text/html"), ("Content-Encoding", "gzip")], &bomb),
        "/endless" => vec![Act::Send(plain_head.clone()), Act::Flood(usize::MAX)],
        _ => answer("404 Not Found", &[], ""),
    })
    .await;
    let settings = FetchSettings { body_bytes_max: 1024 * 1024, ..server.settings() };
    for path in ["/bomb", "/endless"] {
        let error = fetcher(settings.clone()).fetch(&server.url(path)).await.unwrap_err();
        assert_eq!(error.fault(), Some(Fault::TooLarge), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_servers_are_left() {
    let server = Server::start(|path, _| match path {
        "/silent" => vec![Act::Hang],
        "/half-a-head" => vec![Act::Send(b"HTTP/1.1 200 OK\r\nContent-".to_vec()), Act::Hang],
        "/half-a-body" => {
            let begun = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 100\r\n\r\n<p>half";
            vec![Act::Send(begun.into()), Act::Hang]
        }
        _ => answer("404 Not Found", &[], ""),
    })
    .await;
    let stalling = FetchSettings { stall_timeout: Duration::from_millis(100), ..server.settings() };
    let whole = FetchSettings { timeout: Duration::from_millis(100), ..server.settings() };
    for path in ["/silent", "/half-a-head", "/half-a-body"] {
        for settings in [&stalling, &whole] {
            let error = fetcher(settings.clone()).fetch(&server.url(path)).await.unwrap_err();
            assert_eq!(error.fault(), Some(Fault::Timeout), "{path}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_there_and_nonsense_are_told_apart_from_slowness() {
    let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let nonsense = Server::start(|path, _| match path {
        "/robots.txt" => answer("404 Not Found", &[], ""),
        "/cut" => {
            vec![Act::Send(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 100\r\n\r\n<p>".to_vec())]
        }
        "/headers" => {
            let flood: String = (0..20_000).map(|nth| format!("X-{nth}: {}\r\n", "y".repeat(50))).collect();
            vec![Act::Send(format!("HTTP/1.1 200 OK\r\n{flood}\r\n").into())]
        }
        _ => vec![Act::Send(b"\0\0\0 this is no HTTP\r\n\r\n".to_vec())],
    })
    .await;
    let settings = FetchSettings { ports: vec![nobody.port()], ..nonsense.settings() };
    let error = fetcher(settings).fetch(&format!("http://{nobody}/").parse().unwrap()).await.unwrap_err();
    assert_eq!(error, FetchError::Connect);
    for path in ["/", "/cut", "/headers"] {
        let error = fetched(&nonsense, path).await.unwrap_err();
        assert_eq!(error.fault(), Some(Fault::ConnectFailed), "{path}: {error:?}");
    }
    // The port of a plain server is no TLS.
    let tls = format!("https://{}/", nonsense.address).parse().unwrap();
    assert_eq!(nonsense.fetcher().fetch(&tls).await.unwrap_err().fault(), Some(Fault::TlsFailed));
    let unknown = format!("http://unknown.test:{}/", nonsense.address.port()).parse().unwrap();
    assert_eq!(nonsense.fetcher().fetch(&unknown).await.unwrap_err().fault(), Some(Fault::DnsFailed));
}

#[tokio::test(flavor = "multi_thread")]
async fn types_that_are_not_read_are_refused_before_their_bodies() {
    let server = Server::start(|path, _| match path {
        "/image" => vec![
            Act::Send(b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 1000000000\r\n\r\n".to_vec()),
            Act::Hang,
        ],
        "/untold" => vec![Act::Send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n<!doctype html><p>x".to_vec())],
        "/octets" => page("application/octet-stream", b"%PDF-1.7\n"),
        "/noise" => page("application/octet-stream", b"\x89PNG\r\n\x1a\n\0\0"),
        _ => answer("404 Not Found", &[], ""),
    })
    .await;
    for path in ["/image", "/noise"] {
        assert_eq!(fetched(&server, path).await.unwrap_err(), FetchError::Unsupported, "{path}");
    }
    assert_eq!(fetched(&server, "/untold").await.unwrap().media_type, "text/html");
    assert_eq!(fetched(&server, "/octets").await.unwrap().media_type, "application/pdf");
}

#[tokio::test(flavor = "multi_thread")]
async fn robots_are_obeyed_and_asked_for_once() {
    let rules = "User-agent: *\nDisallow: /secret\n";
    let server =
        Server::start(move |path, _| if path == "/robots.txt" { page("text/plain", rules) } else { html("<p>x") })
            .await;
    let fetcher_of = |robots| fetcher(FetchSettings { robots, ..server.settings() });
    let obedient = fetcher_of(RobotsPolicy::Obey);
    let error = obedient.fetch(&server.url("/secret/a")).await.unwrap_err();
    assert_eq!((error, error.fault()), (FetchError::RobotsDisallowed, None));
    obedient.fetch(&server.url("/open")).await.unwrap();
    assert_eq!((server.asked("/robots.txt"), server.asked("/secret/a"), server.asked("/open")), (1, 0, 1));
    fetcher_of(RobotsPolicy::Ignore).fetch(&server.url("/secret/a")).await.unwrap();
    assert_eq!(server.asked("/robots.txt"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_rules_allows_and_one_that_cannot_say_does_not() {
    for (status, allowed) in [("404 Not Found", true), ("403 Forbidden", true), ("500 Internal Server Error", false)] {
        let server =
            Server::start(move |path, _| if path == "/robots.txt" { answer(status, &[], "") } else { html("<p>x") })
                .await;
        assert_eq!(fetched(&server, "/").await.is_ok(), allowed, "{status}");
    }
    // Only so much of it is read.
    let head =
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nUser-agent: *\nDisallow: /secret\n"
            .to_vec();
    let server = Server::start(move |path, _| {
        if path == "/robots.txt" { vec![Act::Send(head.clone()), Act::Flood(usize::MAX)] } else { html("<p>x") }
    })
    .await;
    assert_eq!(fetched(&server, "/secret").await.unwrap_err(), FetchError::RobotsDisallowed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_is_asked_one_thing_at_a_time() {
    let server =
        Server::start(|path, _| if path == "/robots.txt" { answer("404 Not Found", &[], "") } else { html("<p>x") })
            .await;
    let fetcher = server.fetcher();
    let fetches = (0..20).map(|nth| {
        let (fetcher, url) = (fetcher.clone(), server.url(&format!("/{nth}")));
        async move { fetcher.fetch(&url).await.unwrap() }
    });
    futures_util::future::join_all(fetches).await;
    assert_eq!(server.busiest(), 1);
    assert!(server.asked("/robots.txt") <= 20 && server.heads().len() >= 21);
}
