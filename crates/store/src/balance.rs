//! The ledger of an account's purchased balance. The balance is a column of the account and changes with every entry.

use domain::ids::UserAccountId;
use domain::{Rng, Timestamp};
use serde_json::json;
use uuid::Uuid;

use crate::error::{Corrupt, StoreError};
use crate::operation::{During, Operation};
use crate::pool::{query, scalar};
use crate::row::{limit, parsed, storable};
use crate::{Store, in_transaction};

/// An entry of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BalanceEntry {
    /// Time-ordered id.
    pub id: Uuid,
    /// Account of the entry.
    pub account: UserAccountId,
    /// Amount in US cents; negative for a withdrawal.
    pub cents: i64,
    /// Reason, as entered by an operator.
    pub reason: String,
    /// Time of the entry.
    pub created_at: Timestamp,
}

/// Result of adding an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BalanceAdd {
    /// The entry was added; the new balance in US cents.
    Added(i64),
    /// There is no such account.
    NoAccount,
    /// The balance would exceed 2^53 cents, the largest range in which JSON numbers are exact everywhere.
    OutOfRange,
}

/// Maximum absolute value of a balance, in US cents.
const BALANCE_MAX: i64 = 1 << 53;

impl Store {
    /// Changes the balance of an account and stores the entry.
    #[boxed]
    pub async fn balance_add(
        &self,
        account: &UserAccountId,
        cents: i64,
        reason: &str,
        now: Timestamp,
        rng: &Rng,
    ) -> Result<BalanceAdd, StoreError> {
        const LOCK: &str =
            "UPDATE accounts SET balance_cents = balance_cents WHERE user_account_id = $1 RETURNING balance_cents";
        const MOVE: &str = "UPDATE accounts SET balance_cents = $2 WHERE user_account_id = $1";
        const ENTER: &str = "INSERT INTO balance_entries (id, account_id, cents, reason, created_at)
            VALUES ($1, $2, $3, $4, $5)";
        let (id, reason) = (rng.uuid_v7(now), storable(reason));
        in_transaction!(
            &self.pool,
            |tx| {
                let previous: Option<i64> =
                    scalar(LOCK).bind(account.as_str()).fetch_optional(&mut *tx).await?;
                let Some(previous) = previous else { return Ok(BalanceAdd::NoAccount) };
                let after = previous.checked_add(cents).filter(|after| (-BALANCE_MAX..=BALANCE_MAX).contains(after));
                let Some(after) = after else { return Ok(BalanceAdd::OutOfRange) };
                query(MOVE).bind(account.as_str()).bind(after).execute(&mut *tx).await?;
                query(ENTER)
                    .bind(id)
                    .bind(account.as_str())
                    .bind(cents)
                    .bind(&*reason)
                    .bind(now)
                    .execute(&mut *tx)
                    .await?;
                let change = (json!({ "balance_cents": previous }), json!({ "balance_cents": after }));
                self.record_change(tx, change, now).await?;
                Ok(BalanceAdd::Added(after))
            },
            commit if |outcome| matches!(outcome, BalanceAdd::Added(_))
        )
        .during(Operation::MoveBalance)
        .await
    }

    /// The entries of an account, newest first.
    #[boxed]
    pub async fn balance_entries(
        &self,
        account: &UserAccountId,
        rows_max: usize,
    ) -> Result<Vec<BalanceEntry>, StoreError> {
        const SQL: &str = "SELECT id, account_id, cents, reason, created_at FROM balance_entries
            WHERE account_id = $1 ORDER BY id DESC LIMIT $2";
        let rows: Vec<EntryRow> = query(SQL)
            .bind(account.as_str())
            .bind(limit(rows_max))
            .fetch_all(&self.pool)
            .during(Operation::ListEntriesOfBalance)
            .await?;
        Ok(rows.into_iter().map(BalanceEntry::try_from).collect::<Result<_, _>>()?)
    }
}

crate::row! {
    struct EntryRow {
        id: Uuid,
        account_id: String,
        cents: i64,
        reason: String,
        created_at: Timestamp,
    }
}

impl TryFrom<EntryRow> for BalanceEntry {
    type Error = Corrupt;

    fn try_from(row: EntryRow) -> Result<Self, Corrupt> {
        Ok(Self {
            id: row.id,
            account: parsed("balance_entries.account_id", &row.account_id)?,
            cents: row.cents,
            reason: row.reason,
            created_at: row.created_at,
        })
    }
}
