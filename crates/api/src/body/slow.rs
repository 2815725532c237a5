//! Bodies that are awaited: what did not come together with its head.
//!
//! 1. The request gives its place in the gate back: a client that sends slowly, or nothing, does not block others.
//! 2. It takes one of the places that its address has for such bodies, and its bytes count against the maximum for all such bodies.
//! 3. It has to come with a minimal rate, and whole within a deadline.
//! 4. When it is whole, the request takes a place in the gate again.

use std::sync::Arc;
use std::time::Duration;

use app::config::HttpSettings;
use axum::body::Body;
use axum::http::request::Parts;
use bytes::Bytes;
use domain::live::Live;
use http_body_util::{BodyExt, Limited};
use tokio::time::Instant;

use crate::addresses::{Addresses, Taken};
use crate::client::ClientAddress;
use crate::connection::Peer;
use crate::error::ApiError;
use crate::gate::Gate;
use crate::receiving::{MemoryShare, ReceiveMemory};

/// A body with a limit of bytes.
pub type Incoming = Limited<Body>;

/// The next frame of a body.
pub type Frame = Result<hyper::body::Frame<Bytes>, Box<dyn std::error::Error + Send + Sync>>;

/// Time after which another attempt is reasonable.
const SOON: Duration = Duration::from_secs(1);

/// The bodies that are awaited.
#[derive(Debug)]
pub struct SlowBodies {
    addresses: Addresses,
    memory: Arc<ReceiveMemory>,
    settings: Live<HttpSettings>,
    gate: Arc<Gate>,
}

impl SlowBodies {
    /// No body is awaited yet. Requests that wait for a body have no place in `gate`, and their bytes are in `memory`.
    pub fn new(
        settings: Live<HttpSettings>,
        per_address_max: impl Into<Live<usize>>,
        gate: Arc<Gate>,
        memory: Arc<ReceiveMemory>,
    ) -> Self {
        let addresses = Addresses::new(per_address_max, &settings.get().trusted_proxies);
        Self { addresses, memory, settings, gate }
    }

    /// Maximum time for a body, from the first read to its end (`http.body_deadline`).
    pub(super) fn body_deadline(&self) -> Duration {
        self.settings.get().body_deadline
    }
}

/// One awaited body.
#[derive(Debug)]
pub struct SlowBody<'b> {
    bodies: &'b SlowBodies,
    connection: Option<&'b Peer>,
    begun: Instant,
    deadline: Duration,
    share: MemoryShare,
    _place: Taken,
}

impl<'b> SlowBody<'b> {
    /// Starts to wait for the rest of the body of this request. `came` is the number of bytes that arrived with the head.
    pub fn begin(parts: &'b Parts, came: usize, deadline: Duration, bodies: &'b SlowBodies) -> Result<Self, ApiError> {
        let ClientAddress(address) = ClientAddress::of(parts, &bodies.settings.get().trusted_proxies);
        let place = bodies.addresses.take(address).ok_or_else(|| ApiError::unavailable("too_many_bodies", SOON))?;
        let connection = parts.extensions.get::<Peer>();
        let mut slow =
            Self { bodies, connection, begun: Instant::now(), deadline, share: bodies.memory.share(), _place: place };
        slow.count(came)?;
        if let Some(Peer(connection)) = connection {
            connection.step_out(&bodies.gate);
        }
        Ok(slow)
    }

    /// The next frame, if it comes in time.
    pub async fn frame(&self, body: &mut Incoming) -> Result<Option<Frame>, ApiError> {
        let next = tokio::time::timeout_at(self.until(), body.frame()).await;
        next.map_err(|_| ApiError::unavailable("body_too_slow", SOON))
    }

    /// The deadline of the next frame: every `body_rate_min` bytes extend it by a second.
    fn until(&self) -> Instant {
        let HttpSettings { body_rate_min, body_rate_after, .. } = **self.bodies.settings.get();
        let earned = match body_rate_min {
            0 => self.deadline,
            rate => Duration::from_secs((self.share.bytes() / rate) as u64),
        };
        self.begun + self.deadline.min(body_rate_after.saturating_add(earned))
    }

    /// Moves all deadlines by a time in which the server did not read.
    pub fn excuse(&mut self, time: Duration) {
        self.begun += time;
    }

    /// Counts bytes that came.
    pub fn count(&mut self, bytes: usize) -> Result<(), ApiError> {
        if self.share.grow(bytes) { Ok(()) } else { Err(ApiError::unavailable("overloaded", SOON)) }
    }

    /// The body is complete: the request takes a place in the gate again, or is refused.
    pub fn end(self) -> Result<(), ApiError> {
        match self.connection {
            Some(Peer(connection)) if !connection.step_in(&self.bodies.gate) => {
                Err(ApiError::unavailable("overloaded", SOON))
            }
            _ => Ok(()),
        }
    }
}
