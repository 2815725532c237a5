//! Events that were acknowledged but not forwarded (`docs/decisions/0007-held-events.md`).
//!
//! An entry is `held` until it is released (forwarded after all) or discarded (by an operator). The store keeps the body for that time, and
//! never without the person's consent. On PostgreSQL every transaction that changes held events locks the senders first, in `held_senders`:
//! quotas of senders are exact between processes. The total is the sum of the rows of `held_totals`; a transaction adds to any row, so
//! that transactions do not wait for each other.

mod counts;
mod insert;
mod row;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use chrono::TimeDelta;
use domain::envelope::PartialEnvelope;
use domain::held::HoldReason;
use domain::ids::{EventId, HeldId, MachineUuid, ReceiptId, RegistrationId, UserAccountId, UserCuid};
use domain::{Digest, Timestamp};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use self::counts::HeldCount;
use self::row::{EntryRow, SELECT_ENTRY, UnclassifiedRow};
use crate::error::{Corrupt, StoreError};
use crate::operation::{During, Operation};
use crate::pool::{Tx, probe, query, scalar};
use crate::row::limit;
use crate::{Store, in_transaction, joined, probes};

/// The party with the credential that brought an event.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Sender {
    /// A computer, by its secret.
    Machine(MachineUuid),
    /// An agent, claimed or not.
    Registration(RegistrationId),
    /// A browser of a signed-in person.
    Account(UserAccountId),
}

/// The key of rows: `machine:<uuid>`, `registration:<id>`, `account:<id>`.
impl fmt::Display for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine(id) => write!(f, "machine:{id}"),
            Self::Registration(id) => write!(f, "registration:{id}"),
            Self::Account(id) => write!(f, "account:{id}"),
        }
    }
}

impl Sender {
    /// The agent, if it is one.
    pub fn registration(&self) -> Option<RegistrationId> {
        match self {
            Self::Registration(id) => Some(*id),
            Self::Machine(_) | Self::Account(_) => None,
        }
    }
}

/// A text that is no sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected machine:, registration: or account: and an id")]
pub struct UnknownSender;

impl FromStr for Sender {
    type Err = UnknownSender;

    fn from_str(text: &str) -> Result<Self, UnknownSender> {
        let (kind, id) = text.split_once(':').ok_or(UnknownSender)?;
        match kind {
            "machine" => id.parse().map(Self::Machine).map_err(|_| UnknownSender),
            "registration" => id.parse().map(Self::Registration).map_err(|_| UnknownSender),
            "account" => id.parse().map(Self::Account).map_err(|_| UnknownSender),
            _ => Err(UnknownSender),
        }
    }
}

/// An event that is to be held.
#[derive(Debug, Clone)]
pub struct NewHeld {
    /// Chosen by the caller; entries are listed by it, the newest first.
    pub id: HeldId,
    /// The sender, by its credential.
    pub sender: Sender,
    /// The account that an agent acts for; `None` for an unclaimed agent. Ignored for a computer: its entries belong to the account that it
    /// is attached to.
    pub account: Option<UserAccountId>,
    /// The identity of the sending computer.
    pub user_cuid: Option<UserCuid>,
    /// The members of the envelope that could be read.
    pub outline: PartialEnvelope,
    /// Why it is held.
    pub reason: HoldReason,
    /// Location and kind of the fault, for a person.
    pub detail: String,
    /// The received bytes; `None` if they must not be stored.
    pub body: Option<Vec<u8>>,
    /// SHA-256 of the received bytes, stored or not.
    pub body_sha256: Digest,
    /// Number of received bytes.
    pub body_bytes: u64,
    /// The computed seal of the event; `None` if the event could not be read.
    pub seal: Option<Digest>,
    /// When the event was received.
    pub received_at: Timestamp,
}

/// How much may be held. An entry counts its kept bytes, and at least [`ENTRY_BYTES_MIN`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct HeldQuotas {
    pub registration_bytes_per_day: u64,
    pub total_bytes: u64,
    pub sender_percent: u8,
}

