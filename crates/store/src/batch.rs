//! Batches of the knowledge API (`docs/decisions/0024-batches.md`).
//!
//! A batch is committed with all its items before it is announced. The process that works on it holds a lease, which only prevents
//! duplicate work. An item ends once because its outcome is written only if it has none.

use std::borrow::Cow;
use std::collections::HashMap;

use domain::batch::{BatchEnd, BatchKind, ImportedMemory, Item, ItemOutcome, Journal};
use domain::ids::{BatchId, SpaceId, UserAccountId};
use domain::item::Fault;
use domain::memory::MemoryType;
use domain::webhook::NotificationKind;
use domain::{Digest, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use crate::account::LOCK_ACCOUNT;
use crate::error::{Corrupt, StoreError};
use crate::notice::{Notice, Recipient};
use crate::operation::{During, Operation};
use crate::pool::{Columns, DatabaseRow, QueryBuilder, Tx, query, scalar};
use crate::row::{chunks, count, limit, parsed, storable, undecodable};
use crate::{Store, in_transaction};

/// A batch that is not stored yet.
#[derive(Debug)]
pub struct NewBatch<'a> {
    /// Id of the batch.
    pub id: BatchId,
    /// Kind of the batch.
    pub kind: BatchKind,
    /// Owner of the batch.
    pub account: &'a UserAccountId,
    /// Spaces of its items.
    pub spaces: &'a [SpaceId],
    /// The spaces that the sender's key covers; `None` for all spaces.
    pub key_spaces: Option<&'a [SpaceId]>,
    /// Its items, in order.
    pub items: &'a [Item],
    /// Identifies repeated requests.
    pub key: Option<IdempotencyKey<'a>>,
    /// Id of the request, as log lines have it.
    pub request: Option<&'a str>,
}

/// The `Idempotency-Key` of a request.
#[derive(Debug, Clone, Copy)]
pub struct IdempotencyKey<'a> {
    /// The key, unique within the account. Without a key, a request repeats a running batch with the same body.
    pub key: Option<&'a str>,
    /// SHA-256 of the body of the request.
    pub body: &'a Digest,
    /// Batches that were created before this time are ignored.
    pub since: Timestamp,
}

/// Result of creating a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchCreate {
    /// The batch was created and will be processed.
    Created,
    /// A batch with the same key and body was created before.
    Known(BatchAccess),
    /// A batch with the same key and another body was created before.
    KeyReused,
    /// The account has the maximum number of running batches.
    TooMany,
}

/// A batch with the state of its items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Id of the batch.
    pub id: BatchId,
    /// Kind of the batch.
    pub kind: BatchKind,
    /// Owner of the batch.
    pub account: UserAccountId,
    /// Spaces of its items.
    pub spaces: Vec<SpaceId>,
    /// The spaces that the sender's key covers; `None` for all spaces.
    pub key_spaces: Option<Vec<SpaceId>>,
    /// Id of the request that submitted it, as log lines have it.
    pub request: Option<String>,
    /// Time of the submission.
    pub created_at: Timestamp,
    /// Time at which its cancellation was requested.
    pub cancelled_at: Option<Timestamp>,
    /// Outcomes of its items so far.
    pub journal: Journal,
    /// Items without an outcome, in order: index, and URL if the item has one.
    pub pending: Vec<(usize, Option<String>)>,
}

/// The columns that decide who may read the stream of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchAccess {
    /// Id of the batch.
    pub id: BatchId,
    /// Whether it is running.
    pub is_running: bool,
    /// Spaces of its items.
    pub spaces: Vec<SpaceId>,
}

/// A batch in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchSummary {
    /// Id of the batch.
    pub id: BatchId,
    /// Number of items.
    pub total: usize,
    /// Items with an outcome.
    pub processed: usize,
    /// Whether it is running.
    pub is_running: bool,
    /// Time of the submission.
    pub created_at: Timestamp,
}

