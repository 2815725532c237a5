//! Parts of the service that an operator has paused (`docs/decisions/0041-pauses.md`).

use domain::Timestamp;
use domain::act::ActReason;
use domain::ids::EventId;
use domain::service_pause::{PausedFor, ServicePart, ServicePause};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::act::one_at_a_time;
use crate::change::Change;
use crate::error::{Corrupt, StoreError};
use crate::operation::{During, Operation};
use crate::pool::query;
use crate::row::{parsed, undecodable};
use crate::{Store, in_transaction};

/// The outcome of an attempt to pause a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PauseBegin {
    /// It is paused.
    Begun,
    /// It is paused already, for the same scope.
    Taken(ServicePause),
}

crate::row! {
    struct ServicePauseRow {
        id: Uuid,
        part: String,
        scope: String,
        until: Timestamp,
        set_by: String,
        reason: String,
    }
}

impl TryFrom<ServicePauseRow> for ServicePause {
    type Error = Corrupt;

    fn try_from(row: ServicePauseRow) -> Result<Self, Corrupt> {
        Ok(Self {
            id: row.id.into(),
            part: parsed::<ServicePart>("service_pauses.part", &row.part)?,
            scope: parsed::<PausedFor>("service_pauses.scope", &row.scope)?,
            until: row.until,
            set_by: row.set_by,
            reason: parsed::<ActReason>("service_pauses.reason", &row.reason)?,
        })
    }
}

impl Store {
    /// The pauses in force, by part and scope.
    #[boxed]
    pub async fn service_pauses(&self, now: Timestamp) -> Result<Vec<ServicePause>, StoreError> {
        const SQL: &str = "SELECT id, part, scope, until, set_by, reason FROM service_pauses WHERE until > $1
            ORDER BY part, scope";
        let rows: Vec<ServicePauseRow> =
            query(SQL).bind(now).fetch_all(&self.pool).during(Operation::ListServicePauses).await?;
        Ok(rows.into_iter().map(ServicePause::try_from).collect::<Result<_, _>>()?)
    }

    /// Pauses a part. With `replaces`, a pause of the same part and scope is replaced.
    #[boxed]
    pub async fn service_pause_begin(
        &self,
        new: &ServicePause,
        replaces: bool,
        now: Timestamp,
    ) -> Result<PauseBegin, StoreError> {
        const FIND: &str =
            "SELECT id, part, scope, until, set_by, reason FROM service_pauses WHERE part = $1 AND scope = $2";
        const REMOVE: &str = "DELETE FROM service_pauses WHERE until <= $3 OR (part = $1 AND scope = $2)";
        const ADD: &str =
            "INSERT INTO service_pauses (id, part, scope, until, set_by, reason) VALUES ($1, $2, $3, $4, $5, $6)";
        let (part, scope) = (new.part.as_str(), new.scope.to_string());
        in_transaction!(
            &self.pool,
            |tx| {
                one_at_a_time(tx).await?;
                let row: Option<ServicePauseRow> = query(FIND).bind(part).bind(&scope).fetch_optional(&mut *tx).await?;
                let old = row.map(ServicePause::try_from).transpose().map_err(undecodable)?.filter(|old| old.until > now);
                if let (Some(old), false) = (&old, replaces) {
                    return Ok(PauseBegin::Taken(old.clone()));
                }
                query(REMOVE).bind(part).bind(&scope).bind(now).execute(&mut *tx).await?;
                query(ADD)
                    .bind(new.id.as_uuid())
                    .bind(part)
                    .bind(&scope)
                    .bind(new.until)
                    .bind(&new.set_by)
                    .bind(new.reason.as_str())
                    .execute(&mut *tx)
                    .await?;
                self.announce(tx, &Change::Others).await?;
                self.record_change(tx, (json!(old.map(|old| old.id)), json!(new.id)), now).await?;
                Ok(PauseBegin::Begun)
            },
            commit if |outcome| *outcome == PauseBegin::Begun
        )
        .during(Operation::BeginServicePause)
        .await
    }

    /// Ends a pause; `false` if it is not in force.
    #[boxed]
    pub async fn service_pause_end(&self, id: EventId, now: Timestamp) -> Result<bool, StoreError> {
        const SQL: &str = "DELETE FROM service_pauses WHERE id = $1 AND until > $2";
        in_transaction!(
            &self.pool,
            |tx| {
                one_at_a_time(tx).await?;
                if query(SQL).bind(id.as_uuid()).bind(now).execute(&mut *tx).await? == 0 {
                    return Ok(false);
                }
                self.announce(tx, &Change::Others).await?;
                self.record_change(tx, (json!(id), Value::Null), now).await?;
                Ok(true)
            },
            commit if |done| *done
        )
        .during(Operation::EndServicePause)
        .await
    }
}
