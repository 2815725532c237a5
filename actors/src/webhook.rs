//! Sends notifications to the endpoints of accounts (`docs/decisions/0095-webhooks.md`).
//!
//! 1. Each pass leases endpoints with a delivery that is due, and starts a task for each: one delivery at a time, so a slow endpoint delays
//!    only its own.
//! 2. A task sends deliveries until none is due, one fails, or it has sent a number of them; then it gives the lease back.
//! 3. A failed delivery is tried again with growing delays, and given up after some days. An endpoint that answers 410, or fails for
//!    days, is disabled.
//!
//! **If it crashes:** its tasks end, and the leases soon after; then a pass of any node continues. A delivery whose result was not written is
//! sent again under the same id.

mod sender;
mod settings;

use std::time::Duration;

use domain::clock::delta;
use domain::ids::WebhookId;
use domain::webhook::{DisabledWhy, delay_after};
use domain::{Clock, Rng, Timestamp};
use store::webhook::{AfterTry, DueDelivery, TryResult};
use store::{Store, StoreError};
use supervision::periodic::{Next, Pass, PassError};
use tokio::task::JoinSet;
use tracing::Instrument as _;
use uuid::Uuid;

use self::sender::Sent;
pub use self::sender::{EndpointRefusal, EndpointRules, WebhookSender};
pub use self::settings::WebhookSettings;

/// Deliveries of one turn of an endpoint; then others get its place.
const TURN_MAX: usize = 20;

/// A lease lasts for the longest request and this.
const LEASE_MARGIN: Duration = Duration::from_secs(10);

/// Longest delay that `Retry-After` may request.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(24);

/// Sends the due notifications.
#[derive(Debug, Clone)]
pub struct WebhookPass {
    /// The database of endpoints and notifications.
    pub store: Store,
    /// The clock of the server.
    pub clock: Clock,
    /// The random generator of the server.
    pub rng: Rng,
    /// Sends the requests.
    pub sender: WebhookSender,
    /// Limits and delays.
    pub settings: WebhookSettings,
}

/// The endpoints that are being sent to. They end with the actor.
#[derive(Debug, Default)]
pub struct Turns(JoinSet<()>);

impl Pass for WebhookPass {
    type Memory = Turns;

    async fn run(&self, turns: &mut Turns) -> Result<Next, PassError> {
        domain::failpoint!("webhook.pass");
        while let Some(ended) = turns.0.try_join_next() {
            if let Err(error) = ended {
                tracing::error!(error = domain::reasons(&error), "sending to an endpoint ended without a result");
            }
        }
        let sending = u32::try_from(turns.0.len()).unwrap_or(u32::MAX);
        metrics::gauge!("attache_webhooks_sending").set(sending);
        let places = self.settings.in_flight_max.saturating_sub(turns.0.len());
        if places == 0 {
            return Ok(Next::AfterPause);
        }
        let now = self.clock.now();
        let lease = self.rng.uuid_v7(now);
        for id in self.store.webhooks_lease_due(lease, now, self.lease_end(now), places).await? {
            let this = self.clone();
            let turn = async move {
                if let Err(error) = this.turn(id, lease).await {
                    tracing::warn!(
                        error = domain::reasons(&error),
                        "the deliveries of an endpoint could not be read or written, and continue after its lease"
                    );
                }
            };
            turns.0.spawn(turn.in_current_span());
        }
        Ok(Next::AfterPause)
    }
}

impl WebhookPass {
    fn lease_end(&self, now: Timestamp) -> Timestamp {
        now + delta(self.settings.timeout + LEASE_MARGIN)
    }

    async fn turn(&self, id: WebhookId, lease: Uuid) -> Result<(), StoreError> {
        let Self { store, clock, .. } = self;
        for _ in 0..TURN_MAX {
            let now = clock.now();
            let Some(due) = store.webhook_try_begin(id, lease, now, self.lease_end(now)).await? else { break };
            let sent = self.sender.send(&due, clock).await;
            domain::failpoint!("webhook.sent");
            let now = clock.now();
            let then = self.judge(&due, &sent, now);
            let (status, error) = match &sent {
                Sent::Answered { status, .. } => (Some(*status), refusal(*status)),
                Sent::Failed(why) => (None, Some(why.clone())),
            };
            count(then);
            if let AfterTry::Disabled(why) = then {
                tracing::warn!(webhook.id = %id, reason = %why, "an endpoint of an account is disabled");
            }
            let result = TryResult { status, error };
            store.webhook_try_end(&due, lease, result, then, now).await?;
            if then != AfterTry::Delivered {
                break;
            }
        }
        store.webhook_lease_end(id, lease, clock.now()).await
    }

    /// Decides about the next step after a request.
    fn judge(&self, due: &DueDelivery, sent: &Sent, now: Timestamp) -> AfterTry {
        let requested = match sent {
            Sent::Answered { status: 200..=299, .. } => return AfterTry::Delivered,
            Sent::Answered { status: 410, .. } => return AfterTry::Disabled(DisabledWhy::Gone),
            Sent::Answered { retry_after, .. } => retry_after.unwrap_or_default().min(RETRY_AFTER_MAX),
            Sent::Failed(_) => Duration::ZERO,
        };
        let settings = &self.settings;
        if due.failing_since.is_some_and(|since| now - since >= delta(settings.disable_after)) {
            return AfterTry::Disabled(DisabledWhy::Failing);
        }
        // ± 20 %, so that deliveries that failed together are not sent again together.
        let own = delay_after(due.tries, settings.retry_after_first).mul_f64(0.8 + 0.4 * self.rng.fraction());
        let again_at = now + delta(own.max(requested));
        if due.tries >= settings.tries_max || again_at - due.created_at > delta(settings.give_up_after) {
            AfterTry::GivenUp
        } else {
            AfterTry::Again(again_at)
        }
    }
}

/// Why a status is no success, for the owner.
fn refusal(status: u16) -> Option<String> {
    match status {
        200..=299 => None,
        300..=399 => Some(format!("it redirected with status {status}, which is not followed")),
        _ => Some(format!("it answered with status {status}")),
    }
}

fn count(then: AfterTry) {
    let outcome = match then {
        AfterTry::Delivered => "delivered",
        AfterTry::Again(_) => "failed",
        AfterTry::GivenUp => "given_up",
        AfterTry::Disabled(_) => "disabled",
    };
    metrics::counter!("attache_webhooks_total", "outcome" => outcome).increment(1);
}