/// A running batch, as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningBatch {
    /// Id of the batch.
    pub id: BatchId,
    /// Kind of the batch.
    pub kind: BatchKind,
    /// Owner of the batch.
    pub account: UserAccountId,
    /// Number of items.
    pub total: u32,
    /// Items with an outcome.
    pub processed: u32,
    /// Time of the submission.
    pub created_at: Timestamp,
    /// Time at which its cancellation was requested.
    pub cancelled_at: Option<Timestamp>,
    /// The process with the lease, and the end of the lease.
    pub lease: Option<(String, Timestamp)>,
}

/// Result of acquiring or renewing the lease of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lease {
    /// The runner has the lease.
    Held {
        /// Whether its cancellation was requested.
        is_cancelled: bool,
    },
    /// Another runner has it, or the batch has ended.
    Refused,
}

/// Result of an item: its index, its position among the finished items from 1, and its outcome.
pub type Finished<'a> = (usize, usize, &'a ItemOutcome);

const FINISH_ITEM: &str = "UPDATE batch_items SET note = NULL, finished = $3, outcome = $4
    WHERE batch_id = $1 AND position = $2 AND outcome IS NULL";

impl Store {
    /// Creates a batch, unless the account has `running_max` running batches of its kind.
    #[boxed]
    pub async fn batch_create(
        &self,
        new: &NewBatch<'_>,
        running_max: u32,
        now: Timestamp,
    ) -> Result<BatchCreate, StoreError> {
        const RUNNING: &str = "SELECT COUNT(*) FROM batches WHERE account_id = $1 AND state = 'running' AND kind = $2";
        const ADD: &str = "INSERT INTO batches (id, account_id, spaces, total, state, created_at, key_spaces,
                idempotency_key, body_sha256, kind, request_id)
            VALUES ($1, $2, $3, $4, 'running', $5, $6, $7, $8, $9, $10)";
        let kind: &'static str = new.kind.into();
        let rows: Vec<ItemRow<'_>> = new.items.iter().enumerate().map(ItemRow::from).collect();
        let spaces = serde_json::to_string(new.spaces).unwrap_or_default();
        let key_spaces = new.key_spaces.map(|spaces| serde_json::to_string(spaces).unwrap_or_default());
        in_transaction!(
            &self.pool,
            |tx| {
                query(LOCK_ACCOUNT).bind(new.account.as_str()).execute(&mut *tx).await?;
                if let Some(key) = &new.key
                    && let Some(known) = known_by_key(tx, new, key).await?
                {
                    return Ok(known);
                }
                let running: i64 = scalar(RUNNING).bind(new.account.as_str()).bind(kind).fetch_one(&mut *tx).await?;
                if running >= i64::from(running_max) {
                    return Ok(BatchCreate::TooMany);
                }
                let add = query(ADD).bind(new.id.as_uuid()).bind(new.account.as_str()).bind(&spaces);
                let add = add.bind(limit(rows.len())).bind(now).bind(&key_spaces).bind(new.key.and_then(|key| key.key));
                let add = add.bind(new.key.map(|key| &key.body.as_bytes()[..])).bind(kind).bind(new.request);
                add.execute(&mut *tx).await?;
                for rows in chunks(&rows) {
                    let mut sql = QueryBuilder::new("INSERT INTO batch_items (batch_id, position, url, note) ");
                    sql.push_values(rows, |mut row, item| {
                        row.push_bind(new.id.as_uuid()).push_bind(item.position);
                        row.push_bind(item.url.as_deref()).push_bind(item.note.as_deref());
                    });
                    sql.build().execute(&mut *tx).await?;
                }
                Ok(BatchCreate::Created)
            },
            commit if |outcome| *outcome == BatchCreate::Created
        )
        .during(Operation::CreateBatch)
        .await
    }

    /// A batch with the outcomes of its items; optionally only of `account`.
    #[boxed]
    pub async fn batch_by_id(&self, id: BatchId, owner: Option<&UserAccountId>) -> Result<Option<Batch>, StoreError> {
        const BATCH: &str =
            "SELECT account_id, spaces, key_spaces, total, state, reason, cancelled_at, created_at, kind, request_id
            FROM batches WHERE id = $1 AND ($2 IS NULL OR account_id = $2)";
        const ITEMS: &str = "SELECT position, url, finished, outcome FROM batch_items WHERE batch_id = $1
            ORDER BY finished, position";
        let batch: Option<BatchRow> = query(BATCH)
            .bind(id.as_uuid())
            .bind(owner.map(UserAccountId::as_str))
            .fetch_optional(&self.pool)
            .during(Operation::ReadBatch)
            .await?;
        let Some(batch) = batch else { return Ok(None) };
        // The batch is read before its items: a batch that has ended has all its outcomes.
        let items: Vec<PlaceRow> =
            query(ITEMS).bind(id.as_uuid()).fetch_all(&self.pool).during(Operation::ReadItemsOfBatch).await?;
        Ok(Some(batch.read(id, items)?))
    }

    /// Whether a batch of this account is running, and its spaces, from one row; `None` if there is no such batch.
    #[boxed]
    pub async fn batch_access(&self, id: BatchId, owner: &UserAccountId) -> Result<Option<BatchAccess>, StoreError> {
        const SQL: &str = "SELECT state, spaces FROM batches WHERE id = $1 AND account_id = $2";
        let row: Option<(String, String)> = query(SQL)
            .bind(id.as_uuid())
            .bind(owner.as_str())
            .fetch_optional(&self.pool)
            .during(Operation::ReadAccessToBatch)
            .await?;
        let Some((state, spaces)) = row else { return Ok(None) };
        let spaces = spaces_of(&spaces)?;
        Ok(Some(BatchAccess { id, is_running: state == "running", spaces }))
    }

    /// One item without an outcome.
    #[boxed]
    pub async fn batch_item(&self, id: BatchId, index: usize) -> Result<Option<Item>, StoreError> {
        const SQL: &str = "SELECT url, note FROM batch_items WHERE batch_id = $1 AND position = $2 AND outcome IS NULL";
        let row: Option<(Option<String>, Option<String>)> = query(SQL)
            .bind(id.as_uuid())
            .bind(limit(index))
            .fetch_optional(&self.pool)
            .during(Operation::ReadItemOfBatch)
            .await?;
        Ok(row.map(|(url, note)| item(url, note.as_deref())).transpose()?)
    }

    /// The titles of the notes without an outcome, by index; notes without a title are left out.
    #[boxed]
    pub async fn batch_titles(&self, id: BatchId) -> Result<HashMap<usize, String>, StoreError> {
        const SQL: &str = "SELECT position, note FROM batch_items
            WHERE batch_id = $1 AND outcome IS NULL AND note IS NOT NULL";
        let titles: Vec<TitleRow> =
            query(SQL).bind(id.as_uuid()).fetch_all(&self.pool).during(Operation::ReadTitlesOfBatch).await?;
        let mut by_index = HashMap::new();
        for TitleRow { position, note } in titles {
            let index = place("batch_items.position", position)?;
            if let Some(title) = note.map_err(|error| Corrupt::new("batch_items.note", error))?.title {
                by_index.insert(index, title);
            }
        }
        Ok(by_index)
    }

    /// Stores the outcome of an item; `false` if it had one.
    #[boxed]
    pub async fn batch_item_finish(
        &self,
        id: BatchId,
        &(index, place, outcome): &Finished<'_>,
    ) -> Result<bool, StoreError> {
        let outcome = written(outcome);
        let rows_affected = query(FINISH_ITEM)
            .bind(id.as_uuid())
            .bind(limit(index))
            .bind(limit(place))
            .bind(&outcome)
            .execute(self.pool.writer())
            .during(Operation::WriteOutcomeOfItem)
            .await?;
        Ok(rows_affected == 1)
    }

    /// Ends a batch and stores the outcomes of the `rest` of its items. Returns `false`, and writes nothing, if the batch has ended or an
    /// item of the rest has an outcome.
    #[boxed]
    pub async fn batch_finish(
        &self,
        id: BatchId,
        rest: &[Finished<'_>],
        end: &BatchEnd,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        const SQL: &str =
            "UPDATE batches SET state = $2, reason = $3, finished_at = $4, runner = NULL, leased_until = NULL
            WHERE id = $1 AND state = 'running'";
        // Imports send no notification: the client of an import waits for it, and one export may have a hundred parts.
        const OWNER: &str = "SELECT account_id FROM batches WHERE id = $1 AND kind = 'batch'";
        let (state, reason) = match end {
            BatchEnd::Complete => ("complete", None),
            BatchEnd::Failed(reason) => ("failed", Some(storable(reason))),
        };
        in_transaction!(
            &self.pool,
            |tx| {
                let statement = query(SQL).bind(id.as_uuid()).bind(state).bind(reason.as_deref()).bind(now);
                if statement.execute(&mut *tx).await? == 0 {
                    return Ok(false);
                }
                for (index, place, outcome) in rest {
                    let query = query(FINISH_ITEM).bind(id.as_uuid()).bind(limit(*index)).bind(limit(*place));
                    if query.bind(written(outcome)).execute(&mut *tx).await? == 0 {
                        return Ok(false);
                    }
                }
                let owner = scalar(OWNER).bind(id.as_uuid());
                let owner: Option<String> =
                    if self.notifies_owners() { owner.fetch_optional(&mut *tx).await? } else { None };
                if let Some(owner) = owner {
                    let data = json!({ "batch_id": id, "state": state });
                    let to = Recipient::Account(&owner);
                    let notice = Notice::new(NotificationKind::BatchDone, id.as_uuid(), to, now, data);
                    self.notify_owners(tx, &[notice]).await?;
                }
                Ok(true)
            },
            commit if |done| *done
        )
        .during(Operation::EndBatch)
        .await
    }

    /// Requests the cancellation of a running batch; `false` if there is none with this id, or `owner` is another account.
    #[boxed]
    pub async fn batch_cancel(
        &self,
        id: BatchId,
        owner: Option<&UserAccountId>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        const SQL: &str = "UPDATE batches SET cancelled_at = COALESCE(cancelled_at, $3)
            WHERE id = $1 AND ($2 IS NULL OR account_id = $2) AND state = 'running'";
        let owner = owner.map(UserAccountId::as_str);
        in_transaction!(
            &self.pool,
            |tx| {
                let cancelled = query(SQL).bind(id.as_uuid()).bind(owner).bind(now).execute(&mut *tx).await? > 0;
                if cancelled {
                    self.record_act(tx, now).await?;
                }
                Ok(cancelled)
            },
            commit if |cancelled| *cancelled
        )
        .during(Operation::CancelBatch)
        .await
    }

    /// Running batches of all accounts after this one, oldest first.
    #[boxed]
    pub async fn batches_running(
        &self,
        after: Option<BatchId>,
        rows_max: usize,
    ) -> Result<Vec<RunningBatch>, StoreError> {
        const SQL: &str =
            "SELECT b.id, b.kind, b.account_id, b.total, b.created_at, b.cancelled_at, b.runner, b.leased_until,
                (SELECT COUNT(*) FROM batch_items i WHERE i.batch_id = b.id AND i.finished IS NOT NULL) AS processed
            FROM batches b WHERE b.state = 'running' AND ($1 IS NULL OR b.id > $1) ORDER BY b.id LIMIT $2";
        let rows: Vec<RunningRow> = query(SQL)
            .bind(after.map(|id| id.as_uuid()))
            .bind(limit(rows_max))
            .fetch_all(&self.pool)
            .during(Operation::ListRunningBatches)
            .await?;
        Ok(rows.into_iter().map(RunningBatch::try_from).collect::<Result<_, _>>()?)
    }

    /// Acquires or renews the lease of a batch, until a time.
    #[boxed]
    pub async fn batch_lease(
        &self,
        id: BatchId,
        runner: &str,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Lease, StoreError> {
        const SQL: &str = "UPDATE batches SET runner = $2, leased_until = $3
            WHERE id = $1 AND state = 'running' AND (runner IS NULL OR runner = $2 OR leased_until < $4)
            RETURNING cancelled_at";
        let cancelled: Option<Option<Timestamp>> = scalar(SQL)
            .bind(id.as_uuid())
            .bind(runner)
            .bind(until)
            .bind(now)
            .fetch_optional(self.pool.writer())
            .during(Operation::LeaseBatch)
            .await?;
        Ok(cancelled.map_or(Lease::Refused, |cancelled| Lease::Held { is_cancelled: cancelled.is_some() }))
    }

    /// Releases the lease of this runner, if it has it.
    #[boxed]
    pub async fn batch_lease_end(&self, id: BatchId, runner: &str) -> Result<(), StoreError> {
        const SQL: &str = "UPDATE batches SET runner = NULL, leased_until = NULL
            WHERE id = $1 AND state = 'running' AND runner = $2";
        query(SQL)
            .bind(id.as_uuid())
            .bind(runner)
            .execute(self.pool.writer())
            .during(Operation::EndLeaseOfBatch)
            .await?;
        Ok(())
    }

    /// Running batches without a valid lease.
    #[boxed]
    pub async fn batches_adrift(&self, now: Timestamp, rows_max: usize) -> Result<Vec<BatchId>, StoreError> {
        const SQL: &str = "SELECT id FROM batches
            WHERE state = 'running' AND (leased_until IS NULL OR leased_until < $1) ORDER BY created_at LIMIT $2";
        let ids: Vec<Uuid> = scalar(SQL)
            .bind(now)
            .bind(limit(rows_max))
            .fetch_all(&self.pool)
            .during(Operation::ListOrphanedBatches)
            .await?;
        Ok(ids.into_iter().map(BatchId::from).collect())
    }

    /// The batches of an account, newest first, without imports.
    #[boxed]
    pub async fn batches_of_account(
        &self,
        account: &UserAccountId,
        rows_max: usize,
    ) -> Result<Vec<BatchSummary>, StoreError> {
        const SQL: &str = "SELECT b.id, b.total, b.state, b.created_at,
                (SELECT COUNT(*) FROM batch_items i WHERE i.batch_id = b.id AND i.finished IS NOT NULL) AS processed
            FROM batches b WHERE b.account_id = $1 AND b.kind = 'batch' ORDER BY b.created_at DESC, b.id DESC LIMIT $2";
        let rows: Vec<SummaryRow> = query(SQL)
            .bind(account.as_str())
            .bind(limit(rows_max))
            .fetch_all(&self.pool)
            .during(Operation::ListBatchesOfAccount)
            .await?;
        Ok(rows.into_iter().map(BatchSummary::try_from).collect::<Result<_, _>>()?)
    }
}

/// The batch with this key; the key of an expired batch becomes free. Without a key, the running batch with the same body.
async fn known_by_key(
    tx: &mut Tx<'_>,
    new: &NewBatch<'_>,
    key: &IdempotencyKey<'_>,
) -> Result<Option<BatchCreate>, sqlx::Error> {
    const FIND: &str = "SELECT id, state, spaces, created_at, body_sha256 FROM batches
        WHERE account_id = $1 AND idempotency_key = $2";
    const RUNNING: &str = "SELECT id, state, spaces, created_at, body_sha256 FROM batches
        WHERE account_id = $1 AND state = 'running' AND kind = $2 AND body_sha256 = $3 ORDER BY id LIMIT 1";
    const FREE: &str = "UPDATE batches SET idempotency_key = NULL WHERE id = $1";
    let account = new.account.as_str();
    let row = match key.key {
        Some(key) => query(FIND).bind(account).bind(key),
        None => query(RUNNING).bind(account).bind(<&'static str>::from(new.kind)).bind(&key.body.as_bytes()[..]),
    };
    let row: Option<KeyRow> = row.fetch_optional(&mut *tx).await?;
    let Some(row) = row else { return Ok(None) };
    if key.key.is_some() && row.created_at < key.since {
        query(FREE).bind(row.id).execute(tx).await?;
        return Ok(None);
    }
    if row.body_sha256.as_deref() != Some(&key.body.as_bytes()[..]) {
        return Ok(Some(BatchCreate::KeyReused));
    }
    let spaces = spaces_of(&row.spaces).map_err(undecodable)?;
    Ok(Some(BatchCreate::Known(BatchAccess { id: row.id.into(), is_running: row.state == "running", spaces })))
}

crate::row! {
    struct KeyRow {
        id: Uuid,
        state: String,
        spaces: String,
        created_at: Timestamp,
        body_sha256: Option<Vec<u8>>,
    }
}

/// A note in the form of its row.
#[derive(Serialize, Deserialize)]
struct NoteColumn<'a> {
    content: Cow<'a, str>,
    title: Option<Cow<'a, str>>,
    kind: MemoryType,
}

/// A line of an import in the form of its row, in the column of notes.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LineColumn {
    Memory(Box<ImportedMemory>),
    Faulty { error: Fault, message: String },
}