/// Minimum charge of an entry: many tiny events are many rows.
pub const ENTRY_BYTES_MIN: u64 = 512;

/// What every sender may have, however small the whole is: a body of the default largest size.
pub const SENDER_BYTES_MIN: u64 = 256 * 1024;

impl HeldQuotas {
    /// What one sender may have.
    pub fn sender_bytes(&self) -> u64 {
        let part = u128::from(self.total_bytes) * u128::from(self.sender_percent.min(100)) / 100;
        u64::try_from(part).unwrap_or(u64::MAX).max(SENDER_BYTES_MIN)
    }
}

impl Default for HeldQuotas {
    fn default() -> Self {
        Self { registration_bytes_per_day: 1024 * 1024, total_bytes: 4 * 1024 * 1024 * 1024, sender_percent: 1 }
    }
}

/// What became of an event that was to be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldOutcome {
    /// It is held now.
    Held(HeldId),
    /// The same bytes of the same sender are held already, as this entry; nothing was added.
    AlreadyHeld(HeldId),
    /// Another process is holding or ending events of the same sender, and did not finish in time; nothing was added.
    Busy,
    /// There is no room for it.
    QuotaExceeded {
        /// How long until there may be some.
        retry_after: TimeDelta,
    },
}

/// State of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HeldState {
    /// Waits to be released or discarded.
    Held,
    /// Was forwarded after all.
    Released,
    /// Was given up by an operator.
    Discarded,
}

impl HeldState {
    /// The state as rows keep it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Released => "released",
            Self::Discarded => "discarded",
        }
    }
}

impl FromStr for HeldState {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let all = [Self::Held, Self::Released, Self::Discarded];
        all.into_iter().find(|state| state.as_str() == text).ok_or("expected one of held, released, discarded")
    }
}

/// An entry, as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldEntry {
    /// Id of the entry.
    pub id: HeldId,
    /// The sender, by its credential.
    pub sender: Sender,
    /// The list that shows it, in addition to the list of the computer's account.
    pub account: Option<UserAccountId>,
    /// The identity of the sending computer.
    pub user_cuid: Option<UserCuid>,
    /// The members of the envelope that could be read.
    pub outline: PartialEnvelope,
    /// Why it is held.
    pub reason: HoldReason,
    /// Location and kind of the fault, for a person.
    pub detail: String,
    /// SHA-256 of the received bytes.
    pub body_sha256: Digest,
    /// Number of received bytes.
    pub body_bytes: u64,
    /// The computed seal of the event.
    pub seal: Option<Digest>,
    /// When the event was received.
    pub received_at: Timestamp,
    /// Its state.
    pub state: HeldState,
    /// Since when, once it is no longer held.
    pub state_at: Option<Timestamp>,
    /// Of a released entry.
    pub receipt: Option<ReceiptId>,
}

/// Which entries an operator wants to see.
#[derive(Debug, Clone, Default)]
pub struct HeldFilter {
    /// Only in this state.
    pub state: Option<HeldState>,
    /// Only for this reason.
    pub reason: Option<HoldReason>,
    /// Only of this sender.
    pub sender: Option<Sender>,
    /// Only older than this entry: the last of the page before.
    pub before: Option<HeldId>,
}

/// The entries that a [`HeldFilter`] includes, from parameters 1 to 4.
const MATCHES: &str =
    " WHERE ($1 IS NULL OR state = $1) AND ($2 IS NULL OR reason = $2) AND ($3 IS NULL OR sender = $3)
    AND ($4 IS NULL OR id < $4)";

/// The held events that a party may see, and that its resend may release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeldScope {
    /// What this computer's own secret sent.
    Machine(MachineUuid),
    /// What an account's browsers and agents sent, and its attached computers.
    Account(UserAccountId),
}

