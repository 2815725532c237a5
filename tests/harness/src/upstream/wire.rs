//! Reads a request from the socket, and refuses input that a plain client has no reason to send.

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

const HEADERS_MAX: usize = 64;
const HEAD_BYTES_MAX: usize = 64 * 1024;
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A request as received.
#[derive(Debug, Clone)]
pub struct Request {
    /// `GET`, `POST` …
    pub method: String,
    /// Path and query, undecoded.
    pub target: String,
    /// Names in lower case.
    pub headers: HeaderMap,
    /// The exact bytes.
    pub body: Bytes,
}

impl Request {
    /// The value of a header, if it is there and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Why a request could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed(&'static str);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "malformed request: {}", self.0)
    }
}

/// Reads the next request; `None` if the connection ends, between requests or within one: clients and the network may end it.
pub(super) async fn read(stream: &mut TcpStream, unread: &mut BytesMut) -> Result<Option<Request>, Malformed> {
    let (mut request, body_bytes) = loop {
        if let Some(head) = parse_head(unread)? {
            break head;
        }
        if unread.len() > HEAD_BYTES_MAX {
            return Err(Malformed("a head without end"));
        }
        if !stream.read_buf(unread).await.is_ok_and(|count| count > 0) {
            return Ok(None);
        }
    };
    while unread.len() < body_bytes {
        if !stream.read_buf(unread).await.is_ok_and(|count| count > 0) {
            return Ok(None);
        }
    }
    request.body = unread.split_to(body_bytes).freeze();
    Ok(Some(request))
}

/// Removes the head from the front of `bytes` once it is complete; returns it with the length of the body.
fn parse_head(bytes: &mut BytesMut) -> Result<Option<(Request, usize)>, Malformed> {
    let mut fields = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut fields);
    let length = match head.parse(bytes).map_err(|_| Malformed("not HTTP"))? {
        httparse::Status::Complete(length) => length,
        httparse::Status::Partial => return Ok(None),
    };
    if head.version != Some(1) {
        return Err(Malformed("not HTTP/1.1"));
    }
    let mut headers = HeaderMap::new();
    for field in head.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| Malformed("a header's name"))?;
        let value = HeaderValue::from_bytes(field.value).map_err(|_| Malformed("a header's value"))?;
        if headers.insert(name, value).is_some() {
            return Err(Malformed("a header sent twice"));
        }
    }
    if headers.contains_key("transfer-encoding") {
        return Err(Malformed("a body of unsaid length: the sender's exact bytes have one"));
    }
    let body_bytes = match headers.get("content-length") {
        None => 0,
        Some(value) => value.to_str().ok().and_then(|text| text.parse().ok()).ok_or(Malformed("a content-length"))?,
    };
    if body_bytes > BODY_BYTES_MAX {
        return Err(Malformed("an immense body"));
    }
    let (method, target) = (head.method.unwrap_or_default().to_owned(), head.path.unwrap_or_default().to_owned());
    bytes.advance(length);
    Ok(Some((Request { method, target, headers, body: Bytes::new() }, body_bytes)))
}
