//! Events of the service itself that wait to be forwarded, and the chains that contain them: one for each identity, with its changes of consent
//! (`docs/decisions/0015-reports-of-consent.md`), and one for the installation, with acts of operators
//! (`docs/decisions/0038-acts-of-operators.md`).

use domain::Timestamp;
use domain::chain::{Position, Prev};
use domain::consent::change::{after, moved_to};
use domain::ids::{EventId, MachineUuid, UserAccountId, UserCuid};
use uuid::Uuid;

use crate::error::{Corrupt, StoreError};
use crate::operation::{During, Operation};
use crate::pool::{Query, Tx, query};
use crate::row::{digest, limit, parsed, parsed_opt, undecodable};
use crate::{Store, in_transaction};

/// A chain of the service itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServiceChain {
    /// The changes of consent of an identity.
    Identity(UserCuid),
    /// The acts of operators.
    Installation,
}

/// The statements of one kind of chain. The last parameter is the identity, if the chain has one.
struct Statements {
    /// Parameter: maximum number of rows.
    waiting: &'static str,
    /// Locks the chain.
    lock: &'static str,
    /// Parameters: event, chain epoch, number, body.
    rewrite: &'static str,
    /// Parameters: the next chain epoch, number and predecessor.
    advance: &'static str,
}

const OF_IDENTITY: Statements = Statements {
    waiting: "SELECT event_id, account_id, body FROM consent_outbox WHERE user_cuid = $2 ORDER BY chain_epoch, seq LIMIT $1",
    lock: "UPDATE identities SET control_chain_epoch = control_chain_epoch WHERE user_cuid = $1
        RETURNING account_id, control_machine_uuid, control_chain_epoch, control_seq, control_prev",
    rewrite: "UPDATE consent_outbox SET chain_epoch = $2, seq = $3, body = $4 WHERE event_id = $1",
    advance: "UPDATE identities SET control_chain_epoch = $1, control_seq = $2, control_prev = $3 WHERE user_cuid = $4",
};

const OF_INSTALLATION: Statements = Statements {
    waiting: "SELECT id AS event_id, CAST(NULL AS TEXT) AS account_id, body FROM operator_acts WHERE sent_at IS NULL
        ORDER BY chain_epoch, seq LIMIT $1",
    lock: "UPDATE installation SET act_chain_epoch = act_chain_epoch WHERE id = 1
        RETURNING CAST(NULL AS TEXT) AS account_id, installation_id AS control_machine_uuid,
            act_chain_epoch AS control_chain_epoch, act_seq AS control_seq, act_prev AS control_prev",
    rewrite: "UPDATE operator_acts SET chain_epoch = $2, seq = $3, body = $4 WHERE id = $1",
    advance: "UPDATE installation SET act_chain_epoch = $1, act_seq = $2, act_prev = $3 WHERE id = 1",
};

impl ServiceChain {
    fn statements(&self) -> &'static Statements {
        match self {
            Self::Identity(_) => &OF_IDENTITY,
            Self::Installation => &OF_INSTALLATION,
        }
    }

    /// Binds the identity as the last argument.
    fn of<'q>(&'q self, query: Query<'q>) -> Query<'q> {
        match self {
            Self::Identity(user_cuid) => query.bind(user_cuid.as_str()),
            Self::Installation => query,
        }
    }

    /// Locks the chain, which serialises changes of it, and reads its next position. `None` if its identity is unknown.
    pub(crate) async fn lock(&self, tx: &mut Tx<'_>) -> Result<Option<ControlChain>, sqlx::Error> {
        let row: Option<ChainRow> = self.of(query(self.statements().lock)).fetch_optional(tx).await?;
        row.map(ChainRow::read).transpose().map_err(undecodable)
    }

    /// Moves all waiting events to the start of an epoch of the locked chain, and returns their number.
    pub(crate) async fn begin_epoch(&self, tx: &mut Tx<'_>, epoch: u64) -> Result<usize, sqlx::Error> {
        let statements = self.statements();
        let waiting = self.of(query(statements.waiting).bind(i64::MAX));
        let waiting: Vec<OutboxRow> = waiting.fetch_all(&mut *tx).await?;
        let mut position = Position::genesis(epoch);
        for row in &waiting {
            let written = moved_to(&row.body, &position)
                .ok_or_else(|| undecodable(Corrupt::new("outbox.body", "not an event")))?;
            query(statements.rewrite)
                .bind(row.event_id)
                .bind(number(position.chain_epoch))
                .bind(number(position.seq))
                .bind(&written.body)
                .execute(&mut *tx)
                .await?;
            position = after(&position, written.seal);
        }
        self.advance(tx, &position).await?;
        Ok(waiting.len())
    }

    /// Moves the end of the chain to a position, in the caller's transaction.
    pub(crate) async fn advance(&self, tx: &mut Tx<'_>, position: &Position) -> Result<(), sqlx::Error> {
        let prev = match &position.prev {
            Prev::Genesis => None,
            Prev::Event(seal) => Some(&seal.as_bytes()[..]),
        };
        let next = query(self.statements().advance).bind(number(position.chain_epoch)).bind(number(position.seq));
        self.of(next.bind(prev)).execute(tx).await.map(drop)
    }
}

