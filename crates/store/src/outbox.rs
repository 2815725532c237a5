//! Reports of changed consent that wait to be forwarded, and the service's own chain that contains them
//! (`docs/decisions/0015-reports-of-consent.md`).

use domain::Timestamp;
use domain::chain::{Position, Prev};
use domain::consent::change::{after, moved_to};
use domain::ids::{EventId, MachineUuid, UserAccountId, UserCuid};
use uuid::Uuid;

use crate::error::{Corrupt, StoreError};
use crate::operation::{During, Operation};
use crate::pool::{Tx, query, scalar};
use crate::row::{digest, limit, parsed, parsed_opt, undecodable};
use crate::{Store, in_transaction};

impl Store {
    /// Identities with waiting events in the outbox, longest waiting first.
    #[boxed]
    pub async fn outbox_identities(&self, rows_max: usize) -> Result<Vec<UserCuid>, StoreError> {
        const SQL: &str =
            "SELECT user_cuid FROM consent_outbox GROUP BY user_cuid ORDER BY MIN(created_at), user_cuid LIMIT $1";
        let rows: Vec<String> =
            scalar(SQL).bind(limit(rows_max)).fetch_all(&self.pool).during(Operation::ListIdentitiesInOutbox).await?;
        Ok(rows.iter().map(|text| parsed("consent_outbox.user_cuid", text)).collect::<Result<_, _>>()?)
    }

    /// The queued events of one identity, in the order of its chain.
    #[boxed]
    pub async fn outbox_of(&self, user_cuid: &UserCuid, rows_max: usize) -> Result<Vec<OutboxEvent>, StoreError> {
        const SQL: &str = "SELECT event_id, account_id, body FROM consent_outbox WHERE user_cuid = $1
            ORDER BY chain_epoch, seq LIMIT $2";
        let rows: Vec<OutboxRow> = query(SQL)
            .bind(user_cuid.as_str())
            .bind(limit(rows_max))
            .fetch_all(&self.pool)
            .during(Operation::ReadOutbox)
            .await?;
        Ok(rows.into_iter().map(OutboxEvent::try_from).collect::<Result<_, _>>()?)
    }

    /// Deletes an event that the statistics service has accepted.
    #[boxed]
    pub async fn outbox_done(&self, event: EventId) -> Result<bool, StoreError> {
        let rows_affected = query("DELETE FROM consent_outbox WHERE event_id = $1")
            .bind(event.as_uuid())
            .execute(self.pool.writer())
            .during(Operation::RemoveEventFromOutbox)
            .await?;
        Ok(rows_affected == 1)
    }

    /// Starts a new epoch, at least `epoch`, with all waiting events of an identity: the statistics service refused an event of the epoch
    /// `refused`, because it knows another head of the chain. Returns the number of moved events: 0 if another process has started a new
    /// epoch since.
    #[boxed]
    pub async fn outbox_rechain(&self, user_cuid: &UserCuid, refused: u64, epoch: u64) -> Result<usize, StoreError> {
        const LOCK: &str = "UPDATE identities SET control_chain_epoch = control_chain_epoch WHERE user_cuid = $1
            RETURNING account_id, control_machine_uuid, control_chain_epoch, control_seq, control_prev";
        const WAITING: &str =
            "SELECT event_id, account_id, body FROM consent_outbox WHERE user_cuid = $1 ORDER BY chain_epoch, seq";
        const MOVE: &str = "UPDATE consent_outbox SET chain_epoch = $2, seq = $3, body = $4 WHERE event_id = $1";
        in_transaction!(&self.pool, |tx| {
            let chain: Option<ChainRow> = query(LOCK).bind(user_cuid.as_str()).fetch_optional(&mut *tx).await?;
            let Some(chain) = chain else { return Ok(0) };
            let chain = chain.read().map_err(undecodable)?;
            if chain.position.chain_epoch != refused {
                return Ok(0);
            }
            let waiting: Vec<OutboxRow> = query(WAITING).bind(user_cuid.as_str()).fetch_all(&mut *tx).await?;
            let mut position = Position::genesis(epoch.max(chain.position.chain_epoch + 1));
            for row in &waiting {
                let written = moved_to(&row.body, &position)
                    .ok_or_else(|| undecodable(Corrupt::new("consent_outbox.body", "not an event")))?;
                query(MOVE)
                    .bind(row.event_id)
                    .bind(number(position.chain_epoch))
                    .bind(number(position.seq))
                    .bind(&written.body)
                    .execute(&mut *tx)
                    .await?;
                position = after(&position, written.seal);
            }
            move_chain(tx, user_cuid, &position).await?;
            Ok(waiting.len())
        })
        .during(Operation::StartChainEpochOfOutbox)
        .await
    }
}

