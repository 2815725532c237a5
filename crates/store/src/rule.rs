//! Rules of accounts, and the weekly digest (`docs/decisions/0033-notifications.md`).
//!
//! Lock order: the cursor, then the row in `watched_accounts`, then the account's rules. A transaction that starts or ends the watch of an
//! account locks the cursor too, so that the reader starts at the end of the log if no account was watched before.

mod reader;

use domain::Timestamp;
use domain::ids::{RuleId, UserAccountId};
use domain::log_part::LogPart;
use domain::rule::{EventRule, RuleOutlets, RuleState, WeekDigest};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

pub use self::reader::{DigestWrite, RuleCursor, RuleWrite, SEEN_MAX, Watch, WatchWrite};
use crate::error::{Corrupt, StoreError};
use crate::operation::{During, Operation};
use crate::outbox::number;
use crate::pool::{Tx, query, scalar};
use crate::row::{parsed, storable};
use crate::{Store, in_transaction, log_part};

/// The columns of [`RuleRow`].
pub(crate) const RULES: &str = "SELECT id, account_id, name, conditions, sends_mail, sends_notices, created_at, state
    FROM rules WHERE account_id = $1 ORDER BY created_at, id";

/// A rule with its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRule {
    /// The rule.
    pub rule: EventRule,
    /// Its counts since the last message.
    pub state: RuleState,
}

impl Store {
    /// Adds a rule; `false` if the account has `per_account_max` rules. `leaves` are the numbers of leaves of the parts of the log, read before
    /// the call.
    #[boxed]
    pub async fn rule_create(
        &self,
        rule: &EventRule,
        leaves: &[(LogPart, u64)],
        per_account_max: u32,
    ) -> Result<bool, StoreError> {
        const COUNT: &str = "SELECT COUNT(*) FROM rules WHERE account_id = $1";
        const ADD: &str = "INSERT INTO rules (id, account_id, name, conditions, sends_mail, sends_notices, created_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7)";
        let account = rule.account.as_str();
        in_transaction!(
            &self.pool,
            |tx| {
                watch(tx, account, leaves, rule.created_at).await?;
                let existing: i64 = scalar(COUNT).bind(account).fetch_one(&mut *tx).await?;
                if existing >= i64::from(per_account_max) {
                    return Ok(false);
                }
                query(ADD)
                    .bind(rule.id.as_uuid())
                    .bind(account)
                    .bind(storable(rule.name.as_str()))
                    .bind(json(&rule.when))
                    .bind(rule.outlets.mail)
                    .bind(rule.outlets.notify)
                    .bind(rule.created_at)
                    .execute(&mut *tx)
                    .await?;
                Ok(true)
            },
            commit if |added| *added
        )
        .during(Operation::CreateRule)
        .await
    }

    /// The rules of an account, oldest first.
    #[boxed]
    pub async fn rules_of_account(&self, account: &UserAccountId) -> Result<Vec<StoredRule>, StoreError> {
        let rows = query(RULES).bind(account.as_str()).fetch_all(&self.pool);
        let rows: Vec<RuleRow> = rows.during(Operation::ListRulesOfAccount).await?;
        Ok(rows.into_iter().map(StoredRule::try_from).collect::<Result<_, _>>()?)
    }

    /// Deletes a rule; `false` if the account has no such rule.
    #[boxed]
    pub async fn rule_delete(&self, id: RuleId, account: &UserAccountId) -> Result<bool, StoreError> {
        const SQL: &str = "DELETE FROM rules WHERE id = $1 AND account_id = $2";
        in_transaction!(
            &self.pool,
            |tx| {
                lock(tx, account.as_str()).await?;
                let rows_affected = query(SQL).bind(id.as_uuid()).bind(account.as_str()).execute(&mut *tx).await?;
                unwatch(tx, account.as_str()).await?;
                Ok(rows_affected == 1)
            },
            commit if |deleted| *deleted
        )
        .during(Operation::DeleteRule)
        .await
    }

