//! Bodies of batches, which may be larger than others and take longer (`docs/decisions/0034-fair-shares.md`).
//!
//! A body with a large size or `Content-Length` needs a place while it is read and parsed. The number of places limits the memory.
//! Accounts wait for places and get them in turn. A turn ends when the body is parsed, or after a time if others wait: a slow sender then
//! sends the body again.

use std::sync::Arc;
use std::time::Duration;

use actors::ingest::BatchSettings;
use app::config::BODY_BYTES_HARD_MAX;
use axum::body::{Body, HttpBody};
use axum::http::request::Parts;
use bytes::{Bytes, BytesMut};
use domain::fair::{FairLimits, FairRefusal};
use domain::ids::UserAccountId;
use domain::live::Live;
use extract::fair::{FairPlace, FairPlaces};
use tokio::sync::SetOnce;

use crate::body::{BodyPieces, BodyReader, Limit};
use crate::error::ApiError;

/// `Retry-After` when no place is free.
const SOON: Duration = Duration::from_secs(1);

/// A body, and the place that it takes while it is in memory.
#[derive(Debug)]
pub struct LargeBody {
    /// The whole body.
    pub bytes: Bytes,
    _place: Option<FairPlace>,
}

/// Reads the bodies of batches.
#[derive(Debug)]
pub struct LargeBodies {
    places: FairPlaces,
    settings: Live<BatchSettings>,
    bodies: Arc<BodyReader>,
}

impl LargeBodies {
    /// `settings` is the section `[knowledge.batch]`.
    pub fn new(settings: Live<BatchSettings>, bodies: Arc<BodyReader>) -> Self {
        let turn = settings.get().large_bodies_turn;
        let places = FairPlaces::timed(limits(&settings.get()), Duration::MAX, turn);
        Self { places, settings, bodies }
    }

    /// Follows changed settings: requests that wait get the places that are free now.
    pub fn retune(&self, settings: &BatchSettings) {
        self.places.retune(limits(settings), settings.large_bodies_turn);
    }

    /// Reads the body of a batch of this account.
    pub async fn read(&self, parts: &Parts, body: Body, account: &UserAccountId) -> Result<LargeBody, ApiError> {
        let place: SetOnce<FairPlace> = SetOnce::new();
        let overdue = async { place.wait().await.overdue().await };
        let bytes = tokio::select! {
            bytes = self.whole(parts, body, account, &place) => bytes?,
            () = overdue => return Err(ApiError::unavailable("overloaded", SOON)),
        };
        Ok(LargeBody { bytes, _place: place.into_inner() })
    }

    async fn whole(
        &self,
        parts: &Parts,
        body: Body,
        account: &UserAccountId,
        place: &SetOnce<FairPlace>,
    ) -> Result<Bytes, ApiError> {
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        let limit = {
            let settings = self.settings.get();
            Limit { bytes_max: settings.body_bytes_max, deadline: settings.body_deadline }
        };
        let mut pieces = BodyPieces::new(parts, body, limit, self.bodies.slow())?;
        let mut bytes = BytesMut::new();
        let mut next = Bytes::new();
        loop {
            if announced.max(bytes.len() + next.len()) > BODY_BYTES_HARD_MAX && place.get().is_none() {
                // Fails only if a place is already set.
                let _ = place.set(pieces.meanwhile(self.place(account)).await??);
            }
            if bytes.is_empty() {
                bytes.reserve(announced);
            }
            bytes.extend_from_slice(&next);
            match pieces.next().await? {
                Some(piece) => next = piece,
                None => return Ok(bytes.freeze()),
            }
        }
    }

    async fn place(&self, account: &UserAccountId) -> Result<FairPlace, ApiError> {
        let wait = self.settings.get().large_bodies_wait;
        match tokio::time::timeout(wait, self.places.acquire(account)).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(FairRefusal::Party)) => Err(ApiError::rate_limited(SOON)),
            Ok(Err(FairRefusal::All)) | Err(_) => Err(ApiError::unavailable("overloaded", SOON)),
        }
    }
}

/// The places of accounts, and the requests that wait for them.
fn limits(settings: &BatchSettings) -> FairLimits {
    FairLimits {
        waiting_max: settings.large_bodies_waiting_max,
        waiting_per_party_max: settings.large_bodies_per_account_max,
        ..FairLimits::new(settings.large_bodies_max, settings.large_bodies_per_account_max)
    }
}