impl Store {
    /// Chains with waiting events: acts of operators first, then identities, longest waiting first.
    #[boxed]
    pub async fn outbox_chains(&self, identities_max: usize) -> Result<Vec<ServiceChain>, StoreError> {
        // One statement: idle nodes execute it every few seconds. The identity of the installation's chain is null.
        const SQL: &str =
            "SELECT CAST(NULL AS TEXT) AS user_cuid WHERE EXISTS (SELECT 1 FROM operator_acts WHERE sent_at IS NULL)
            UNION ALL SELECT user_cuid FROM (SELECT user_cuid FROM consent_outbox GROUP BY user_cuid
                ORDER BY MIN(created_at), user_cuid LIMIT $1) i";
        let rows: Vec<(Option<String>,)> =
            query(SQL).bind(limit(identities_max)).fetch_all(&self.pool).during(Operation::ListChainsInOutbox).await?;
        let mut chains = Vec::with_capacity(rows.len());
        for (user_cuid,) in &rows {
            chains.push(match user_cuid {
                Some(text) => ServiceChain::Identity(parsed("consent_outbox.user_cuid", text)?),
                None => ServiceChain::Installation,
            });
        }
        Ok(chains)
    }

    /// Chains with waiting events, longest waiting first.
    #[boxed]
    pub async fn outbox_overview(&self, rows_max: usize) -> Result<Vec<WaitingChain>, StoreError> {
        const SQL: &str = "SELECT CAST(NULL AS TEXT) AS user_cuid, COUNT(*) AS waiting, MIN(done_at) AS oldest_at
                FROM operator_acts WHERE sent_at IS NULL HAVING COUNT(*) > 0
            UNION ALL SELECT user_cuid, COUNT(*), MIN(created_at) FROM consent_outbox GROUP BY user_cuid
            ORDER BY oldest_at LIMIT $1";
        let rows = query(SQL).bind(limit(rows_max)).fetch_all(&self.pool);
        let rows: Vec<WaitingRow> = rows.during(Operation::ListChainsInOutbox).await?;
        Ok(rows.into_iter().map(WaitingChain::try_from).collect::<Result<_, _>>()?)
    }

    /// The waiting events of a chain, in its order.
    #[boxed]
    pub async fn outbox_of(&self, chain: &ServiceChain, rows_max: usize) -> Result<Vec<OutboxEvent>, StoreError> {
        let waiting = chain.of(query(chain.statements().waiting).bind(limit(rows_max)));
        let rows: Vec<OutboxRow> = waiting.fetch_all(&self.pool).during(Operation::ReadOutbox).await?;
        Ok(rows.into_iter().map(OutboxEvent::try_from).collect::<Result<_, _>>()?)
    }

    /// Stores that the statistics service has accepted an event: an act remains, another event is deleted. `false` if it was not waiting.
    #[boxed]
    pub async fn outbox_done(&self, chain: &ServiceChain, event: EventId, now: Timestamp) -> Result<bool, StoreError> {
        const DELETE: &str = "DELETE FROM consent_outbox WHERE event_id = $1";
        const MARK: &str = "UPDATE operator_acts SET sent_at = $2 WHERE id = $1 AND sent_at IS NULL";
        let done = match chain {
            ServiceChain::Identity(_) => query(DELETE).bind(event.as_uuid()),
            ServiceChain::Installation => query(MARK).bind(event.as_uuid()).bind(now),
        };
        let rows_affected = done.execute(self.pool.writer()).during(Operation::RemoveEventFromOutbox).await?;
        Ok(rows_affected == 1)
    }

    /// Starts a new epoch, at least `epoch`, with all waiting events of a chain: the statistics service refused an event of the epoch
    /// `refused`, because it knows another head of the chain. Returns the number of moved events: 0 if another process has started a new
    /// epoch since.
    #[boxed]
    pub async fn outbox_rechain(&self, chain: &ServiceChain, refused: u64, epoch: u64) -> Result<usize, StoreError> {
        in_transaction!(&self.pool, |tx| {
            let Some(ControlChain { position, .. }) = chain.lock(tx).await? else { return Ok(0) };
            if position.chain_epoch != refused {
                return Ok(0);
            }
            chain.begin_epoch(tx, epoch.max(position.chain_epoch + 1)).await
        })
        .during(Operation::StartChainEpochOfOutbox)
        .await
    }
}

/// An event of the service itself that waits to be forwarded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxEvent {
    /// Id of the event.
    pub id: EventId,
    /// The account that the identity was linked to; `None` for acts.
    pub account: Option<UserAccountId>,
    /// The event, byte for byte as it is sent.
    pub body: Vec<u8>,
}

/// A chain of the service itself with waiting events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingChain {
    /// The chain.
    pub chain: ServiceChain,
    /// Number of waiting events.
    pub waiting: u64,
    /// Time of the oldest one.
    pub oldest_at: Timestamp,
}

crate::row! {
    struct WaitingRow {
        user_cuid: Option<String>,
        waiting: i64,
        oldest_at: Timestamp,
    }
}

impl TryFrom<WaitingRow> for WaitingChain {
    type Error = Corrupt;

    fn try_from(row: WaitingRow) -> Result<Self, Corrupt> {
        let identity = parsed_opt("consent_outbox.user_cuid", row.user_cuid.as_deref())?;
        let chain = identity.map_or(ServiceChain::Installation, ServiceChain::Identity);
        Ok(Self { chain, waiting: row.waiting.unsigned_abs(), oldest_at: row.oldest_at })
    }
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
