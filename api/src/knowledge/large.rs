//! Bodies of batches, which may be larger than others and take longer.
//!
//! A body that is large, or whose `Content-Length` is, needs a place. The number of places bounds their memory, and each account may have
//! only some of them, so that slow senders delay only their own account.

use std::sync::Arc;
use std::time::Duration;

use actors::ingest::BatchSettings;
use app::config::BODY_BYTES_HARD_MAX;
use axum::body::{Body, HttpBody};
use axum::http::request::Parts;
use bytes::{Bytes, BytesMut};
use domain::ids::UserAccountId;

use super::places::{Full, Permit, Places};
use crate::body::{self, BodyReader, Limit};
use crate::error::ApiError;

/// Time after which another attempt is reasonable.
const SOON: Duration = Duration::from_secs(1);

/// A body, and the place that it takes while it is in memory.
#[derive(Debug)]
pub struct LargeBody {
    /// The whole body.
    pub bytes: Bytes,
    _place: Option<Permit>,
}

/// Reads the bodies of batches.
#[derive(Debug)]
pub struct LargeBodies {
    places: Places,
    limit: Limit,
    bodies: Arc<BodyReader>,
}

impl LargeBodies {
    /// `settings` is the section `[knowledge.batch]`.
    pub fn new(settings: &BatchSettings, bodies: Arc<BodyReader>) -> Self {
        let places = Places::new(settings.large_bodies_max, settings.large_bodies_per_account_max);
        let limit = Limit { bytes_max: settings.body_bytes_max, deadline: settings.body_deadline };
        Self { places, limit, bodies }
    }

    /// Reads the body of a batch of this account.
    pub async fn read(&self, parts: &Parts, body: Body, account: &UserAccountId) -> Result<LargeBody, ApiError> {
        let is_large = |bytes: usize| bytes > BODY_BYTES_HARD_MAX;
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        let is_possible = announced <= self.limit.bytes_max;
        let mut taken = if is_large(announced) && is_possible { Some(self.place(account)?) } else { None };
        let mut bytes = BytesMut::with_capacity(if is_possible { announced } else { 0 });
        body::read_pieces(parts, body, self.limit, self.bodies.slow(), |piece| {
            if taken.is_none() && is_large(bytes.len() + piece.len()) {
                taken = Some(self.place(account)?);
            }
            bytes.extend_from_slice(&piece);
            Ok(())
        })
        .await?;
        Ok(LargeBody { bytes: bytes.freeze(), _place: taken })
    }

    fn place(&self, account: &UserAccountId) -> Result<Permit, ApiError> {
        self.places.take(account).map_err(|full| match full {
            Full::Account => ApiError::rate_limited(SOON),
            Full::All => ApiError::unavailable("overloaded", SOON),
        })
    }
}
