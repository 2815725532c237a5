//! Sends the service's own reports: every change of consent, on a separate chain for each identity
//! (`docs/decisions/0015-reports-of-consent.md`), and every act of an operator, on the chain of the installation
//! (`docs/decisions/0038-acts-of-operators.md`).
//!
//! 1. The change and its event are written in one transaction (`store::consent`, `store::act`), so that both exist or neither.
//! 2. The request for a change of consent waits until the event is forwarded, or returns that it is not forwarded yet.
//! 3. Events that could not be forwarded are tried again every few seconds, in the order of their chain.
//! 4. If the statistics service has another head for the chain, because it lost events, the chain gets a new epoch.
//!
//! The service answers a repeated event with the same receipt, so two nodes may send at once.
//!
//! **If it crashes:** the next pass continues with the events that wait in the store.

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use domain::envelope::Sealed;
use domain::ids::UserCuid;
use domain::{Clock, Rng};
use serde::Deserialize;
use statistics::contract::{Passed, RecordScope, Submission, SubmitOutcome};
use store::outbox::{OutboxEvent, ServiceChain};
use store::{Store, StoreError};
use supervision::periodic::{Next, Pass, PassError};
use supervision::{Unavailable, detached};

use crate::upstream::Upstream;

/// Maximum number of events of one chain that are read at once.
const EVENTS_MAX: usize = 100;

/// Age of an act of an operator that was not forwarded, above which operators are warned.
pub const ACT_WAIT_MAX: TimeDelta = TimeDelta::minutes(1);

/// Maximum number of identities of one pass.
const IDENTITIES_MAX: usize = 100;

/// Why an event stays in the outbox for now.
#[derive(Debug, thiserror::Error)]
pub enum NotForwarded {
    /// The main database could not be read or written.
    #[error("the store failed")]
    Store(#[from] StoreError),
    /// The actor that appends to the log.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The statistics service did not accept an event.
    #[error("the statistics service: {0}")]
    Upstream(String),
    /// The deadline passed.
    #[error("it takes too long")]
    TooLate,
}

/// The way from the outbox to the statistics service. Clones share it.
#[derive(Debug, Clone)]
pub struct Outbox {
    /// The database of waiting events.
    pub store: Store,
    /// The statistics service that records events.
    pub upstream: Upstream,
    /// The clock of the server.
    pub clock: Clock,
    /// The random generator of the server.
    pub rng: Rng,
}

impl Outbox {
    /// Forwards the waiting events of these identities until the caller's deadline; an attempt in progress continues without the caller.
    #[boxed]
    pub async fn flush(&self, identities: Vec<UserCuid>, time_limit: Duration) -> Result<(), NotForwarded> {
        let this = Arc::new(self.clone());
        let work = detached(async move {
            for identity in identities {
                this.deliver(&ServiceChain::Identity(identity)).await?;
            }
            Ok(())
        });
        tokio::time::timeout(time_limit, work).await.map_err(|_elapsed| NotForwarded::TooLate)??
    }

    async fn deliver(&self, chain: &ServiceChain) -> Result<(), NotForwarded> {
        let mut may_rechain = true;
        loop {
            let waiting = self.store.outbox_of(chain, EVENTS_MAX).await?;
            let whole = waiting.len() < EVENTS_MAX;
            let mut refused = None;
            for event in waiting {
                domain::failpoint!("outbox.before");
                let sealed = open(&event)?;
                let epoch = sealed.envelope.chain_epoch;
                match self.send(&event, sealed).await? {
                    SubmitOutcome::Receipt(_) => {
                        domain::failpoint!("outbox.after");
                        self.store.outbox_done(chain, event.id, self.clock.now()).await?;
                    }
                    // The service recorded this report earlier, in an epoch that has ended since, and its response was lost. The report is
                    // recorded, which suffices; the next events find the state of the chain.
                    SubmitOutcome::PassThrough(passed) if is_taken(&passed) => {
                        tracing::warn!(event.id = %event.id, "the statistics service has an event of ours from before");
                        self.store.outbox_done(chain, event.id, self.clock.now()).await?;
                    }
                    SubmitOutcome::PassThrough(passed)
                        if may_rechain && matches!(passed.status.as_u16(), 409 | 422) =>
                    {
                        refused = Some((epoch, next_epoch(&passed.body)));
                        break;
                    }
                    SubmitOutcome::PassThrough(passed) => {
                        return Err(NotForwarded::Upstream(format!("it answered {}", passed.status)));
                    }
                    SubmitOutcome::Refused { status, detail } => {
                        return Err(NotForwarded::Upstream(format!("it answered {status}: {detail}")));
                    }
                    SubmitOutcome::Unavailable(why) => return Err(NotForwarded::Upstream(why.to_string())),
                }
            }
            match refused {
                Some((refused, epoch)) => {
                    may_rechain = false;
                    let moved = self.store.outbox_rechain(chain, refused, epoch).await?;
                    if moved > 0 {
                        tracing::warn!(
                            events = moved,
                            "the statistics service knows another end of a chain of ours: a new epoch begins"
                        );
                    }
                }
                None if whole => return Ok(()),
                None => {}
            }
        }
    }

    async fn send(&self, event: &OutboxEvent, sealed: Sealed) -> Result<SubmitOutcome, NotForwarded> {
        let of_event = &sealed.envelope.scope;
        let (identities, machine) = (vec![of_event.user_id.clone()], Some(of_event.machine_id));
        let scope = RecordScope { account: event.account.clone(), identities, machine, ..RecordScope::default() };
        let now = self.clock.now();
        let submission = Submission::new(event.body.clone().into(), sealed, scope);
        Ok(self.upstream.submit(submission, self.rng.uuid_v7(now).into(), now).await?)
    }
}

fn open(event: &OutboxEvent) -> Result<Sealed, NotForwarded> {
    Sealed::open_report(&event.body).map_err(|_| NotForwarded::Upstream("an event in the outbox cannot be read".into()))
}

/// Whether the service has another form of the event under the same id. Only this server draws ids of reports, so it is the same report.
fn is_taken(passed: &Passed) -> bool {
    #[derive(Deserialize)]
    struct Refusal {
        error: String,
    }
    passed.status == 409
        && serde_json::from_slice::<Refusal>(&passed.body).is_ok_and(|refusal| refusal.error == "event_id_conflict")
}

/// The next free epoch according to a refusal; 0 if the refusal does not contain it.
fn next_epoch(body: &[u8]) -> u64 {
    #[derive(Deserialize)]
    struct Refusal {
        expected: Expected,
    }
    #[derive(Deserialize)]
    struct Expected {
        chain_epoch: u64,
    }
    serde_json::from_slice::<Refusal>(body).map_or(0, |refusal| refusal.expected.chain_epoch + 1)
}

impl Pass for Outbox {
    type Memory = ();

    async fn run(&self, (): &mut ()) -> Result<Next, PassError> {
        domain::failpoint!("outbox.pass");
        let chains = self.store.outbox_chains(IDENTITIES_MAX).await?;
        let mut failed = None;
        for chain in &chains {
            if let Err(error) = self.deliver(chain).await {
                failed = Some(domain::reasons(&error));
            }
        }
        match failed {
            Some(error) => Err(format!("changes of consent or acts of operators are not reported yet: {error}").into()),
            None => Ok(Next::at_once_if(chains.len() >= IDENTITIES_MAX)),
        }
    }
}
