//! Bodies of batches, which may be larger than others and take longer.
//!
//! One that turns out to be large, or says so beforehand, needs a place. There are so few that all of them fit into memory, and one account
//! cannot have them all: whoever sends slowly is in nobody's way but their own.

use std::time::Duration;

use actors::ingest::BatchSettings;
use axum::body::{Body, HttpBody};
use axum::http::request::Parts;
use bytes::{Bytes, BytesMut};
use dashmap::DashMap;
use domain::ids::UserAccountId;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::house::House;
use crate::http::BODY_BYTES_HARD_MAX;
use crate::http::body::{self, Limit};
use crate::http::error::ApiError;

/// When to come back for a place.
const SOON: Duration = Duration::from_secs(1);

/// The places of large bodies.
#[derive(Debug)]
pub struct LargeBodies {
    free: Semaphore,
    per_account_max: usize,
    /// Places that an account has; one that has none is not in here.
    taken: DashMap<UserAccountId, usize>,
}

/// One of the places; dropping it gives it back.
#[derive(Debug)]
struct Place<'l> {
    bodies: &'l LargeBodies,
    account: UserAccountId,
    _permit: SemaphorePermit<'l>,
}

/// A body, and the place that it takes for as long as it is in memory.
#[derive(Debug)]
pub(crate) struct LargeBody<'l> {
    pub bytes: Bytes,
    _place: Option<Place<'l>>,
}

/// Reads the body of a batch of this account.
pub(crate) async fn large_body<'h>(
    parts: &Parts,
    body: Body,
    account: &UserAccountId,
    house: &'h House,
) -> Result<LargeBody<'h>, ApiError> {
    let settings = &house.settings.knowledge.batch;
    let bodies = &house.large_bodies;
    let limit = Limit { bytes_max: settings.body_bytes_max, deadline: settings.body_deadline };
    let is_large = |bytes: usize| bytes > BODY_BYTES_HARD_MAX;
    let says = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let is_possible = says <= limit.bytes_max;
    let mut place = if is_large(says) && is_possible { Some(bodies.place(account)?) } else { None };
    let mut bytes = BytesMut::with_capacity(if is_possible { says } else { 0 });
    body::read_pieces(parts, body, limit, &house.slow_bodies, |piece| {
        if place.is_none() && is_large(bytes.len() + piece.len()) {
            place = Some(bodies.place(account)?);
        }
        bytes.extend_from_slice(&piece);
        Ok(())
    })
    .await?;
    Ok(LargeBody { bytes: bytes.freeze(), _place: place })
}

impl LargeBodies {
    /// None of them taken.
    pub fn new(settings: &BatchSettings) -> Self {
        let free = Semaphore::new(settings.large_bodies_max.min(Semaphore::MAX_PERMITS));
        Self { free, per_account_max: settings.large_bodies_per_account_max, taken: DashMap::new() }
    }

    fn place(&self, account: &UserAccountId) -> Result<Place<'_>, ApiError> {
        // The account's own bound first: that all places are taken is no news for whoever has some of them.
        let mut taken = self.taken.entry(account.clone()).or_default();
        let permit = if *taken < self.per_account_max {
            self.free.try_acquire().map_err(|_| ApiError::unavailable("overloaded", SOON))
        } else {
            Err(ApiError::rate_limited(SOON))
        };
        if permit.is_ok() {
            *taken += 1;
        }
        drop(taken);
        self.forget_if_none(account);
        Ok(Place { bodies: self, account: account.clone(), _permit: permit? })
    }

    fn forget_if_none(&self, account: &UserAccountId) {
        self.taken.remove_if(account, |_, taken| *taken == 0);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(mut taken) = self.bodies.taken.get_mut(&self.account) {
            *taken = taken.saturating_sub(1);
        }
        self.bodies.forget_if_none(&self.account);
    }
}
