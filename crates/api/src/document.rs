//! Documents that are the same for all clients and change only with the configuration: guides and descriptions. Clients cache them.

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use domain::Digest;
use serde_json::Value;

/// A text with its entity tag, by which clients revalidate their copy (RFC 9110, section 8.8.3).
#[derive(Debug, Clone)]
pub struct Document {
    media_type: &'static str,
    body: Bytes,
    etag: String,
}

impl Document {
    /// A text of this media type.
    pub fn new(media_type: &'static str, text: impl Into<Bytes>) -> Self {
        let body = text.into();
        let etag = format!("\"{:.32}\"", Digest::of(&body).to_string());
        Self { media_type, body, etag }
    }

    /// A document of type `application/json`.
    pub fn json(value: &Value) -> Self {
        Self::new("application/json", value.to_string())
    }

    /// The response to a request with these headers: the text, or 304 if the client has it. Shared caches may store it.
    pub fn answer(&self, request: &HeaderMap) -> Response {
        self.cached(request, HeaderValue::from_static("public, max-age=300"))
    }

    /// The same for a document of one reader: shared caches may not store it, and the client revalidates it before each use.
    pub fn answer_private(&self, request: &HeaderMap) -> Response {
        self.cached(request, HeaderValue::from_static("private, no-cache"))
    }

    fn cached(&self, request: &HeaderMap, cache_control: HeaderValue) -> Response {
        let named = if self.is_held_by(request) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            let headers = [(CONTENT_TYPE, self.media_type), (X_CONTENT_TYPE_OPTIONS, "nosniff")];
            (headers, self.body.clone()).into_response()
        };
        let etag = HeaderValue::from_str(&self.etag).unwrap_or(HeaderValue::from_static("\"\""));
        ([(ETAG, etag), (CACHE_CONTROL, cache_control)], named).into_response()
    }

    /// `If-None-Match` compares weakly (RFC 9110, section 13.1.2).
    fn is_held_by(&self, request: &HeaderMap) -> bool {
        let lines = request.get_all(IF_NONE_MATCH).iter().filter_map(|line| line.to_str().ok());
        let mut tags = lines.flat_map(|line| line.split(',')).map(str::trim);
        tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == self.etag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_has_the_document_gets_304() {
        let document = Document::new("text/plain", "x");
        let status = |tags: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(IF_NONE_MATCH, tags.parse().unwrap());
            document.answer(&headers).status().as_u16()
        };
        let etag = document.etag.as_str();
        for held in [etag, "*", &format!("W/{etag}"), &format!("\"other\", {etag}")] {
            assert_eq!(status(held), 304, "{held}");
        }
        for other in ["", "\"other\"", etag.trim_matches('"')] {
            assert_eq!(status(other), 200, "{other}");
        }
        assert_ne!(Document::new("text/plain", "y").etag, document.etag);
    }
}
