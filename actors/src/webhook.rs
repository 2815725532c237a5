//! Sends notifications to the endpoints of accounts (`docs/decisions/0033-notifications.md`).
//!
//! 1. Each pass reads the endpoints with a due delivery. Accounts share the places fairly; each endpoint with a place gets a task, which
//!    leases the endpoint and sends one delivery at a time.
//! 2. A task sends deliveries until none is due, one fails, or its turn ends; then it releases the lease. A slow endpoint gets its next
//!    turn in the lane of slow ones, so slow endpoints delay only each other.
//! 3. A failed delivery is tried again with growing delays, and given up after some days. An endpoint that answers 410, or fails for days,
//!    is disabled.
//!
//! **If it crashes:** its tasks end, and the leases expire soon after; then a pass of any node continues. A delivery with an unrecorded
//! result is sent again with the same id.

mod sender;
mod settings;

use std::collections::HashMap;
use std::time::Duration;

use domain::clock::delta;
use domain::fair::{FairQueue, SlowTurns, Speed, Turn};
use domain::ids::{UserAccountId, WebhookId};
use domain::live::Live;
use domain::service_pause::ServicePart;
use domain::webhook::{DisabledWhy, delay_after};
use domain::{Clock, Rng, Timestamp};
use store::webhook::{AfterTry, DueDelivery, TryResult};
use store::{Store, StoreError};
use supervision::periodic::{Next, Pass, PassError};
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;
use tracing::Instrument as _;

use self::sender::Sent;
pub use self::sender::{EndpointRefusal, EndpointRules, WebhookSender};
pub use self::settings::WebhookSettings;
use crate::service_pause::ServicePauses;

/// Due endpoints that a pass considers.
const DUE_MAX: usize = 1000;

/// Tries of one notification: with the delays between them, about `give_up_after`.
const TRIES_MAX: u32 = 10;

/// Margin of the lease over the longest request.
const LEASE_MARGIN: Duration = Duration::from_secs(10);

/// Mean delay after the first try; the later ones are multiples of it.
const RETRY_AFTER_FIRST: Duration = Duration::from_secs(5);

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
    pub settings: Live<WebhookSettings>,
    /// Parts of the service that an operator has paused.
    pub pauses: ServicePauses,
}

/// The endpoints in progress. Their tasks end with the actor.
#[derive(Debug, Default)]
pub struct WebhookTurns {
    /// Each task returns the speed of its endpoint.
    tasks: JoinSet<Speed>,
    under_way: HashMap<Id, Turn<UserAccountId, WebhookId>>,
    /// The places; made by the first pass.
    queue: Option<FairQueue<UserAccountId, WebhookId>>,
    slow: SlowTurns<WebhookId>,
}

impl Pass for WebhookPass {
    type Memory = WebhookTurns;

    async fn run(&self, turns: &mut WebhookTurns) -> Result<Next, PassError> {
        domain::failpoint!("webhook.pass");
        let places = self.settings.get().places();
        let queue = turns.queue.get_or_insert_with(|| FairQueue::new(places));
        queue.set_limits(places);
        while let Some(ended) = turns.tasks.try_join_next_with_id() {
            let (task, speed) = match ended {
                Ok((task, speed)) => (task, speed),
                Err(error) => {
                    tracing::error!(error = domain::reasons(&error), "sending to an endpoint ended without a result");
                    (error.id(), Speed::Slow)
                }
            };
            if let Some(turn) = turns.under_way.remove(&task) {
                turns.slow.record(&turn.waiter, speed);
                queue.end_turn(&turn.party, turn.speed);
            }
        }
        if queue.taken() < places.places {
            for (id, account) in self.store.webhooks_due(self.clock.now(), DUE_MAX).await? {
                // A task that has just started has no lease yet.
                if !self.is_paused(&account) && turns.under_way.values().all(|turn| turn.waiter != id) {
                    queue.enter(&account, turns.slow.expected(&id), id)?;
                }
            }
            while let Some(turn) = queue.next_turn() {
                let (this, id) = (self.clone(), turn.waiter);
                let account = turn.party.clone();
                let task = turns.tasks.spawn(async move { this.turn_of(id, &account).await }.in_current_span());
                turns.under_way.insert(task.id(), turn);
            }
            // The next pass reads the endpoints without a place again.
            queue.withdraw_all();
        }
        metrics::gauge!("attache_webhooks_sending").set(u32::try_from(queue.taken()).unwrap_or(u32::MAX));
        Ok(Next::AfterPause)
    }
}

impl WebhookPass {
    fn is_paused(&self, account: &UserAccountId) -> bool {
        self.pauses.check_account(ServicePart::Webhooks, account).is_err()
    }

    /// Sends to an endpoint for one turn; returns its speed.
    async fn turn_of(&self, id: WebhookId, account: &UserAccountId) -> Speed {
        let mut slowest = Duration::ZERO;
        if let Err(error) = self.turn(id, account, &mut slowest).await {
            tracing::warn!(
                error = domain::reasons(&error),
                "the deliveries of an endpoint could not be read or written, and continue after its lease"
            );
        }
        if slowest > self.settings.get().slow_after { Speed::Slow } else { Speed::Quick }
    }

    async fn turn(&self, id: WebhookId, account: &UserAccountId, slowest: &mut Duration) -> Result<(), StoreError> {
        let Self { store, clock, .. } = self;
        let (turn_start, now) = (Instant::now(), clock.now());
        let lease = self.rng.uuid_v7(now);
        let timeout = self.settings.get().timeout;
        if !store.webhook_lease(id, lease, now, lease_end(now, timeout)).await? {
            return Ok(());
        }
        while turn_start.elapsed() < self.settings.get().turn && !self.is_paused(account) {
            let (now, timeout) = (clock.now(), self.settings.get().timeout);
            let Some(due) = store.webhook_try_begin(id, lease, now, lease_end(now, timeout)).await? else { break };
            let request_start = Instant::now();
            let sent = self.sender.send(&due, timeout, clock).await;
            *slowest = request_start.elapsed().max(*slowest);
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
        let settings = self.settings.get();
        if due.failing_since.is_some_and(|since| now - since >= delta(settings.disable_after)) {
            return AfterTry::Disabled(DisabledWhy::Failing);
        }
        // ± 20 %, so that deliveries that failed together are spread.
        let own = delay_after(due.tries, RETRY_AFTER_FIRST).mul_f64(0.8 + 0.4 * self.rng.fraction());
        let again_at = now + delta(own.max(requested));
        if due.tries >= TRIES_MAX || again_at - due.created_at > delta(settings.give_up_after) {
            AfterTry::GivenUp
        } else {
            AfterTry::Again(again_at)
        }
    }
}

/// The end of a lease that covers a request with this timeout.
fn lease_end(now: Timestamp, timeout: Duration) -> Timestamp {
    now + delta(timeout + LEASE_MARGIN)
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