    /// Switches the digest on, with its first mail at `first_at`, or off. `leaves` as in [`Self::rule_create`]. Does nothing if it already
    /// is on or off.
    #[boxed]
    pub async fn digest_set(
        &self,
        account: &UserAccountId,
        first_at: Option<Timestamp>,
        leaves: &[(LogPart, u64)],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        const ON: &str = "UPDATE watched_accounts SET digest_at = $2, digest = $3
            WHERE account_id = $1 AND digest_at IS NULL";
        const OFF: &str = "UPDATE watched_accounts SET digest_at = NULL, digest = '{}' WHERE account_id = $1";
        let account = account.as_str();
        in_transaction!(&self.pool, |tx| {
            if let Some(at) = first_at {
                watch(tx, account, leaves, now).await?;
                let digest = json(&WeekDigest::starting(now));
                query(ON).bind(account).bind(at).bind(digest).execute(&mut *tx).await?;
            } else {
                lock(tx, account).await?;
                query(OFF).bind(account).execute(&mut *tx).await?;
                unwatch(tx, account).await?;
            }
            Ok(())
        })
        .during(Operation::ChangeDigest)
        .await
    }

    /// The time of the next digest of an account; `None` if it is off.
    #[boxed]
    pub async fn digest_of_account(&self, account: &UserAccountId) -> Result<Option<Timestamp>, StoreError> {
        const SQL: &str = "SELECT digest_at FROM watched_accounts WHERE account_id = $1 AND digest_at IS NOT NULL";
        let statement = scalar(SQL).bind(account.as_str()).fetch_optional(&self.pool);
        statement.during(Operation::ReadDigest).await
    }
}

/// Starts to watch an account. The first one moves the reader to the end of the log, which was not read before.
async fn watch(tx: &mut Tx<'_>, account: &str, leaves: &[(LogPart, u64)], now: Timestamp) -> Result<(), sqlx::Error> {
    const START: &str = "UPDATE rule_cursor SET place = $1, turn = turn + 1
        WHERE id = 1 AND NOT EXISTS (SELECT 1 FROM watched_accounts)";
    const FURTHER: &str = "UPDATE log_parts SET rule_place = $2 WHERE log_part = $1";
    const ADD: &str = "INSERT INTO watched_accounts (account_id, watched_since) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    lock(tx, account).await?;
    let first = leaves.iter().find(|(part, _)| part.is_first()).map_or(0, |(_, leaves)| *leaves);
    if query(START).bind(number(first)).execute(&mut *tx).await? == 1 {
        for (part, leaves) in leaves {
            query(FURTHER).bind(log_part::stored(*part)).bind(number(*leaves)).execute(&mut *tx).await?;
        }
    }
    query(ADD).bind(account).bind(now).execute(tx).await.map(drop)
}

/// Locks the cursor and the account.
async fn lock(tx: &mut Tx<'_>, account: &str) -> Result<(), sqlx::Error> {
    const CURSOR: &str = "UPDATE rule_cursor SET turn = turn WHERE id = 1";
    const ACCOUNT: &str = "UPDATE watched_accounts SET account_id = account_id WHERE account_id = $1";
    query(CURSOR).execute(&mut *tx).await?;
    query(ACCOUNT).bind(account).execute(tx).await.map(drop)
}

/// Ends to watch an account without rules and digest.
async fn unwatch(tx: &mut Tx<'_>, account: &str) -> Result<(), sqlx::Error> {
    const END: &str = "DELETE FROM watched_accounts WHERE account_id = $1 AND digest_at IS NULL
        AND NOT EXISTS (SELECT 1 FROM rules WHERE account_id = $1)";
    const FORGET: &str = "DELETE FROM seen_values WHERE account_id = $1";
    if query(END).bind(account).execute(&mut *tx).await? == 1 {
        query(FORGET).bind(account).execute(tx).await?;
    }
    Ok(())
}

/// A value as a column. These types always have a JSON form.
pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

pub(crate) fn read_json<T: DeserializeOwned>(column: &'static str, text: &str) -> Result<T, Corrupt> {
    serde_json::from_str(text).map_err(|error| Corrupt::new(column, error))
}

crate::row! {
    pub(crate) struct RuleRow {
        id: Uuid,
        account_id: String,
        name: String,
        conditions: String,
        sends_mail: bool,
        sends_notices: bool,
        created_at: Timestamp,
        state: String,
    }
}

impl TryFrom<RuleRow> for StoredRule {
    type Error = Corrupt;

    fn try_from(row: RuleRow) -> Result<Self, Corrupt> {
        let rule = EventRule {
            id: row.id.into(),
            account: parsed("rules.account_id", &row.account_id)?,
            name: parsed("rules.name", &row.name)?,
            when: read_json("rules.conditions", &row.conditions)?,
            outlets: RuleOutlets { mail: row.sends_mail, notify: row.sends_notices },
            created_at: row.created_at,
        };
        Ok(Self { rule, state: read_json("rules.state", &row.state)? })
    }
}