/// The part of a note that is parsed when only its title is needed.
#[derive(Deserialize)]
struct TitleColumn {
    title: Option<String>,
}

/// The title of a note. Each title is parsed as its row is read: the notes of a batch together are as large as a request.
struct TitleRow {
    position: i64,
    note: serde_json::Result<TitleColumn>,
}

impl DatabaseRow for TitleRow {
    const COLUMNS: &'static [&'static str] = &["position", "note"];

    fn read(columns: &mut Columns<'_>) -> Result<Self, sqlx::Error> {
        let (position, note): (i64, String) = (columns.get("position")?, columns.get("note")?);
        Ok(Self { position, note: serde_json::from_str(&note) })
    }
}

struct ItemRow<'a> {
    position: i64,
    url: Option<Cow<'a, str>>,
    note: Option<String>,
}

impl<'a> From<(usize, &'a Item)> for ItemRow<'a> {
    fn from((position, item): (usize, &'a Item)) -> Self {
        let position = limit(position);
        match item {
            Item::Url(url) => Self { position, url: Some(storable(url)), note: None },
            Item::Note { content, title, kind } => {
                let note = NoteColumn { content: content.into(), title: title.as_deref().map(Cow::from), kind: *kind };
                Self { position, url: None, note: Some(serde_json::to_string(&note).unwrap_or_default()) }
            }
            Item::Memory(memory) => Self::line(position, &LineColumn::Memory(memory.clone())),
            Item::Faulty { error, message } => {
                Self::line(position, &LineColumn::Faulty { error: *error, message: message.clone() })
            }
        }
    }
}

