//! Types, charsets, sizes and compression of responses.

use async_compression::tokio::write::GzipEncoder;
use domain::item::Fault;
use knowledge::fetch::{FetchError, FetchSettings, MediaType};
use tokio::io::AsyncWriteExt;

use crate::site::{Site, Step, answer, head};
use crate::{fetch, fetcher, settings_for};

async fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzipEncoder::new(Vec::new());
    encoder.write_all(bytes).await.unwrap();
    encoder.shutdown().await.unwrap();
    encoder.into_inner()
}

#[tokio::test]
async fn content_is_taken_by_its_header_or_else_by_its_first_bytes() {
    type Expected = Result<(MediaType, Option<&'static str>), Fault>;
    const CASES: &[(Option<&str>, &[u8], Expected)] = &[
        (Some("text/html; charset=ISO-8859-1"), b"<p>\xe9</p>", Ok((MediaType::Html, Some("iso-8859-1")))),
        (Some("application/xhtml+xml"), b"<html/>", Ok((MediaType::Xhtml, None))),
        (Some("text/plain;charset=\"utf-8\""), b"words", Ok((MediaType::Plain, Some("utf-8")))),
        (Some("text/markdown"), b"# words", Ok((MediaType::Markdown, None))),
        (Some("application/json"), b"{}", Ok((MediaType::Json, None))),
        (Some("application/rss+xml"), b"<rss/>", Ok((MediaType::Xml, None))),
        (Some("application/pdf"), b"%PDF-1.7", Ok((MediaType::Pdf, None))),
        (Some("application/octet-stream"), b"%PDF-1.7 \xff", Ok((MediaType::Pdf, None))),
        (None, b"<!doctype html><p>words", Ok((MediaType::Html, None))),
        (None, b"words", Ok((MediaType::Plain, None))),
        (None, b"", Ok((MediaType::Plain, None))),
        (None, b"\x7fELF\0\0", Err(Fault::UnsupportedType)),
        (Some("application/octet-stream"), b"\x89PNG\r\n\x1a\n", Err(Fault::UnsupportedType)),
        (Some("image/png"), b"<html>", Err(Fault::UnsupportedType)),
        (Some("text/css"), b"p {}", Err(Fault::UnsupportedType)),
        (Some("nonsense"), b"words", Err(Fault::UnsupportedType)),
    ];
    let site = Site::start(|request, _| {
        let (content_type, body, _) = CASES[request.target[1..].parse::<usize>().unwrap()];
        let headers: Vec<_> = content_type.iter().map(|content_type| ("content-type", *content_type)).collect();
        answer(200, &headers, body)
    })
    .await;
    let fetcher = fetcher(settings_for(&site));
    for (number, (content_type, body, expected)) in CASES.iter().enumerate() {
        let answered = fetch(&fetcher, &site.url(&format!("/{number}"))).await;
        match (answered, expected) {
            (Ok(answered), Ok((media_type, charset))) => {
                assert_eq!(
                    (answered.media_type, answered.charset.as_deref()),
                    (*media_type, *charset),
                    "{content_type:?}"
                );
                assert_eq!(answered.body, *body);
            }
            (Err(error), Err(fault)) => assert_eq!(error.fault(), Some(*fault), "{content_type:?}"),
            (answered, _) => panic!("{content_type:?} {answered:?}"),
        }
    }
}

#[tokio::test]
async fn an_unsupported_page_is_refused_before_its_body_comes() {
    // The body never ends, so the client must not wait for it.
    let site = Site::start(|_, _| vec![Step::Send(head(200, &[("content-type", "video/mp4")])), Step::Hang]).await;
    let error = fetch(&fetcher(settings_for(&site)), &site.url("/")).await.unwrap_err();
    assert_eq!(error, FetchError::UnsupportedType("video/mp4".into()));

    let site = Site::start(|_, _| {
        let announced = head(200, &[("content-type", "text/html"), ("content-length", "10485761")]);
        vec![Step::Send(announced), Step::Hang]
    })
    .await;
    let error = fetch(&fetcher(settings_for(&site)), &site.url("/")).await.unwrap_err();
    assert_eq!(error, FetchError::BodyTooLarge(10 * 1024 * 1024));
}

#[tokio::test]
async fn a_body_is_taken_up_to_the_limit_and_not_a_byte_beyond() {
    let site = Site::start(|request, _| {
        let length: usize = request.target[1..].parse().unwrap();
        vec![Step::Send([head(200, &[("content-type", "text/plain")]), vec![b'a'; length]].concat())]
    })
    .await;
    let fetcher = fetcher(FetchSettings { body_bytes_max: 100_000, ..settings_for(&site) });
    assert_eq!(fetch(&fetcher, &site.url("/100000")).await.unwrap().body.len(), 100_000);
    assert_eq!(fetch(&fetcher, &site.url("/100001")).await, Err(FetchError::BodyTooLarge(100_000)));
}

#[tokio::test]
async fn endless_bodies_are_cut() {
    let site = Site::start(|request, _| {
        let chunked = ("transfer-encoding", "chunked");
        match request.target.as_str() {
            "/plain" => {
                vec![Step::Send(head(200, &[("content-type", "text/plain")])), Step::Flood(vec![b'a'; 64 * 1024])]
            }
            "/chunked" => vec![
                Step::Send(head(200, &[("content-type", "text/plain"), chunked])),
                Step::Flood([b"4000\r\n".as_slice(), &[b'a'; 0x4000], b"\r\n"].concat()),
            ],
            _ => vec![Step::Send(head(200, &[("content-type", "text/plain")])), Step::Flood(b"a".to_vec())],
        }
    })
    .await;
    let fetcher = fetcher(FetchSettings { body_bytes_max: 1024 * 1024, ..settings_for(&site) });
    for path in ["/plain", "/chunked"] {
        assert_eq!(fetch(&fetcher, &site.url(path)).await, Err(FetchError::BodyTooLarge(1024 * 1024)), "{path}");
    }
}

#[tokio::test]
async fn compressed_pages_are_decompressed() {
    let text = "words ".repeat(10_000);
    let (whole, halves) = (gzip(text.as_bytes()).await, [gzip(b"half ").await, gzip(b"half").await].concat());
    let site = Site::start(move |request, _| {
        let (encoding, body) = match request.target.as_str() {
            "/whole" => ("gzip", whole.clone()),
            "/halves" => ("X-Gzip", halves.clone()),
            "/identity" => ("identity", b"plain".to_vec()),
            "/cut" => ("gzip", whole[..whole.len() / 2].to_vec()),
            "/wrong" => ("gzip", b"these bytes are not what the header says".to_vec()),
            "/twice" => ("gzip, gzip", whole.clone()),
            _ => ("br", whole.clone()),
        };
        answer(200, &[("content-type", "text/plain"), ("content-encoding", encoding)], body)
    })
    .await;
    let fetcher = fetcher(settings_for(&site));
    assert_eq!(fetch(&fetcher, &site.url("/whole")).await.unwrap().body, text);
    assert_eq!(fetch(&fetcher, &site.url("/halves")).await.unwrap().body, "half half");
    assert_eq!(fetch(&fetcher, &site.url("/identity")).await.unwrap().body, "plain");
    assert_eq!(fetch(&fetcher, &site.url("/cut")).await, Err(FetchError::Undecodable));
    assert_eq!(fetch(&fetcher, &site.url("/wrong")).await, Err(FetchError::Undecodable));
    assert_eq!(fetch(&fetcher, &site.url("/twice")).await, Err(FetchError::UnsupportedEncoding));
    assert_eq!(fetch(&fetcher, &site.url("/brotli")).await, Err(FetchError::UnsupportedEncoding));
}

#[tokio::test]
async fn a_bomb_is_cut_while_it_goes_off() {
    // 64 MiB in one member, and an endless stream of members, which the client must cut.
    let member = gzip(&vec![0; 64 * 1024 * 1024]).await;
    assert!(member.len() < 100 * 1024);
    let site = Site::start(move |request, _| {
        let headers = head(200, &[("content-type", "text/html"), ("content-encoding", "gzip")]);
        let bomb = if request.target == "/one" { Step::Send(member.clone()) } else { Step::Flood(member.clone()) };
        vec![Step::Send(headers), bomb]
    })
    .await;
    let fetcher = fetcher(settings_for(&site));
    for path in ["/one", "/endless"] {
        assert_eq!(fetch(&fetcher, &site.url(path)).await, Err(FetchError::BodyTooLarge(10 * 1024 * 1024)), "{path}");
    }
}

#[tokio::test]
async fn floods_of_headers_are_cut() {
    let site = Site::start(|request, _| {
        let opening = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n".to_vec();
        match request.target.as_str() {
            "/endless" => vec![Step::Send(opening), Step::Flood(b"x-a: b\r\n".repeat(100))],
            "/endless-value" => vec![Step::Send([opening, b"x-a: ".to_vec()].concat()), Step::Flood(vec![b'a'; 4096])],
            "/endless-status" => vec![Step::Send(b"HTTP/1.1 200 ".to_vec()), Step::Flood(vec![b'a'; 4096])],
            "/many" => answer(200, &[("x-a", "b"); 200], ""),
            _ => answer(200, &[("content-type", "text/html"), ("x-a", &"b".repeat(70_000))], ""),
        }
    })
    .await;
    let fetcher = fetcher(settings_for(&site));
    for path in ["/endless", "/endless-value", "/endless-status", "/many", "/large"] {
        let error = fetch(&fetcher, &site.url(path)).await.unwrap_err();
        assert_eq!(error, FetchError::HeadTooLarge, "{path}");
        assert_eq!(error.fault(), Some(Fault::TooLarge));
    }
    assert_eq!(site.requests().len(), 5, "none of it is asked for again");
}
