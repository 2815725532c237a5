//! `/verify`: a person checks a proof file in the browser, and can copy the log key. The page sends no data to the server.

use app::services::activity::browse::Activity;
use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;

use crate::proof::{ProofView, command};
use crate::{PageLayout, PageResult, Site, Visitor, page};

#[derive(Template)]
#[template(path = "verify.html")]
struct VerifyPage {
    frame: PageLayout,
    keys: Vec<LogKey>,
    command: String,
    proof: ProofView,
}

/// A key of the log with its parts.
struct LogKey {
    origin: String,
    vkey: String,
    /// Whether it is the current signing key.
    is_active: bool,
}

/// `GET /verify`
pub async fn show(State(site): State<Site>, State(activity): State<Activity>, Visitor(visitor): Visitor) -> PageResult {
    let keys = activity.keys().await;
    let key = |(place, vkey): (usize, &String)| LogKey {
        origin: vkey.split_once('+').map_or(vkey.as_str(), |(origin, _)| origin).to_owned(),
        vkey: vkey.clone(),
        is_active: place == 0,
    };
    let proof = ProofView { address: String::new(), keys: String::new(), values: None, has_content: false };
    Ok(page(
        StatusCode::OK,
        &VerifyPage {
            frame: PageLayout::new(&site, visitor.as_ref()),
            command: command("proof.json", keys.first().map_or("KEY", String::as_str)),
            keys: keys.iter().enumerate().map(key).collect(),
            proof,
        },
    ))
}