impl ItemRow<'_> {
    fn line(position: i64, line: &LineColumn) -> Self {
        Self { position, url: None, note: Some(serde_json::to_string(line).unwrap_or_default()) }
    }
}

fn item(url: Option<String>, note: Option<&str>) -> Result<Item, Corrupt> {
    if let Some(url) = url {
        return Ok(Item::Url(url));
    }
    let note = note.unwrap_or_default();
    if let Ok(line) = serde_json::from_str(note) {
        return Ok(match line {
            LineColumn::Memory(memory) => Item::Memory(memory),
            LineColumn::Faulty { error, message } => Item::Faulty { error, message },
        });
    }
    let note: NoteColumn<'_> = serde_json::from_str(note).map_err(|error| Corrupt::new("batch_items.note", error))?;
    Ok(Item::Note { content: note.content.into_owned(), title: note.title.map(Cow::into_owned), kind: note.kind })
}

/// JSON keeps U+0000 as an escape, which PostgreSQL accepts as text.
fn written(outcome: &ItemOutcome) -> String {
    serde_json::to_string(outcome).unwrap_or_default()
}

crate::row! {
    struct BatchRow {
        account_id: String,
        spaces: String,
        key_spaces: Option<String>,
        request_id: Option<String>,
        total: i64,
        state: String,
        reason: Option<String>,
        cancelled_at: Option<Timestamp>,
        created_at: Timestamp,
        kind: String,
    }
}

