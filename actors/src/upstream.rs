//! The statistics service, embedded or external, behind one contract.

use std::sync::Arc;

use domain::Timestamp;
use domain::ids::{EventId, ReceiptId};
use domain::registry::Registry;
use proofs::merkle::tile::TilePath;
use statistics::client::Client;
use statistics::contract::{self, ActivityQuery, Passed, RecordScope, Submission, SubmitOutcome};
use statistics::log::{Append, Log};
use store::DatabaseSettings;
use supervision::{Handle, Unavailable};

use crate::intake::grouped::GroupMessage;

/// The statistics service that records events.
#[derive(Debug, Clone)]
pub enum Upstream {
    /// The log in this process.
    Embedded {
        /// Commits events in groups.
        intake: Handle<GroupMessage>,
        /// Answers reads of activity and proofs.
        log: Log,
    },
    /// A service behind HTTP.
    External(Client),
}

impl Upstream {
    /// Adds sentences to the pages of activity of the embedded log. The responses of an external service stay unchanged.
    #[must_use]
    pub fn with_registry(self, registry: &Arc<Registry>) -> Self {
        match self {
            Self::Embedded { intake, log } => Self::Embedded { intake, log: log.with_registry(Arc::clone(registry)) },
            external @ Self::External(_) => external,
        }
    }

    /// Sends one event. Returns after the event is durable.
    ///
    /// `receipt` is the receipt that the embedded log gives to a new event; an external service assigns its own.
    #[boxed]
    pub async fn submit(
        &self,
        submission: Submission,
        receipt: ReceiptId,
        received_at: Timestamp,
    ) -> Result<SubmitOutcome, Unavailable> {
        match self {
            Self::External(client) => Ok(client.submit(&submission).await),
            Self::Embedded { intake, .. } => {
                let event = Box::new(Append::new(submission, receipt, received_at));
                let deadline = intake.ask_deadline();
                Ok(match intake.ask(|reply| GroupMessage::Add { event, reply }, deadline).await? {
                    Ok(outcome) => outcome.into(),
                    Err(error) => SubmitOutcome::Unavailable(contract::Unavailable::Log(domain::reasons(&*error))),
                })
            }
        }
    }

    /// A page of activity.
    #[boxed]
    pub async fn activity(&self, scope: &RecordScope, query: &ActivityQuery) -> Result<Passed, contract::Unavailable> {
        match self {
            Self::External(client) => client.activity(scope, query).await,
            Self::Embedded { log, .. } => log.activity(scope, query).await.map_err(unreachable),
        }
    }

    /// The audit proof of an event.
    #[boxed]
    pub async fn proof(&self, scope: &RecordScope, event_id: EventId) -> Result<Passed, contract::Unavailable> {
        match self {
            Self::External(client) => client.proof(scope, event_id).await,
            Self::Embedded { log, .. } => log.proof(scope, event_id).await.map_err(unreachable),
        }
    }

    /// The newest signed checkpoint.
    #[boxed]
    pub async fn checkpoint(&self) -> Result<Passed, contract::Unavailable> {
        match self {
            Self::External(client) => client.checkpoint().await,
            Self::Embedded { log, .. } => log.checkpoint().await.map_err(unreachable),
        }
    }

    /// Proof that the tree of `to` leaves extends the tree of `from` leaves.
    #[boxed]
    pub async fn consistency(&self, from: Option<&str>, to: Option<&str>) -> Result<Passed, contract::Unavailable> {
        match self {
            Self::External(client) => client.consistency(from, to).await,
            Self::Embedded { log, .. } => log.consistency(from, to).await.map_err(unreachable),
        }
    }

    /// The keys that sign checkpoints.
    #[boxed]
    pub async fn keys(&self) -> Result<Passed, contract::Unavailable> {
        match self {
            Self::External(client) => client.keys().await,
            Self::Embedded { log, .. } => log.keys().await.map_err(unreachable),
        }
    }

    /// The hashes of a tile of the signed tree.
    #[boxed]
    pub async fn tile(&self, wanted: TilePath) -> Result<Passed, contract::Unavailable> {
        match self {
            Self::External(client) => client.tile(wanted).await,
            Self::Embedded { log, .. } => log.tile(wanted).await.map_err(unreachable),
        }
    }

    /// Releases the sequencer's lease of the embedded log, so that another node signs the log at once. Called after the sequencer has
    /// stopped.
    #[boxed]
    pub async fn give_leases_back(&self) {
        if let Self::Embedded { log, .. } = self {
            log.give_lease_back().await;
        }
    }

    /// Puts the timeouts of other settings of the database in force, which the embedded log uses.
    pub fn retune(&self, settings: &DatabaseSettings) {
        if let Self::Embedded { log, .. } = self {
            log.retune(settings);
        }
    }

    /// Closes the connections to the service.
    #[boxed]
    pub async fn close(&self) {
        match self {
            // Its connections close with the last clone of the client.
            Self::External(_) => {}
            Self::Embedded { log, .. } => log.close().await,
        }
    }

    /// Why requests to an external service are refused at the moment, for `/readyz`. Once the circuit breaker has been open for its time,
    /// the next request is sent, and this is `None` until it fails too. Always `None` for the embedded log.
    pub fn refusal(&self) -> Option<String> {
        let Self::External(client) = self else { return None };
        client.refuses_for().map(|left| {
            if left.is_zero() {
                "requests failed in a row; requests are refused until the one that is under way succeeds".to_owned()
            } else {
                format!("requests failed in a row; requests are refused for another {left:.1?}")
            }
        })
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the form that `map_err` takes")]
fn unreachable(error: statistics::log::LogError) -> contract::Unavailable {
    contract::Unavailable::Log(domain::reasons(&error))
}
