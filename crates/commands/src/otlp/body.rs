//! The body of an export: its encoding and its decompression.

use std::io::Read;

use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use hooks::otlp::SpanEncoding;

/// Maximum size of a body in bytes, both compressed and decompressed.
pub const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Why a request is not handled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The status of the response.
    pub status: StatusCode,
    /// What happened, why, and the remedy.
    pub message: String,
}

impl Refusal {
    /// A refusal with this status.
    pub fn of(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// A body beyond [`BODY_BYTES_MAX`].
    pub fn too_large() -> Self {
        Self::of(
            StatusCode::PAYLOAD_TOO_LARGE,
            "the export is larger than 8 MiB, before or after decompression: lower OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
        )
    }
}

/// The encoding that a request names.
pub fn encoding(headers: &HeaderMap) -> Result<SpanEncoding, Refusal> {
    let named = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = named.split(';').next().unwrap_or_default().trim();
    if media_type.eq_ignore_ascii_case("application/x-protobuf") {
        Ok(SpanEncoding::Protobuf)
    } else if media_type.eq_ignore_ascii_case("application/json") {
        Ok(SpanEncoding::Json)
    } else {
        Err(Refusal::of(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            format!(
                "the content type {media_type:?} is not read: export with OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf or http/json"
            ),
        ))
    }
}

/// The media type of an encoding.
pub fn media_type(encoding: SpanEncoding) -> &'static str {
    match encoding {
        SpanEncoding::Protobuf => "application/x-protobuf",
        SpanEncoding::Json => "application/json",
    }
}

/// Whether a body is compressed.
pub fn is_compressed(headers: &HeaderMap) -> Result<bool, Refusal> {
    let named = headers.get(CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("?").trim().to_ascii_lowercase());
    match named.as_deref() {
        None | Some("" | "identity") => Ok(false),
        Some("gzip") => Ok(true),
        Some(other) => Err(Refusal::of(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            format!("the content encoding {other:?} is not read: set OTEL_EXPORTER_OTLP_COMPRESSION to gzip or none"),
        )),
    }
}

/// Decompresses a body, up to the limit.
pub fn decompressed(body: &Bytes) -> Result<Bytes, Refusal> {
    let mut bytes = Vec::new();
    let mut reader = MultiGzDecoder::new(body.as_ref()).take(BODY_BYTES_MAX as u64 + 1);
    reader
        .read_to_end(&mut bytes)
        .map_err(|error| Refusal::of(StatusCode::BAD_REQUEST, format!("the body is no gzip: {error}")))?;
    if bytes.len() > BODY_BYTES_MAX { Err(Refusal::too_large()) } else { Ok(bytes.into()) }
}