crate::row! {
    struct PlaceRow {
        position: i64,
        url: Option<String>,
        finished: Option<i64>,
        outcome: Option<String>,
    }
}

impl BatchRow {
    fn read(self, id: BatchId, items: Vec<PlaceRow>) -> Result<Batch, Corrupt> {
        let mut finished = Vec::new();
        let mut pending = Vec::new();
        for row in items {
            let index = place("batch_items.position", row.position)?;
            match (row.finished, row.outcome) {
                (Some(_), Some(outcome)) => {
                    let outcome = serde_json::from_str(&outcome);
                    finished.push((index, outcome.map_err(|error| Corrupt::new("batch_items.outcome", error))?));
                }
                _ => pending.push((index, row.url)),
            }
        }
        pending.sort_by_key(|(index, _)| *index);
        let end = match self.state.as_str() {
            "running" => None,
            "complete" => Some(BatchEnd::Complete),
            "failed" => Some(BatchEnd::Failed(self.reason.unwrap_or_default())),
            other => return Err(Corrupt::new("batches.state", other.to_owned())),
        };
        Ok(Batch {
            id,
            kind: parsed("batches.kind", &self.kind)?,
            account: parsed("batches.account_id", &self.account_id)?,
            spaces: spaces_of(&self.spaces)?,
            key_spaces: self.key_spaces.as_deref().map(spaces_of).transpose()?,
            request: self.request_id,
            created_at: self.created_at,
            cancelled_at: self.cancelled_at,
            journal: Journal::new(place("batches.total", self.total)?, finished, end),
            pending,
        })
    }
}