/// An entry of `unclassified` (`docs/protocol/events.md#unclassified-entries`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unclassified {
    /// Id of the entry.
    pub id: HeldId,
    /// `event_id`.
    pub event_id: Option<EventId>,
    /// `event_type`.
    pub event_type: Option<String>,
    /// `agent_id`.
    pub agent_id: Option<String>,
    /// The computer that sent it, or that an account's event names; `None` for events sent before the claim.
    pub machine_uuid: Option<MachineUuid>,
    /// Why it is held.
    pub reason: HoldReason,
    /// Where and why, for a person, in the words of the newest warning. That of a malformed event which is not stored quotes no member.
    pub detail: String,
    /// When the event was received.
    pub received_at: Timestamp,
}

/// Which entries a transaction is going to end.
pub(crate) enum Ending<'a> {
    /// One entry.
    One(HeldId),
    /// The entries of an event, in a scope.
    Event(EventId, &'a HeldScope),
    /// The entries of a computer.
    Machine(Uuid),
    /// The entries in an account's list, of its agents.
    Account(&'a UserAccountId),
}

/// Locks the senders of entries that are going to end, before the entries, as [`Store::held_insert`] does. SQLite has one writer.
pub(crate) async fn lock_senders(tx: &mut Tx<'_>, ending: &Ending<'_>) -> Result<(), sqlx::Error> {
    const LOCK: [&str; 2] = [
        "SELECT s.sender FROM (SELECT set_config('lock_timeout', '500ms', TRUE) OFFSET 0) AS c
            CROSS JOIN held_senders s WHERE s.sender IN (SELECT h.sender FROM held_events h WHERE h.state = 'held' AND ",
        ") ORDER BY s.sender FOR UPDATE OF s",
    ];
    const OF_ONE: &str = joined!(LOCK[0], "h.id = $1", LOCK[1]);
    const OF_MACHINE: &str = joined!(LOCK[0], "h.machine_uuid = $1", LOCK[1]);
    const OF_ACCOUNT: &str = joined!(LOCK[0], "h.account_id = $1", LOCK[1]);
    const OF_EVENT_OF_MACHINE: &str = joined!(LOCK[0], "h.event_id = $1 AND h.machine_uuid = $2", LOCK[1]);
    const OF_EVENT_OF_ACCOUNT: &str = joined!(
        LOCK[0],
        "h.event_id = $1 AND (h.account_id = $2
            OR h.machine_uuid IN (SELECT m.machine_uuid FROM machines m WHERE m.account_id = $2))",
        LOCK[1]
    );
    if !tx.is_postgres() {
        return Ok(());
    }
    let lock = match ending {
        Ending::One(id) => query(OF_ONE).bind(id.as_uuid()),
        Ending::Machine(machine) => query(OF_MACHINE).bind(*machine),
        Ending::Account(account) => query(OF_ACCOUNT).bind(account.as_str()),
        Ending::Event(event, HeldScope::Machine(machine)) => {
            query(OF_EVENT_OF_MACHINE).bind(event.as_uuid()).bind(machine.as_uuid())
        }
        Ending::Event(event, HeldScope::Account(account)) => {
            query(OF_EVENT_OF_ACCOUNT).bind(event.as_uuid()).bind(account.as_str())
        }
    };
    lock.execute(tx).await.map(drop)
}

/// Whether a statement waited too long for the lock of another transaction.
pub(crate) fn is_lock_timeout(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| error.code().as_deref() == Some("55P03"))
}

/// Adds to the sum of all senders; on PostgreSQL to a row that no other transaction has locked, or to a new one.
pub(crate) async fn add_total(tx: &mut Tx<'_>, bytes: i64) -> Result<(), sqlx::Error> {
    const SQLITE: &str = "UPDATE held_totals SET bytes = bytes + $1 WHERE id = 1";
    const POSTGRES: &str = "INSERT INTO held_totals (id, bytes)
        SELECT COALESCE((SELECT t.id FROM held_totals t LIMIT 1 FOR UPDATE SKIP LOCKED),
            CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)), $1
        ON CONFLICT (id) DO UPDATE SET bytes = held_totals.bytes + excluded.bytes";
    query(if tx.is_postgres() { POSTGRES } else { SQLITE }).bind(bytes).execute(tx).await.map(drop)
}

