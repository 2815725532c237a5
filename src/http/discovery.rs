//! What standard clients look for under `/.well-known`.

use axum::extract::State;
use axum::http::header::CACHE_CONTROL;
use axum::response::IntoResponse;

use super::error::Answer;
use crate::house::House;

/// `GET /.well-known/jwks.json`: the keys that sign identity assertions (RFC 7517). A key is published before it signs, so a copy that
/// is an hour old still verifies everything.
pub async fn jwks(State(house): State<House>) -> Answer {
    let keys = house.claims.keyring().current();
    Ok(([(CACHE_CONTROL, "public, max-age=3600")], axum::Json(keys.jwks())).into_response())
}
