//! Bodies of batches, which may be larger than others and take longer.
//!
//! One that turns out to be large, or says so beforehand, needs a place. There are so few that all of them fit into memory, and one account
//! cannot have them all: whoever sends slowly is in nobody's way but their own.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::request::Parts;
use bytes::{Bytes, BytesMut};
use domain::ids::UserAccountId;

use super::places::{Full, StreamPermit};
use crate::app::App;
use crate::http::BODY_BYTES_HARD_MAX;
use crate::http::body::{self, Limit};
use crate::http::error::ApiError;

/// When to come back for a place.
const SOON: Duration = Duration::from_secs(1);

/// A body, and the place that it takes for as long as it is in memory.
#[derive(Debug)]
pub(crate) struct LargeBody {
    pub bytes: Bytes,
    _place: Option<StreamPermit>,
}

/// Reads the body of a batch of this account.
pub(crate) async fn large_body(
    parts: &Parts,
    body: Body,
    account: &UserAccountId,
    app: &App,
) -> Result<LargeBody, ApiError> {
    let settings = &app.settings.knowledge.batch;
    let limit = Limit { bytes_max: settings.body_bytes_max, deadline: settings.body_deadline };
    let is_large = |bytes: usize| bytes > BODY_BYTES_HARD_MAX;
    let says = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let is_possible = says <= limit.bytes_max;
    let mut taken = if is_large(says) && is_possible { Some(place(app, account)?) } else { None };
    let mut bytes = BytesMut::with_capacity(if is_possible { says } else { 0 });
    body::read_pieces(parts, body, limit, &app.slow_bodies, |piece| {
        if taken.is_none() && is_large(bytes.len() + piece.len()) {
            taken = Some(place(app, account)?);
        }
        bytes.extend_from_slice(&piece);
        Ok(())
    })
    .await?;
    Ok(LargeBody { bytes: bytes.freeze(), _place: taken })
}

fn place(app: &App, account: &UserAccountId) -> Result<StreamPermit, ApiError> {
    app.large_bodies.take(account).map_err(|full| match full {
        Full::Account => ApiError::rate_limited(SOON),
        Full::All => ApiError::unavailable("overloaded", SOON),
    })
}