/// Subtracts entries that are no longer held, as pairs of sender and charge, from the totals. The caller's transaction has locked the senders.
pub(crate) async fn subtract_held(tx: &mut Tx<'_>, gone: &[(String, i64)]) -> Result<(), sqlx::Error> {
    const SENDER_LESS: &str = "UPDATE held_senders SET bytes = bytes - $2 WHERE sender = $1";
    let senders = by_sender(gone);
    for (sender, bytes) in &senders {
        query(SENDER_LESS).bind(*sender).bind(*bytes).execute(&mut *tx).await?;
        end_sender(tx, sender).await?;
    }
    if !senders.is_empty() {
        add_total(tx, -senders.values().sum::<i64>()).await?;
    }
    Ok(())
}

/// Deletes the row of a sender that has nothing.
async fn end_sender(tx: &mut Tx<'_>, sender: &str) -> Result<(), sqlx::Error> {
    const SQL: &str = "DELETE FROM held_senders WHERE sender = $1 AND bytes <= 0";
    query(SQL).bind(sender).execute(tx).await.map(drop)
}

/// Charges, summed by sender.
fn by_sender(charges: &[(String, i64)]) -> BTreeMap<&str, i64> {
    let mut sums = BTreeMap::new();
    for (sender, bytes) in charges {
        *sums.entry(sender.as_str()).or_default() += bytes;
    }
    sums
}

impl Store {
    /// Marks the held entries of an event as released, because the same event was forwarded now; the number of entries. Only
    /// entries in `scope` count: an event id is the sender's to choose, so a stranger's entry may bear the same.
    #[boxed]
    pub async fn held_mark_released(
        &self,
        event: EventId,
        scope: &HeldScope,
        receipt: ReceiptId,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        const OPERATION: Operation = Operation::MarkHeldEventAsReleased;
        const OF_MACHINE: &str =
            "UPDATE held_events SET state = 'released', state_at = $2, receipt_id = $3, body = NULL
            WHERE event_id = $1 AND state = 'held' AND machine_uuid = $4 RETURNING sender, charged_bytes";
        const OF_ACCOUNT: &str =
            "UPDATE held_events SET state = 'released', state_at = $2, receipt_id = $3, body = NULL
            WHERE event_id = $1 AND state = 'held'
                AND (account_id = $4 OR machine_uuid IN (SELECT machine_uuid FROM machines WHERE account_id = $4))
            RETURNING sender, charged_bytes";
        // Most events of a sender that has something held are not the held ones: they need not wait for the writer.
        let waiting = probe(probes::HELD_OF_EVENT).bind(event.as_uuid()).fetch_optional(&self.pool);
        let waiting = waiting.during(OPERATION).await?;
        if waiting.is_none_or(|waiting| waiting.entries == 0) {
            return Ok(0);
        }
        in_transaction!(
            &self.pool,
            |tx| {
                lock_senders(tx, &Ending::Event(event, scope)).await?;
                let gone: Vec<(String, i64)> = match scope {
                    HeldScope::Machine(machine) => query(OF_MACHINE)
                        .bind(event.as_uuid())
                        .bind(now)
                        .bind(receipt.as_uuid())
                        .bind(machine.as_uuid())
                        .fetch_all(&mut *tx)
                        .await?,
                    HeldScope::Account(account) => query(OF_ACCOUNT)
                        .bind(event.as_uuid())
                        .bind(now)
                        .bind(receipt.as_uuid())
                        .bind(account.as_str())
                        .fetch_all(&mut *tx)
                        .await?,
                };
                subtract_held(tx, &gone).await?;
                Ok(gone.len() as u64)
            },
            commit if |released| *released > 0
        )
        .during(OPERATION)
        .await
    }

