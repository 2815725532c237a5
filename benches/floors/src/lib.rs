//! The floors that paths are compared with: frozen code that shares nothing with the server.
//!
//! A floor that ran the server's own parser or database driver would move with it, and a ratio to it would show nothing.
//! So this crate depends on no other crate of the workspace, and a test compares its source with recorded digests.
//!
//! | floor | what it is |
//! |---|---|
//! | [`bare`] | F1b: an axum handler that reads the request body and answers 202 with a small JSON body |
//! | [`hash`] | F2r: F1b, plus a `serde_json::Value` of the body and the SHA-256 of its text |
//! | [`disk`] | F3r: groups of 1.1 KB records written to a plain file, one `fdatasync` a group |
//! | [`postgres`] | the same records in a table of PostgreSQL with one index, one `COPY` a group, without a driver |

pub mod disk;
pub mod postgres;

use axum::Router;
use axum::body::Bytes;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

/// What F1b and F2r answer: as long as a receipt of the server.
const ACCEPTED: &str = r#"{"receipt_id":"019b76da-a800-7a67-8a14-94a3f41b0634"}"#;

/// F1b. A fallback takes every path, so that the floor can be sent the very bytes that a server is sent.
pub fn bare() -> Router {
    Router::new().fallback(async |_body: Bytes| accepted())
}

/// F2r. Answers 422 to a body that is not JSON.
pub fn hash() -> Router {
    Router::new().fallback(async |body: Bytes| {
        let Ok(value) = serde_json::from_slice::<serde_json::Value>(&body) else {
            return StatusCode::UNPROCESSABLE_ENTITY.into_response();
        };
        // The compiler must not leave out what nothing reads.
        std::hint::black_box(&value);
        std::hint::black_box(Sha256::digest(&body));
        accepted()
    })
}

fn accepted() -> Response {
    (StatusCode::ACCEPTED, [(header::CONTENT_TYPE, "application/json")], ACCEPTED).into_response()
}