crate::row! {
    struct RunningRow {
        id: Uuid,
        kind: String,
        account_id: String,
        total: i64,
        processed: i64,
        created_at: Timestamp,
        cancelled_at: Option<Timestamp>,
        runner: Option<String>,
        leased_until: Option<Timestamp>,
    }
}

impl TryFrom<RunningRow> for RunningBatch {
    type Error = Corrupt;

    fn try_from(row: RunningRow) -> Result<Self, Corrupt> {
        Ok(Self {
            id: row.id.into(),
            kind: parsed("batches.kind", &row.kind)?,
            account: parsed("batches.account_id", &row.account_id)?,
            total: count("batches.total", row.total)?,
            processed: count("batch_items", row.processed)?,
            created_at: row.created_at,
            cancelled_at: row.cancelled_at,
            lease: row.runner.zip(row.leased_until),
        })
    }
}

crate::row! {
    struct SummaryRow {
        id: Uuid,
        total: i64,
        state: String,
        created_at: Timestamp,
        processed: i64,
    }
}

impl TryFrom<SummaryRow> for BatchSummary {
    type Error = Corrupt;

    fn try_from(row: SummaryRow) -> Result<Self, Corrupt> {
        Ok(Self {
            id: row.id.into(),
            total: place("batches.total", row.total)?,
            processed: place("batch_items.finished", row.processed)?,
            is_running: row.state == "running",
            created_at: row.created_at,
        })
    }
}

fn spaces_of(text: &str) -> Result<Vec<SpaceId>, Corrupt> {
    serde_json::from_str(text).map_err(|error| Corrupt::new("batches.spaces", error))
}

fn place(column: &'static str, value: i64) -> Result<usize, Corrupt> {
    usize::try_from(value).map_err(|error| Corrupt::new(column, error))
}
