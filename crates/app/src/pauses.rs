//! Pauses of parts of the service, as operators begin and end them (`docs/decisions/0041-pauses.md`).

use std::time::Duration;

use domain::Timestamp;
use domain::act::{ActOutcome, ActReason, OperatorAct};
use domain::clock::date_time;
use domain::ids::EventId;
use domain::service_pause::{PausedFor, ServicePart, ServicePause};
use store::service_pause::PauseBegin;
use store::{Store, StoreError};
use wire::ops::ServicePauseEntry;

use crate::acts::Acting;

/// A pause that an operator asks for.
#[derive(Debug, Clone)]
pub struct NewPause {
    /// The part.
    pub part: ServicePart,
    /// For whom.
    pub scope: PausedFor,
    /// Why.
    pub reason: ActReason,
    /// Time after which it ends by itself.
    pub lasts: Duration,
    /// Whether a pause of the same part and scope is replaced.
    pub replaces: bool,
}

/// Why a part is not paused, or a pause not ended.
#[derive(Debug, thiserror::Error)]
pub enum PauseRefusal {
    /// The part has no such scope.
    #[error("{} cannot be paused for {scope}: accounts have intake, batches and webhooks, computers and lanes have intake, and `attache admin actor quarantine` pauses one actor", part.as_str())]
    Scope {
        /// The part.
        part: ServicePart,
        /// The scope.
        scope: PausedFor,
    },
    /// It would end at once, or be in force for too long.
    #[error("a pause lasts 1 second at least and {} at most (admin.override_max)", humantime_serde::re::humantime::format_duration(*.0))]
    Length(Duration),
    /// The part is paused for the same scope.
    #[error("{0}\n  `--replace` takes it over")]
    Taken(ServicePause),
    /// No such pause is in force.
    #[error("no such pause is in force: `attache admin pauses` lists them")]
    Absent,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl NewPause {
    /// The act of beginning it.
    pub fn act(&self, act: OperatorAct, now: Timestamp) -> OperatorAct {
        let act = act.on("pause", ServicePause::target(self.part, &self.scope)).because(Some(self.reason.clone()));
        act.until(now + self.lasts)
    }

    /// `lasts_max` is `admin.override_max`.
    fn check(&self, lasts_max: Duration) -> Result<(), PauseRefusal> {
        if !self.part.allows(&self.scope) {
            return Err(PauseRefusal::Scope { part: self.part, scope: self.scope.clone() });
        }
        let fits = (Duration::from_secs(1)..=lasts_max).contains(&self.lasts);
        if fits { Ok(()) } else { Err(PauseRefusal::Length(lasts_max)) }
    }
}

/// Pauses a part, with its act. `lasts_max` is `admin.override_max`.
#[boxed]
pub async fn begin(
    acting: &Acting,
    new: NewPause,
    lasts_max: Duration,
    now: Timestamp,
) -> Result<ServicePause, PauseRefusal> {
    if let Err(refusal) = new.check(lasts_max) {
        acting.record(ActOutcome::Refused).await?;
        return Err(refusal);
    }
    let NewPause { part, scope, reason, lasts, replaces } = new;
    let pause = ServicePause { id: acting.id, part, scope, until: now + lasts, set_by: acting.author.clone(), reason };
    let begun = acting.store.service_pause_begin(&pause, replaces, now).await;
    match acting.settle(begun).await.map_err(StoreError::from)? {
        PauseBegin::Begun => Ok(pause),
        PauseBegin::Taken(old) => Err(PauseRefusal::Taken(old)),
    }
}

/// Ends a pause with its act.
#[boxed]
pub async fn end(acting: &Acting, id: EventId, now: Timestamp) -> Result<(), PauseRefusal> {
    let ended = acting.store.service_pause_end(id, now).await;
    if acting.settle(ended).await.map_err(StoreError::from)? { Ok(()) } else { Err(PauseRefusal::Absent) }
}

/// The pauses in force for readers.
#[boxed]
pub async fn list(store: &Store, now: Timestamp) -> Result<Vec<ServicePauseEntry>, StoreError> {
    Ok(store.service_pauses(now).await?.iter().map(described).collect())
}

/// A pause for readers.
pub fn described(found: &ServicePause) -> ServicePauseEntry {
    ServicePauseEntry {
        id: found.id,
        part: found.part.as_str().to_owned(),
        scope: found.scope.to_string(),
        until: date_time(found.until),
        set_by: found.set_by.clone(),
        reason: found.reason.clone(),
        act_id: None,
    }
}
