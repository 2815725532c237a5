//! Styles, scripts and the icon, shipped inside the binary.

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use domain::Digest;
use rust_embed::RustEmbed;

use crate::http::error::{ApiError, Code};
use crate::http::named::Named;

#[derive(RustEmbed)]
#[folder = "src/web/assets"]
struct Assets;

/// The path of an asset. It names the content, so that browsers may cache it indefinitely and still load every change.
pub(super) fn versioned(name: &str) -> String {
    let hash = Assets::get(name).map_or([0; 32], |file| file.metadata.sha256_hash());
    format!("/assets/{name}?v={:.8}", Digest::from(hash).to_string())
}

/// `GET /assets/{*path}`
pub(super) async fn serve(Named(path): Named) -> Result<Response, ApiError> {
    let file = Assets::get(&path).ok_or(Code::NotFound)?;
    let kind = file.metadata.mimetype().to_owned();
    let headers = [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "public, max-age=31536000, immutable".to_owned()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    Ok((headers, file.data).into_response())
}
