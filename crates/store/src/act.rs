//! Acts of operators (`docs/decisions/0038-acts-of-operators.md`). An act is written in the transaction of its effect, at the end of the
//! installation's own chain. [`outbox`](crate::outbox) sends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::Timestamp;
use domain::act::{ActOutcome, OperatorAct};
use domain::consent::change::after;
use domain::ids::EventId;
use serde_json::Value;
use uuid::Uuid;

use crate::error::{Corrupt, StoreError};
use crate::operation::{During, Operation};
use crate::outbox::{ServiceChain, number};
use crate::pool::{Tx, query, scalar};
use crate::row::{limit, undecodable};
use crate::{Store, in_transaction};

/// The act that the next effect of a store belongs to.
#[derive(Debug)]
pub(crate) struct PendingAct {
    id: EventId,
    act: OperatorAct,
    /// Whether a transaction wrote it, which may have been rolled back.
    is_written: AtomicBool,
}

/// A recorded act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedAct {
    /// Id of the act and of its event.
    pub id: EventId,
    /// The event, byte for byte as it is sent.
    pub body: Vec<u8>,
    /// Time of the act.
    pub done_at: Timestamp,
    /// Time at which the statistics service had accepted the event.
    pub sent_at: Option<Timestamp>,
}

crate::row! {
    struct ActRow {
        id: Uuid,
        body: Vec<u8>,
        done_at: Timestamp,
        sent_at: Option<Timestamp>,
    }
}

impl From<ActRow> for RecordedAct {
    fn from(row: ActRow) -> Self {
        Self { id: row.id.into(), body: row.body, done_at: row.done_at, sent_at: row.sent_at }
    }
}

/// Serialises changes by operators, also of objects that have no row yet.
pub(crate) async fn one_at_a_time(tx: &mut Tx<'_>) -> Result<(), sqlx::Error> {
    query("UPDATE installation SET id = id WHERE id = 1").execute(tx).await.map(drop)
}

impl Store {
    /// A handle with which one effect of an act is executed. [`Store::act_settle`] of this handle follows.
    #[must_use]
    pub fn acting(&self, id: EventId, act: OperatorAct) -> Self {
        Self { act: Some(Arc::new(PendingAct { id, act, is_written: AtomicBool::new(false) })), ..self.clone() }
    }

    /// Whether an effect wrote the act of this handle. If the effect succeeded, it is recorded.
    pub fn act_is_written(&self) -> bool {
        self.act.as_ref().is_some_and(|pending| pending.is_written.load(Ordering::Acquire))
    }

    /// Records the act of this handle with `outcome`, unless its effect recorded it.
    #[boxed]
    pub async fn act_settle(&self, outcome: ActOutcome, now: Timestamp) -> Result<(), StoreError> {
        const IS_RECORDED: &str = "SELECT COUNT(*) FROM operator_acts WHERE id = $1";
        let Some(pending) = &self.act else { return Ok(()) };
        in_transaction!(&self.pool, |tx| {
            let recorded: i64 = scalar(IS_RECORDED).bind(pending.id.as_uuid()).fetch_one(&mut *tx).await?;
            if recorded == 0 {
                pending.write(tx, pending.act.clone(), outcome, now).await?;
            }
            Ok(())
        })
        .during(Operation::RecordAct)
        .await
    }

    /// Records the act of this handle, if it has one, in the transaction of its effect.
    pub(crate) async fn record_act(&self, tx: &mut Tx<'_>, now: Timestamp) -> Result<(), sqlx::Error> {
        self.record_outcome(tx, ActOutcome::Applied, now).await
    }

    /// Records the act of this handle with `outcome` in a transaction.
    pub(crate) async fn record_outcome(
        &self,
        tx: &mut Tx<'_>,
        outcome: ActOutcome,
        now: Timestamp,
    ) -> Result<(), sqlx::Error> {
        let Some(pending) = &self.act else { return Ok(()) };
        pending.write(tx, pending.act.clone(), outcome, now).await
    }