/// An event that reports a change of consent and waits to be forwarded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxEvent {
    /// Id of the event.
    pub id: EventId,
    /// The account that the identity was linked to.
    pub account: Option<UserAccountId>,
    /// The event, byte for byte as it is sent.
    pub body: Vec<u8>,
}

/// Adds an event to the outbox in the caller's transaction.
pub(crate) async fn insert_event(
    tx: &mut Tx<'_>,
    user_cuid: &UserCuid,
    event: &OutboxEvent,
    position: &Position,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    const SQL: &str = "INSERT INTO consent_outbox (event_id, user_cuid, account_id, chain_epoch, seq, body, created_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7)";
    query(SQL)
        .bind(event.id.as_uuid())
        .bind(user_cuid.as_str())
        .bind(event.account.as_ref().map(UserAccountId::as_str))
        .bind(number(position.chain_epoch))
        .bind(number(position.seq))
        .bind(&event.body)
        .bind(now)
        .execute(tx)
        .await
        .map(drop)
}

/// Moves the service's own chain of an identity to a position, in the caller's transaction.
pub(crate) async fn move_chain(tx: &mut Tx<'_>, user_cuid: &UserCuid, position: &Position) -> Result<(), sqlx::Error> {
    const SQL: &str =
        "UPDATE identities SET control_chain_epoch = $2, control_seq = $3, control_prev = $4 WHERE user_cuid = $1";
    let prev = match &position.prev {
        Prev::Genesis => None,
        Prev::Event(seal) => Some(&seal.as_bytes()[..]),
    };
    query(SQL)
        .bind(user_cuid.as_str())
        .bind(number(position.chain_epoch))
        .bind(number(position.seq))
        .bind(prev)
        .execute(tx)
        .await
        .map(drop)
}

pub(crate) fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

crate::row! {
    pub(crate) struct ChainRow {
        account_id: Option<String>,
        control_machine_uuid: Option<Uuid>,
        control_chain_epoch: i64,
        control_seq: i64,
        control_prev: Option<Vec<u8>>,
    }
}

impl ChainRow {
    /// The account that the identity is linked to.
    pub(crate) fn account(&self) -> Option<&str> {
        self.account_id.as_deref()
    }
}

/// The service's own chain for an identity, and its next position.
pub(crate) struct ControlChain {
    pub(crate) account: Option<UserAccountId>,
    pub(crate) machine: MachineUuid,
    pub(crate) position: Position,
}

impl ChainRow {
    pub(crate) fn read(self) -> Result<ControlChain, Corrupt> {
        let whole = |column, value: i64| u64::try_from(value).map_err(|error| Corrupt::new(column, error));
        let prev = self.control_prev.map(|seal| digest("identities.control_prev", &seal)).transpose()?;
        let machine = self.control_machine_uuid;
        Ok(ControlChain {
            account: parsed_opt("identities.account_id", self.account_id.as_deref())?,
            machine: machine.ok_or_else(|| Corrupt::new("identities.control_machine_uuid", "is missing"))?.into(),
            position: Position {
                chain_epoch: whole("identities.control_chain_epoch", self.control_chain_epoch)?,
                seq: whole("identities.control_seq", self.control_seq)?,
                prev: prev.map_or(Prev::Genesis, Prev::Event),
            },
        })
    }
}

crate::row! {
    struct OutboxRow {
        event_id: Uuid,
        account_id: Option<String>,
        body: Vec<u8>,
    }
}

impl TryFrom<OutboxRow> for OutboxEvent {
    type Error = Corrupt;

    fn try_from(row: OutboxRow) -> Result<Self, Corrupt> {
        let account = parsed_opt("consent_outbox.account_id", row.account_id.as_deref())?;
        Ok(Self { id: row.event_id.into(), account, body: row.body })
    }
}
