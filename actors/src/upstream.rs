//! The statistics service, embedded or external, behind one contract.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::Timestamp;
use domain::ids::{EventId, ReceiptId};
use domain::log_part::LogPart;
use futures_util::future::join_all;
use proofs::merkle::tile::TilePath;
use statistics::client::Client;
use statistics::contract::{self, ActivityQuery, Passed, RecordScope, Submission, SubmitOutcome};
use statistics::log::{Append, LogError};
use statistics::parts::Logs;
use store::DatabaseSettings;
use supervision::{Handle, Unavailable};

use crate::intake::grouped::GroupMessage;

/// The statistics service that records events.
#[derive(Debug, Clone)]
pub enum Upstream {
    /// The log in this process, and its parts.
    Embedded {
        /// Commit events in groups: an actor for each database server.
        intake: Appenders,
        /// Answers reads of activity and proofs.
        log: Logs,
    },
    /// A service behind HTTP.
    External(Client),
}

/// The actors that append to the parts of the log, one for each database server. Clones share them.
#[derive(Debug, Clone)]
pub struct Appenders(Arc<BTreeMap<LogPart, Handle<GroupMessage>>>);

impl Appenders {
    /// The actor of each part; parts on one server share theirs.
    pub fn new(of_parts: BTreeMap<LogPart, Handle<GroupMessage>>) -> Self {
        Self(Arc::new(of_parts))
    }

    /// Each actor with its parts.
    pub fn actors(&self) -> Vec<(&Handle<GroupMessage>, Vec<LogPart>)> {
        let mut actors: Vec<(&Handle<GroupMessage>, Vec<LogPart>)> = Vec::new();
        for (part, handle) in self.0.iter() {
            match actors.iter_mut().find(|(known, _)| known.kind() == handle.kind()) {
                Some((_, parts)) => parts.push(*part),
                None => actors.push((handle, vec![*part])),
            }
        }
        actors
    }

    fn of(&self, part: LogPart) -> Option<&Handle<GroupMessage>> {
        self.0.get(&part)
    }
}

impl Upstream {
    /// The embedded log; `None` if the service is external.
    pub fn logs(&self) -> Option<&Logs> {
        match self {
            Self::Embedded { log, .. } => Some(log),
            Self::External(_) => None,
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
                let part = submission.part;
                let Some(intake) = intake.of(part) else {
                    return Ok(SubmitOutcome::Unavailable(unreachable(LogError::UnknownPart(part))));
                };
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

    /// The newest signed checkpoint of a part.
    #[boxed]
    pub async fn checkpoint(&self, part: LogPart) -> Result<Passed, contract::Unavailable> {
        match self {
            Self::External(client) => client.checkpoint().await,
            Self::Embedded { log, .. } => log.get(part).map_err(unreachable)?.checkpoint().await.map_err(unreachable),
        }
    }

    /// Proof that the tree of a part with `to` leaves extends its tree of `from` leaves.
    #[boxed]
    pub async fn consistency(
        &self,
        part: LogPart,
        from: Option<&str>,
        to: Option<&str>,
    ) -> Result<Passed, contract::Unavailable> {
        match self {
            Self::External(client) => client.consistency(from, to).await,
            Self::Embedded { log, .. } => {
                log.get(part).map_err(unreachable)?.consistency(from, to).await.map_err(unreachable)
            }
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

    /// The hashes of a tile of the signed tree of a part.
    #[boxed]
    pub async fn tile(&self, part: LogPart, wanted: TilePath) -> Result<Passed, contract::Unavailable> {
        match self {
            Self::External(client) => client.tile(wanted).await,
            Self::Embedded { log, .. } => log.get(part).map_err(unreachable)?.tile(wanted).await.map_err(unreachable),
        }
    }

    /// Releases the sequencer's lease of the embedded log, so that another node signs the log at once. Called after the sequencer has
    /// stopped.
    #[boxed]
    pub async fn give_leases_back(&self) {
        if let Self::Embedded { log, .. } = self {
            join_all(log.iter().map(|(_, log)| log.give_lease_back())).await;
        }
    }

    /// Puts the timeouts of other settings of the database in force, which the embedded log uses.
    pub fn retune(&self, settings: &DatabaseSettings) {
        if let Self::Embedded { log, .. } = self {
            log.iter().for_each(|(_, log)| log.retune(settings));
        }
    }

    /// Closes the connections to the service.
    #[boxed]
    pub async fn close(&self) {
        match self {
            // Its connections close with the last clone of the client.
            Self::External(_) => {}
            Self::Embedded { log, .. } => drop(join_all(log.iter().map(|(_, log)| log.close())).await),
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
