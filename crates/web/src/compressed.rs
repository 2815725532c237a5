//! Bodies that are compressed once and sent many times: styles, scripts, and the description of the API. A page that contains secrets and
//! input of another party must not be compressed, since its length reveals whether they are similar; these bodies contain neither.

use std::io::Write as _;

use axum::body::Body;
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, VARY};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

/// A body in two forms. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Compressed {
    plain: Bytes,
    /// With gzip, if that is shorter.
    gzip: Option<Bytes>,
}

impl Compressed {
    /// Compresses a body.
    pub fn new(plain: impl Into<Bytes>) -> Self {
        let plain = plain.into();
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        let gzip = encoder.write_all(&plain).and_then(|()| encoder.finish()).ok();
        let gzip = gzip.filter(|gzip| gzip.len() < plain.len()).map(Bytes::from);
        Self { plain, gzip }
    }

    /// The body in a form that the client accepts.
    pub fn answer(&self, request: &HeaderMap) -> Response {
        let mut response = match &self.gzip {
            Some(gzip) if accepts_gzip(request) => {
                let mut response = Response::new(Body::from(gzip.clone()));
                response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                response
            }
            _ => Response::new(Body::from(self.plain.clone())),
        };
        response.headers_mut().insert(VARY, HeaderValue::from_static("accept-encoding"));
        response
    }
}

/// Whether the client accepts gzip, with a weight above zero (RFC 9110, section 12.5.3).
fn accepts_gzip(request: &HeaderMap) -> bool {
    let lines = request.get_all(ACCEPT_ENCODING).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        is_gzip && !parts.any(|weight| weight.strip_prefix("q=").is_some_and(|weight| weight.parse() == Ok(0.0)))
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn gzip_is_for_clients_that_name_it_and_for_bodies_that_it_shortens() {
        let body = Compressed::new("a".repeat(1000).into_bytes());
        let encoding = |body: &Compressed, accept: &'static str| {
            let request = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(accept))]);
            body.answer(&request).headers().get(CONTENT_ENCODING).cloned()
        };
        for accept in ["gzip", "br, GZIP;q=0.5", "gzip, deflate, br, zstd"] {
            assert_eq!(encoding(&body, accept), Some(HeaderValue::from_static("gzip")), "{accept}");
        }
        for accept in ["", "identity", "gzip;q=0", "gzip; q=0.0", "br", "xgzip"] {
            assert_eq!(encoding(&body, accept), None, "{accept}");
        }
        assert_eq!(encoding(&Compressed::new("a"), "gzip"), None);
        let mut text = String::new();
        GzDecoder::new(body.gzip.unwrap().as_ref()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "a".repeat(1000));
    }
}