    /// The same as [`Self::record_act`], with the values that the effect changed.
    pub(crate) async fn record_change(
        &self,
        tx: &mut Tx<'_>,
        (before, changed): (Value, Value),
        now: Timestamp,
    ) -> Result<(), sqlx::Error> {
        let Some(pending) = &self.act else { return Ok(()) };
        let act = OperatorAct { before: Some(before), after: Some(changed), ..pending.act.clone() };
        pending.write(tx, act, ActOutcome::Applied, now).await
    }

    /// Recorded acts, newest first, older than the act `before`.
    #[boxed]
    pub async fn acts(&self, before: Option<EventId>, rows_max: usize) -> Result<Vec<RecordedAct>, StoreError> {
        const SQL: &str = "SELECT id, body, done_at, sent_at FROM operator_acts WHERE ($1 IS NULL OR id < $1)
            ORDER BY id DESC LIMIT $2";
        let before = before.map(|id| id.as_uuid());
        let rows = query(SQL).bind(before).bind(limit(rows_max)).fetch_all(&self.pool);
        let rows: Vec<ActRow> = rows.during(Operation::ListActs).await?;
        Ok(rows.into_iter().map(RecordedAct::from).collect())
    }

    /// One recorded act.
    #[boxed]
    pub async fn act(&self, id: EventId) -> Result<Option<RecordedAct>, StoreError> {
        const SQL: &str = "SELECT id, body, done_at, sent_at FROM operator_acts WHERE id = $1";
        let row = query(SQL).bind(id.as_uuid()).fetch_optional(&self.pool);
        let row: Option<ActRow> = row.during(Operation::ReadAct).await?;
        Ok(row.map(RecordedAct::from))
    }

    /// Sends all acts again, to another log, in one epoch of the chain. Returns their number.
    #[boxed]
    pub async fn acts_resend(&self) -> Result<usize, StoreError> {
        const SQL: &str = "UPDATE operator_acts SET sent_at = NULL WHERE sent_at IS NOT NULL";
        in_transaction!(&self.pool, |tx| {
            let Some(chain) = ServiceChain::Installation.lock(tx).await? else { return Ok(0) };
            query(SQL).execute(&mut *tx).await?;
            ServiceChain::Installation.begin_epoch(tx, chain.position.chain_epoch + 1).await
        })
        .during(Operation::ResendActs)
        .await
    }

    /// Time of the oldest act that the statistics service has not accepted.
    #[boxed]
    pub async fn acts_waiting_since(&self) -> Result<Option<Timestamp>, StoreError> {
        const SQL: &str = "SELECT done_at FROM operator_acts WHERE sent_at IS NULL ORDER BY chain_epoch, seq LIMIT 1";
        scalar(SQL).fetch_optional(&self.pool).during(Operation::ReadOutbox).await
    }
}

impl PendingAct {
    /// Writes the act to the end of the installation's own chain.
    async fn write(
        &self,
        tx: &mut Tx<'_>,
        act: OperatorAct,
        outcome: ActOutcome,
        now: Timestamp,
    ) -> Result<(), sqlx::Error> {
        const ADD: &str = "INSERT INTO operator_acts (id, chain_epoch, seq, body, done_at) VALUES ($1, $2, $3, $4, $5)";
        let chain = ServiceChain::Installation.lock(tx).await?;
        let chain = chain.ok_or_else(|| undecodable(Corrupt::new("installation.installation_id", "is missing")))?;
        let installation = chain.machine.as_uuid().into();
        let written = act.event(self.id, installation, outcome, &chain.position, now);
        query(ADD)
            .bind(self.id.as_uuid())
            .bind(number(chain.position.chain_epoch))
            .bind(number(chain.position.seq))
            .bind(&written.body)
            .bind(now)
            .execute(&mut *tx)
            .await?;
        self.is_written.store(true, Ordering::Release);
        ServiceChain::Installation.advance(tx, &after(&chain.position, written.seal)).await
    }
}
