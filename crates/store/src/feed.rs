//! Feeds of accounts, and their entries (`docs/decisions/0033-notifications.md`). [`notice`](crate::notice) writes the entries.

use domain::Timestamp;
use domain::feed::{Feed, FeedEntry};
use domain::ids::UserAccountId;
use domain::secret::SecretHash;
use domain::webhook::NotificationKind;
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use crate::error::{Corrupt, StoreError};
use crate::notice::{kinds_of_text, kinds_text, with_more};
use crate::operation::{During, Operation};
use crate::pool::query;
use crate::row::{limit, parsed};
use crate::{Store, in_transaction, joined};

/// Maximum number of stored entries per account and kind.
pub const ENTRIES_KEPT_MAX: u32 = 1_000;

/// Number of entries per account and kind at which no more are written until the janitor has run.
pub const ENTRIES_WRITTEN_MAX: u32 = 2 * ENTRIES_KEPT_MAX;

/// A feed, as [`FeedRow`].
const FEED: &str = "SELECT account_id, kinds, created_at FROM feeds";

impl Store {
    /// Stores a feed; `false` if the account has one.
    #[boxed]
    pub async fn feed_create(&self, feed: &Feed, token: &SecretHash) -> Result<bool, StoreError> {
        const SQL: &str = "INSERT INTO feeds (account_id, token_hash, kinds, created_at) VALUES ($1, $2, $3, $4)
            ON CONFLICT (account_id) DO NOTHING";
        let rows_affected = query(SQL)
            .bind(feed.account.as_str())
            .bind(token.as_bytes())
            .bind(kinds_text(&feed.kinds))
            .bind(feed.created_at)
            .execute(self.pool.writer())
            .during(Operation::CreateFeed)
            .await?;
        Ok(rows_affected == 1)
    }

    /// The feed of an account.
    #[boxed]
    pub async fn feed_of_account(&self, account: &UserAccountId) -> Result<Option<Feed>, StoreError> {
        const SQL: &str = joined!(FEED, " WHERE account_id = $1");
        let statement = query(SQL).bind(account.as_str()).fetch_optional(&self.pool);
        let row: Option<FeedRow> = statement.during(Operation::ReadFeed).await?;
        Ok(row.map(Feed::try_from).transpose()?)
    }

    /// The feed with this secret in its link.
    #[boxed]
    pub async fn feed_by_hash(&self, token: &SecretHash) -> Result<Option<Feed>, StoreError> {
        const SQL: &str = joined!(FEED, " WHERE token_hash = $1");
        let statement = query(SQL).bind(token.as_bytes()).fetch_optional(&self.pool);
        let row: Option<FeedRow> = statement.during(Operation::ReadFeed).await?;
        Ok(row.map(Feed::try_from).transpose()?)
    }

    /// The newest entries of an account, newest first.
    #[boxed]
    pub async fn feed_entries(&self, account: &UserAccountId, rows_max: usize) -> Result<Vec<FeedEntry>, StoreError> {
        const SQL: &str = "SELECT notification_id, kind, body, created_at, more FROM feed_entries WHERE account_id = $1
            ORDER BY created_at DESC, notification_id DESC LIMIT $2";
        let statement = query(SQL).bind(account.as_str()).bind(limit(rows_max)).fetch_all(&self.pool);
        let rows: Vec<EntryRow> = statement.during(Operation::ListEntriesOfFeed).await?;
        Ok(rows.into_iter().map(FeedEntry::try_from).collect::<Result<_, _>>()?)
    }

    /// Replaces the kinds of a feed. Entries of other kinds stay. `false` if the account has no feed.
    #[boxed]
    pub async fn feed_change(&self, account: &UserAccountId, kinds: &[NotificationKind]) -> Result<bool, StoreError> {
        const SQL: &str = "UPDATE feeds SET kinds = $2 WHERE account_id = $1";
        let statement = query(SQL).bind(account.as_str()).bind(kinds_text(kinds)).execute(self.pool.writer());
        Ok(statement.during(Operation::ChangeFeed).await? == 1)
    }

    /// Replaces the secret of a feed; the old one becomes invalid. `false` if the account has no feed.
    #[boxed]
    pub async fn feed_relink(&self, account: &UserAccountId, token: &SecretHash) -> Result<bool, StoreError> {
        const SQL: &str = "UPDATE feeds SET token_hash = $2 WHERE account_id = $1";
        let statement = query(SQL).bind(account.as_str()).bind(token.as_bytes()).execute(self.pool.writer());
        Ok(statement.during(Operation::ChangeFeed).await? == 1)
    }

    /// Deletes the feed of an account with its entries; `false` if the account has none.
    #[boxed]
    pub async fn feed_delete(&self, account: &UserAccountId) -> Result<bool, StoreError> {
        const FEED: &str = "DELETE FROM feeds WHERE account_id = $1";
        const ENTRIES: &str = "DELETE FROM feed_entries WHERE account_id = $1";
        in_transaction!(
            &self.pool,
            |tx| {
                let rows_affected = query(FEED).bind(account.as_str()).execute(&mut *tx).await?;
                query(ENTRIES).bind(account.as_str()).execute(&mut *tx).await?;
                Ok(rows_affected == 1)
            },
            commit if |deleted| *deleted
        )
        .during(Operation::DeleteFeed)
        .await
    }
}

crate::row! {
    struct FeedRow {
        account_id: String,
        kinds: String,
        created_at: Timestamp,
    }
}

impl TryFrom<FeedRow> for Feed {
    type Error = Corrupt;

    fn try_from(row: FeedRow) -> Result<Self, Corrupt> {
        Ok(Self {
            account: parsed("feeds.account_id", &row.account_id)?,
            kinds: kinds_of_text("feeds.kinds", &row.kinds)?,
            created_at: row.created_at,
        })
    }
}

crate::row! {
    struct EntryRow {
        notification_id: Uuid,
        kind: String,
        body: String,
        created_at: Timestamp,
        more: i64,
    }
}

/// The part of a body that an entry shows.
#[derive(Deserialize)]
struct EntryBody {
    data: Value,
}

impl TryFrom<EntryRow> for FeedEntry {
    type Error = Corrupt;

    fn try_from(row: EntryRow) -> Result<Self, Corrupt> {
        let mut body: EntryBody =
            serde_json::from_str(&row.body).map_err(|error| Corrupt::new("feed_entries.body", error))?;
        with_more(&mut body.data, row.more);
        Ok(Self {
            notification: row.notification_id,
            kind: parsed("feed_entries.kind", &row.kind)?,
            created_at: row.created_at,
            data: body.data,
        })
    }
}
