//! The record of what operators do (`docs/decisions/0038-acts-of-operators.md`).

use std::error::Error;
use std::time::Duration;

use actors::upstream::Upstream;
use domain::act::{ActKind, ActOutcome, OperatorAct};
use domain::clock::date_time;
use domain::envelope::Sealed;
use domain::ids::EventId;
use domain::recorder::{Recorder, Recorders};
use domain::{Clock, Rng, Timestamp};
use proofs::proof::AuditProof;
use serde::Deserialize;
use serde_json::Value;
use statistics::contract::RecordScope;
use statistics::log::LogError;
use store::act::RecordedAct;
use store::{Store, StoreError};
use wire::ops::{ActEntry, ActShown};

use crate::App;

/// Pause between two attempts to record an act.
const RECORD_EVERY: Duration = Duration::from_secs(5);

/// An act with an effect that [`Acting::store`] executes.
#[derive(Debug)]
pub struct Acting {
    /// Records the act in the transaction of the effect.
    pub store: Store,
    /// Id of the act.
    pub id: EventId,
    /// Who acts, in words.
    pub author: String,
    at: Timestamp,
}

/// Why an act has no effect, or no record.
#[derive(Debug, thiserror::Error)]
pub enum ActFault<E: Error + 'static> {
    /// The effect failed.
    #[error(transparent)]
    Effect(E),
    /// The act was not recorded.
    #[error(transparent)]
    Record(StoreError),
}

impl From<ActFault<Self>> for StoreError {
    fn from(fault: ActFault<Self>) -> Self {
        match fault {
            ActFault::Effect(error) | ActFault::Record(error) => error,
        }
    }
}

impl Acting {
    /// Prepares the record of an act that is done now.
    pub fn new(store: &Store, (clock, rng): (&Clock, &Rng), act: OperatorAct) -> Self {
        let at = clock.now();
        Self::with_id(rng.uuid_v7(at).into(), store, at, act)
    }

    /// The same with an id that was chosen before.
    pub fn with_id(id: EventId, store: &Store, at: Timestamp, act: OperatorAct) -> Self {
        Self { author: act.by.to_string(), store: store.acting(id, act), id, at }
    }

    /// Returns the outcome of the effect. An effect that was refused or failed is recorded as such.
    pub async fn settle<T, E: Error + 'static>(&self, outcome: Result<T, E>) -> Result<T, ActFault<E>> {
        // A further write could fail, and the answer of the command be lost, for example a secret.
        if outcome.is_ok() && self.store.act_is_written() {
            return outcome.map_err(ActFault::Effect);
        }
        let ended = if outcome.is_ok() { ActOutcome::Refused } else { ActOutcome::Failed };
        let settled = self.record(ended).await;
        let value = outcome.map_err(ActFault::Effect)?;
        settled.map_err(ActFault::Record)?;
        Ok(value)
    }

    /// Records an act without an effect in the main database, before its work or its answer. It may be repeated after a failure.
    #[boxed]
    pub async fn record(&self, outcome: ActOutcome) -> Result<(), StoreError> {
        self.store.act_settle(outcome, self.at).await
    }
}

impl App {
    /// Records an act that is in force already, because a database that is away must not keep an operator from it. Recording is repeated until
    /// it succeeds.
    pub fn record_later(&self, acting: Acting, outcome: ActOutcome) {
        tokio::spawn(async move {
            while let Err(error) = acting.record(outcome).await {
                let error = domain::reasons(&error);
                tracing::warn!(error, "an act is not recorded yet; recording is repeated");
                tokio::time::sleep(RECORD_EVERY).await;
            }
        });
    }
}

/// Why the proof of an act cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ActProofFault {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log failed.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// The scope of the log in which acts are found: the chain of the installation.
pub fn act_scope(recorder: Recorder) -> RecordScope {
    RecordScope { shown: Recorders { computers: vec![recorder], ..Recorders::default() }, ..RecordScope::default() }
}

impl App {
    /// The proof that the embedded log contains an act. `None` until a signed tree has it, and for an external service.
    #[boxed]
    pub async fn act_proof(&self, id: EventId) -> Result<Option<AuditProof>, ActProofFault> {
        let Upstream::Embedded { log, .. } = &self.upstream else { return Ok(None) };
        let Some(installation) = self.store.installation().await? else { return Ok(None) };
        Ok(log.included_proofs(&act_scope(installation.id.recorder()), &[id]).await?.pop())
    }
}

/// The event of a recorded act is not the event that was sealed.
#[derive(Debug, thiserror::Error)]
#[error("the event of the act {0} was changed in the table")]
pub struct ChangedAct(EventId);

/// The event of an act.
pub fn opened(act: &RecordedAct) -> Result<Sealed, ChangedAct> {
    let sealed = Sealed::open_report(&act.body).map_err(|_| ChangedAct(act.id))?;
    if sealed.seal_is_right() && sealed.envelope.event_id == act.id { Ok(sealed) } else { Err(ChangedAct(act.id)) }
}

/// An act for readers.
pub fn described(recorded: &RecordedAct) -> Result<ActEntry, ChangedAct> {
    #[derive(Deserialize)]
    struct Payload {
        #[serde(flatten)]
        act: OperatorAct,
        outcome: ActOutcome,
    }
    let sealed = opened(recorded)?;
    let payload = serde_json::from_value(Value::Object(sealed.envelope.payload));
    let Payload { act, outcome } = payload.map_err(|_| ChangedAct(recorded.id))?;
    Ok(ActEntry {
        id: recorded.id,
        done_at: date_time(recorded.done_at),
        act: act.act,
        by: act.by.to_string(),
        node: act.node,
        target: act.target,
        before: act.before,
        after: act.after,
        outcome,
        reason: act.reason,
        until: act.until,
        sent_at: recorded.sent_at.map(date_time),
    })
}

/// An act for readers, with its event, and without its proof.
pub fn shown(recorded: &RecordedAct) -> Result<ActShown, ChangedAct> {
    let event = serde_json::from_slice(&recorded.body).map_err(|_| ChangedAct(recorded.id))?;
    Ok(ActShown { act: described(recorded)?, event, proof: None })
}

/// The acts that a reader asks for.
#[derive(Debug, Clone, Default)]
pub struct ActFilter {
    /// Acts of this kind.
    pub act: Option<ActKind>,
    /// Acts on this object, such as `account:ID`.
    pub target: Option<String>,
    /// Acts of an author that contains this text, such as `token (desk)`.
    pub by: Option<String>,
}

impl ActFilter {
    /// Whether the reader asks for this act.
    pub fn matches(&self, entry: &ActEntry) -> bool {
        self.act.is_none_or(|act| entry.act == act)
            && self.target.as_ref().is_none_or(|target| entry.target.as_ref() == Some(target))
            && self.by.as_ref().is_none_or(|by| entry.by.contains(by))
    }
}
