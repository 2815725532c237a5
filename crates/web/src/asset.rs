//! Styles, scripts and the icon, compiled into the binary.

use std::sync::LazyLock;

use api::error::{ApiError, Code};
use api::named::Named;
use axum::http::HeaderMap;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use domain::Digest;

use super::compressed::Compressed;

/// A file of `crates/web/src/assets`.
struct Asset {
    name: &'static str,
    media_type: &'static str,
    content: &'static [u8],
}

const ASSETS: [Asset; 11] = [
    Asset { name: "activity.js", media_type: "text/javascript", content: include_bytes!("assets/activity.js") },
    Asset { name: "consent.js", media_type: "text/javascript", content: include_bytes!("assets/consent.js") },
    Asset { name: "docs.js", media_type: "text/javascript", content: include_bytes!("assets/docs.js") },
    Asset {
        name: "favicon.ico",
        media_type: "image/vnd.microsoft.icon",
        content: include_bytes!("assets/favicon.ico"),
    },
    Asset { name: "icon.svg", media_type: "image/svg+xml", content: include_bytes!("assets/icon.svg") },
    Asset { name: "knowledge.js", media_type: "text/javascript", content: include_bytes!("assets/knowledge.js") },
    Asset { name: "page.js", media_type: "text/javascript", content: include_bytes!("assets/page.js") },
    Asset { name: "proof.js", media_type: "text/javascript", content: include_bytes!("assets/proof.js") },
    Asset { name: "receipt.js", media_type: "text/javascript", content: include_bytes!("assets/receipt.js") },
    Asset { name: "style.css", media_type: "text/css", content: include_bytes!("assets/style.css") },
    Asset { name: "touch-icon.png", media_type: "image/png", content: include_bytes!("assets/touch-icon.png") },
];

/// An asset as it is served.
struct Prepared {
    asset: &'static Asset,
    /// Prefix of the SHA-256 of the content.
    version: String,
    body: Compressed,
}

/// All assets, prepared by the first request.
static PREPARED: LazyLock<Vec<Prepared>> = LazyLock::new(|| {
    let prepare = |asset: &'static Asset| Prepared {
        asset,
        version: format!("{:.8}", Digest::of(asset.content).to_string()),
        body: Compressed::new(asset.content),
    };
    ASSETS.iter().map(prepare).collect()
});

fn get(name: &str) -> Option<&'static Prepared> {
    PREPARED.iter().find(|prepared| prepared.asset.name == name)
}

/// The path of an asset. It contains a hash of the content, so that browsers can cache it indefinitely and still load every change.
pub fn versioned(name: &str) -> String {
    let version = get(name).map_or("", |prepared| prepared.version.as_str());
    format!("/assets/{name}?v={version}")
}

/// An asset at a fixed path, which clients may cache for a day.
pub(super) fn at_fixed_path(name: &str) -> Result<Response, ApiError> {
    let prepared = get(name).ok_or(Code::NotFound)?;
    let headers = [
        (CONTENT_TYPE, prepared.asset.media_type),
        (CACHE_CONTROL, "public, max-age=86400"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Ok((headers, prepared.asset.content).into_response())
}

/// `GET /assets/{*path}`
pub(super) async fn serve(Named(path): Named, request: HeaderMap) -> Result<Response, ApiError> {
    file(&path, &request)
}

/// The response with an asset, for a listener that shares it; compressed if the client accepts that.
pub fn file(name: &str, request: &HeaderMap) -> Result<Response, ApiError> {
    let prepared = get(name).ok_or(Code::NotFound)?;
    let headers = [
        (CONTENT_TYPE, prepared.asset.media_type),
        (CACHE_CONTROL, "public, max-age=31536000, immutable"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Ok((headers, prepared.body.answer(request)).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_is_served() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/assets");
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        assert_eq!(names, ASSETS.map(|asset| asset.name));
    }
}