    /// Marks an entry as released: for operators, after it was forwarded. `false` when it is not held.
    #[boxed]
    pub async fn held_release(&self, id: HeldId, receipt: ReceiptId, now: Timestamp) -> Result<bool, StoreError> {
        self.held_end(id, HeldState::Released, Some(receipt), now).during(Operation::ReleaseHeldEvent).await
    }

    /// Gives an entry up: for operators. `false` when it is not held.
    #[boxed]
    pub async fn held_discard(&self, id: HeldId, now: Timestamp) -> Result<bool, StoreError> {
        self.held_end(id, HeldState::Discarded, None, now).during(Operation::DiscardHeldEvent).await
    }

    async fn held_end(
        &self,
        id: HeldId,
        state: HeldState,
        receipt: Option<ReceiptId>,
        now: Timestamp,
    ) -> Result<bool, sqlx::Error> {
        const SQL: &str = "UPDATE held_events SET state = $2, state_at = $3, receipt_id = $4, body = NULL
            WHERE id = $1 AND state = 'held' RETURNING sender, charged_bytes";
        in_transaction!(
            &self.pool,
            |tx| {
                lock_senders(tx, &Ending::One(id)).await?;
                let gone: Option<(String, i64)> = query(SQL)
                    .bind(id.as_uuid())
                    .bind(state.as_str())
                    .bind(now)
                    .bind(receipt.map(|receipt| receipt.as_uuid()))
                    .fetch_optional(&mut *tx)
                    .await?;
                subtract_held(tx, gone.as_slice()).await?;
                if gone.is_some() {
                    self.record_act(tx, now).await?;
                }
                Ok(gone.is_some())
            },
            commit if |ended| *ended
        )
        .await
    }

    /// Entries for operators, newest first.
    #[boxed]
    pub async fn held_list(&self, filter: &HeldFilter, rows_max: usize) -> Result<Vec<HeldEntry>, StoreError> {
        const SQL: &str = joined!(SELECT_ENTRY, MATCHES, " ORDER BY id DESC LIMIT $5");
        let sender = filter.sender.as_ref().map(ToString::to_string);
        let rows: Vec<EntryRow> = query(SQL)
            .bind(filter.state.map(HeldState::as_str))
            .bind(filter.reason.map(HoldReason::as_str))
            .bind(sender)
            .bind(filter.before.map(|id| id.as_uuid()))
            .bind(limit(rows_max))
            .fetch_all(&self.pool)
            .during(Operation::ListHeldEvents)
            .await?;
        Ok(rows.into_iter().map(HeldEntry::try_from).collect::<Result<_, Corrupt>>()?)
    }

    /// Ids of matching entries after this one, oldest first.
    #[boxed]
    pub async fn held_ids(
        &self,
        filter: &HeldFilter,
        after: Option<HeldId>,
        rows_max: usize,
    ) -> Result<Vec<HeldId>, StoreError> {
        const SQL: &str =
            joined!("SELECT id FROM held_events", MATCHES, " AND ($5 IS NULL OR id > $5) ORDER BY id LIMIT $6");
        let sender = filter.sender.as_ref().map(ToString::to_string);
        let ids: Vec<Uuid> = scalar(SQL)
            .bind(filter.state.map(HeldState::as_str))
            .bind(filter.reason.map(HoldReason::as_str))
            .bind(sender)
            .bind(filter.before.map(|id| id.as_uuid()))
            .bind(after.map(|id| id.as_uuid()))
            .bind(limit(rows_max))
            .fetch_all(&self.pool)
            .during(Operation::ListHeldEvents)
            .await?;
        Ok(ids.into_iter().map(Into::into).collect())
    }

