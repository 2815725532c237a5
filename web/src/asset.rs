//! Styles, scripts and the icon, compiled into the binary.

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use domain::Digest;

use api::error::{ApiError, Code};
use api::named::Named;

/// A file of `web/src/assets`.
struct Asset {
    name: &'static str,
    media_type: &'static str,
    content: &'static [u8],
}

const ASSETS: [Asset; 4] = [
    Asset { name: "icon.svg", media_type: "image/svg+xml", content: include_bytes!("assets/icon.svg") },
    Asset { name: "knowledge.js", media_type: "text/javascript", content: include_bytes!("assets/knowledge.js") },
    Asset { name: "page.js", media_type: "text/javascript", content: include_bytes!("assets/page.js") },
    Asset { name: "style.css", media_type: "text/css", content: include_bytes!("assets/style.css") },
];

fn get(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.name == name)
}

/// The path of an asset. It contains a hash of the content, so that browsers can cache it without limit and still see every change.
pub(super) fn versioned(name: &str) -> String {
    let hash = get(name).map_or(Digest::from([0; 32]), |asset| Digest::of(asset.content));
    format!("/assets/{name}?v={:.8}", hash.to_string())
}

/// `GET /assets/{*path}`
pub(super) async fn serve(Named(path): Named) -> Result<Response, ApiError> {
    let asset = get(&path).ok_or(Code::NotFound)?;
    let headers = [
        (CONTENT_TYPE, asset.media_type),
        (CACHE_CONTROL, "public, max-age=31536000, immutable"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Ok((headers, asset.content).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_is_served() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/web/assets");
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        assert_eq!(names, ASSETS.map(|asset| asset.name));
    }
}
