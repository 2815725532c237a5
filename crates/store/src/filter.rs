//! Content filters of accounts, and their decisions (`docs/decisions/0025-from-url-to-text.md`).

use domain::Timestamp;
use domain::filter::{FilterSettings, FilterVerdict};
use domain::ids::{BatchId, UserAccountId};
use uuid::Uuid;

use crate::error::{Corrupt, StoreError};
use crate::operation::{During, Operation};
use crate::pool::{query, scalar};
use crate::row::{limit, storable};
use crate::{Store, in_transaction};

/// One decision of a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FiledVerdict {
    /// The subject: a URL, or the title of a note.
    pub subject: String,
    /// The decision.
    pub verdict: FilterVerdict,
    /// Time of the decision.
    pub created_at: Timestamp,
}

impl Store {
    /// The settings of an account; the default, without conditions, if it has none.
    #[boxed]
    pub async fn filter_settings(&self, account: &UserAccountId) -> Result<FilterSettings, StoreError> {
        const SQL: &str = "SELECT settings FROM knowledge_settings WHERE account_id = $1";
        let text: Option<String> = scalar(SQL)
            .bind(account.as_str())
            .fetch_optional(&self.pool)
            .during(Operation::ReadFilterSettingsOfAccount)
            .await?;
        let corrupt = |error| Corrupt::new(COLUMN, error);
        Ok(text.map(|text| serde_json::from_str(&text).map_err(corrupt)).transpose()?.unwrap_or_default())
    }

    /// Replaces the settings of an account.
    #[boxed]
    pub async fn filter_settings_set(
        &self,
        account: &UserAccountId,
        settings: &FilterSettings,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        const SQL: &str = "INSERT INTO knowledge_settings (account_id, settings, updated_at) VALUES ($1, $2, $3)
            ON CONFLICT (account_id) DO UPDATE SET settings = excluded.settings, updated_at = excluded.updated_at";
        let text = serde_json::to_string(settings).unwrap_or_default();
        query(SQL)
            .bind(account.as_str())
            .bind(&text)
            .bind(now)
            .execute(self.pool.writer())
            .during(Operation::ChangeFilterSettingsOfAccount)
            .await
            .map(drop)
    }

    /// Changes the settings of an account within a transaction that locks them; returns the new ones. An error of `change` leaves them
    /// unchanged.
    pub async fn filter_settings_change<E: Send>(
        &self,
        account: &UserAccountId,
        change: impl FnOnce(FilterSettings) -> Result<FilterSettings, E> + Send,
        now: Timestamp,
    ) -> Result<Result<FilterSettings, E>, StoreError> {
        // Locks the row, and inserts it if it is absent.
        const TAKE: &str = "INSERT INTO knowledge_settings (account_id, settings, updated_at) VALUES ($1, '{}', $2)
            ON CONFLICT (account_id) DO UPDATE SET updated_at = excluded.updated_at RETURNING settings";
        const WRITE: &str = "UPDATE knowledge_settings SET settings = $2 WHERE account_id = $1";
        let changed = in_transaction!(
            &self.pool,
            |tx| {
                let take = scalar(TAKE).bind(account.as_str()).bind(now);
                let text: String = take.fetch_one(&mut *tx).await?;
                let existing = match serde_json::from_str(&text) {
                    Ok(existing) => existing,
                    Err(error) => return Ok(Err(Unchanged::Unreadable(error))),
                };
                let settings = match change(existing) {
                    Ok(settings) => settings,
                    Err(refusal) => return Ok(Err(Unchanged::Refused(refusal))),
                };
                let text = serde_json::to_string(&settings).unwrap_or_default();
                query(WRITE).bind(account.as_str()).bind(&text).execute(&mut *tx).await?;
                Ok(Ok(settings))
            },
            commit if Result::is_ok
        )
        .during(Operation::ChangeSomeOfFilterSettingsOfAccount)
        .await?;
        match changed {
            Ok(settings) => Ok(Ok(settings)),
            Err(Unchanged::Refused(refusal)) => Ok(Err(refusal)),
            Err(Unchanged::Unreadable(error)) => Err(Corrupt::new(COLUMN, error).into()),
        }
    }

    /// Stores the decision of a filter about an item of a batch. If a process ended between this and the item's outcome, the next one
    /// decides again; the first decision stays.
    #[boxed]
    pub async fn verdict_add(
        &self,
        id: Uuid,
        account: &UserAccountId,
        (batch, item): (BatchId, usize),
        subject: &str,
        verdict: &FilterVerdict,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        const SQL: &str = "INSERT INTO verdicts (id, account_id, batch_id, item, subject, verdict, created_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (batch_id, item) DO NOTHING";
        let text = serde_json::to_string(verdict).unwrap_or_default();
        query(SQL)
            .bind(id)
            .bind(account.as_str())
            .bind(batch.as_uuid())
            .bind(limit(item))
            .bind(storable(subject))
            .bind(&text)
            .bind(now)
            .execute(self.pool.writer())
            .during(Operation::FileVerdict)
            .await
            .map(drop)
    }

    /// Decisions of an account's filters, newest first.
    #[boxed]
    pub async fn verdicts_of_account(
        &self,
        account: &UserAccountId,
        rows_max: usize,
    ) -> Result<Vec<FiledVerdict>, StoreError> {
        const SQL: &str = "SELECT subject, verdict, created_at FROM verdicts WHERE account_id = $1
            ORDER BY created_at DESC, id DESC LIMIT $2";
        let rows: Vec<VerdictRow> = query(SQL)
            .bind(account.as_str())
            .bind(limit(rows_max))
            .fetch_all(&self.pool)
            .during(Operation::ListVerdictsOfAccount)
            .await?;
        Ok(rows.into_iter().map(FiledVerdict::try_from).collect::<Result<_, _>>()?)
    }
}

const COLUMN: &str = "knowledge_settings.settings";

/// Why settings stay unchanged.
enum Unchanged<E> {
    Refused(E),
    Unreadable(serde_json::Error),
}

crate::row! {
    struct VerdictRow {
        subject: String,
        verdict: String,
        created_at: Timestamp,
    }
}

impl TryFrom<VerdictRow> for FiledVerdict {
    type Error = Corrupt;

    fn try_from(row: VerdictRow) -> Result<Self, Corrupt> {
        let verdict = serde_json::from_str(&row.verdict).map_err(|error| Corrupt::new("verdicts.verdict", error))?;
        Ok(Self { subject: row.subject, verdict, created_at: row.created_at })
    }
}