    /// An entry and its body, as long as it is kept.
    #[boxed]
    pub async fn held_show(&self, id: HeldId) -> Result<Option<(HeldEntry, Option<Vec<u8>>)>, StoreError> {
        const OPERATION: Operation = Operation::ReadHeldEvent;
        const SQL: &str = joined!(SELECT_ENTRY, " WHERE id = $1");
        const BODY: &str = "SELECT body FROM held_events WHERE id = $1";
        let row: Option<EntryRow> = query(SQL).bind(id.as_uuid()).fetch_optional(&self.pool).during(OPERATION).await?;
        let Some(row) = row else {
            return Ok(None);
        };
        let body: Option<Option<Vec<u8>>> =
            scalar(BODY).bind(id.as_uuid()).fetch_optional(&self.pool).during(OPERATION).await?;
        Ok(Some((row.try_into()?, body.flatten())))
    }

    /// The body of an entry, as long as it is kept and has at most `bytes_max` bytes.
    #[boxed]
    pub async fn held_body(&self, id: HeldId, bytes_max: u32) -> Result<Option<Vec<u8>>, StoreError> {
        const SQL: &str = "SELECT body FROM held_events WHERE id = $1 AND body_bytes <= $2";
        let body: Option<Option<Vec<u8>>> = scalar(SQL)
            .bind(id.as_uuid())
            .bind(i64::from(bytes_max))
            .fetch_optional(&self.pool)
            .during(Operation::ReadHeldEvent)
            .await?;
        Ok(body.flatten())
    }

    /// What waits in someone's list, newest first, and whether there is more.
    #[boxed]
    pub async fn held_unclassified(
        &self,
        scope: &HeldScope,
        rows_max: usize,
    ) -> Result<(Vec<Unclassified>, bool), StoreError> {
        const OPERATION: Operation = Operation::ListUnclassifiedEvents;
        const OF_MACHINE: &str = "SELECT id, event_id, event_type, agent_id, machine_uuid, reason, detail, received_at
            FROM held_events WHERE machine_uuid = $1 AND state = 'held' ORDER BY id DESC LIMIT $2";
        // Two lists that an index returns in order. An entry of a computer has no account, so no entry is in both. The literal is
        // `HoldReason::Unattributed`: such an event belongs to no computer, although its scope may name one.
        const OF_ACCOUNT: &str =
            "SELECT id, event_id, event_type, agent_id, machine_uuid, reason, detail, received_at FROM (
                SELECT * FROM (
                    SELECT id, event_id, event_type, agent_id,
                        CASE WHEN reason = 'unattributed' THEN NULL ELSE event_machine_uuid END AS machine_uuid,
                        reason, detail, received_at
                    FROM held_events WHERE account_id = $1 AND state = 'held' ORDER BY id DESC LIMIT $2) AS own
                UNION ALL
                SELECT * FROM (
                    SELECT id, event_id, event_type, agent_id, machine_uuid, reason, detail, received_at
                    FROM held_events
                    WHERE machine_uuid IN (SELECT machine_uuid FROM machines WHERE account_id = $1) AND state = 'held'
                    ORDER BY id DESC LIMIT $2) AS attached) AS waiting
            ORDER BY id DESC LIMIT $2";
        let one_more = limit(rows_max.saturating_add(1));
        let query = match scope {
            HeldScope::Machine(machine) => query(OF_MACHINE).bind(machine.as_uuid()),
            HeldScope::Account(account) => query(OF_ACCOUNT).bind(account.as_str()),
        };
        let mut rows: Vec<UnclassifiedRow> = query.bind(one_more).fetch_all(&self.pool).during(OPERATION).await?;
        let truncated = rows.len() > rows_max;
        rows.truncate(rows_max);
        Ok((rows.into_iter().map(Unclassified::try_from).collect::<Result<_, Corrupt>>()?, truncated))
    }

    /// What all held events count against [`HeldQuotas::total_bytes`].
    #[boxed]
    pub async fn held_bytes(&self) -> Result<u64, StoreError> {
        const SQL: &str = "SELECT CAST(SUM(bytes) AS BIGINT) FROM held_totals";
        let bytes: i64 = scalar(SQL).fetch_one(&self.pool).during(Operation::ReadSizeOfHeldEvents).await?;
        Ok(bytes.try_into().map_err(|error| Corrupt::new("held_totals.bytes", error))?)
    }
}
