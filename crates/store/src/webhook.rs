//! Webhook endpoints of accounts, and the outbox of notifications (`docs/decisions/0033-notifications.md`).
//!
//! [`notice`](crate::notice) writes the deliveries. A process leases an endpoint, so it gets one delivery at a time, from one process.
//! While an operator has disabled an endpoint, its deliveries are written and wait.

mod operator;

use domain::ids::{UserAccountId, WebhookId};
use domain::webhook::{DisabledWhy, EndpointDescription, NotificationKind, SigningSecret, Webhook};
use domain::{Timestamp, webhook};
use serde_json::Value;
use uuid::Uuid;

pub use self::operator::WebhookOverview;
use crate::account::LOCK_ACCOUNT;
use crate::error::{Corrupt, StoreError};
use crate::notice::{kinds_of_text, kinds_text, with_more};
use crate::operation::{During, Operation};
use crate::pool::{Tx, query, scalar};
use crate::row::{bytes, count, limit, parsed, parsed_opt, storable, undecodable};
use crate::{Store, in_transaction, joined};

/// An endpoint that is not stored yet.
#[derive(Debug, Clone)]
pub struct NewWebhook {
    /// The endpoint.
    pub webhook: Webhook,
    /// The key of its signatures.
    pub secret: SigningSecret,
}

/// The change of an endpoint; `None` keeps a value.
#[derive(Debug, Clone, Default)]
pub struct WebhookUpdate {
    /// The new URL.
    pub url: Option<String>,
    /// The new description.
    pub description: Option<EndpointDescription>,
    /// The new kinds.
    pub kinds: Option<Vec<NotificationKind>>,
    /// Whether it is enabled. Disabling settles its waiting deliveries; enabling resets its failures.
    pub enabled: Option<bool>,
}

/// The result of a change by the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateResult {
    /// The endpoint has changed.
    Updated,
    /// The account has no such endpoint.
    Unknown,
    /// An operator has disabled the endpoint, so its owner cannot enable it. Nothing has changed.
    DisabledByOperator,
}

/// A delivery as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryRecord {
    /// Id of the notification.
    pub notification: Uuid,
    /// Kind of the notification.
    pub kind: String,
    /// Time of the reported fact.
    pub created_at: Timestamp,
    /// Time of the next try; `None` after it is settled.
    pub next_try_at: Option<Timestamp>,
    /// Number of tries so far.
    pub tries: u32,
    /// Time of the last try.
    pub last_try_at: Option<Timestamp>,
    /// HTTP status of the last try, if there was a response.
    pub status: Option<u16>,
    /// Why the last try failed.
    pub error: Option<String>,
    /// Whether the endpoint accepted it.
    pub is_delivered: bool,
}

/// A due delivery of an endpoint that the caller has leased.
#[derive(Debug, Clone)]
pub struct DueDelivery {
    /// The endpoint.
    pub webhook: WebhookId,
    /// URL of the endpoint.
    pub url: String,
    /// The keys that sign it: the current one, and the replaced one while it is valid.
    pub secrets: Vec<SigningSecret>,
    /// Id of the notification.
    pub notification: Uuid,
    /// The body of the notification, with the number of dropped notifications if there are any.
    pub body: String,
    /// Time of the reported fact.
    pub created_at: Timestamp,
    /// Number of tries, including this one.
    pub tries: u32,
    /// Time of the endpoint's first failure after its last success.
    pub failing_since: Option<Timestamp>,
}

/// What follows after a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterTry {
    /// The endpoint accepted it.
    Delivered,
    /// It is tried again at this time.
    Again(Timestamp),
    /// It is not tried again.
    GivenUp,
    /// The endpoint is disabled, and its waiting deliveries are settled.
    Disabled(DisabledWhy),
}

/// The result of a try, for the owner.
#[derive(Debug, Clone, Default)]
pub struct TryResult {
    /// HTTP status, if there was a response.
    pub status: Option<u16>,
    /// Why it failed.
    pub error: Option<String>,
}

/// An endpoint, as [`WebhookRow`].
const WEBHOOK: &str = "SELECT id, account_id, url, description, kinds, created_at, disabled_at, disabled_why,
        disabled_by_operator_at, failing_since, dropped, dropped_at, old_secret_until FROM webhooks";

impl Store {
    /// Stores an endpoint; `false` if the account has `per_account_max`.
    #[boxed]
    pub async fn webhook_create(&self, new: &NewWebhook, per_account_max: u32) -> Result<bool, StoreError> {
        const COUNT: &str = "SELECT COUNT(*) FROM webhooks WHERE account_id = $1";
        const ADD: &str = "INSERT INTO webhooks (id, account_id, url, description, kinds, secret, created_at,
            disabled_at, disabled_why) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
        let NewWebhook { webhook, secret } = new;
        let account = webhook.account.as_str();
        in_transaction!(
            &self.pool,
            |tx| {
                query(LOCK_ACCOUNT).bind(account).execute(&mut *tx).await?;
                let there: i64 = scalar(COUNT).bind(account).fetch_one(&mut *tx).await?;
                if there >= i64::from(per_account_max) {
                    return Ok(false);
                }
                query(ADD)
                    .bind(webhook.id.as_uuid())
                    .bind(account)
                    .bind(webhook.url.as_str())
                    .bind(storable(webhook.description.as_str()))
                    .bind(kinds_text(&webhook.kinds))
                    .bind(secret.as_bytes())
                    .bind(webhook.created_at)
                    .bind(webhook.disabled.map(|(at, _)| at))
                    .bind(webhook.disabled.map(|(_, why)| <&'static str>::from(why)))
                    .execute(&mut *tx)
                    .await?;
                Ok(true)
            },
            commit if |added| *added
        )
        .during(Operation::CreateWebhook)
        .await
    }

    /// The endpoints of an account, newest first.
    #[boxed]
    pub async fn webhooks_of_account(
        &self,
        account: &UserAccountId,
        rows_max: usize,
    ) -> Result<Vec<Webhook>, StoreError> {
        const SQL: &str = joined!(WEBHOOK, " WHERE account_id = $1 ORDER BY created_at DESC, id DESC LIMIT $2");
        let rows: Vec<WebhookRow> = query(SQL)
            .bind(account.as_str())
            .bind(limit(rows_max))
            .fetch_all(&self.pool)
            .during(Operation::ListWebhooksOfAccount)
            .await?;
        Ok(rows.into_iter().map(Webhook::try_from).collect::<Result<_, _>>()?)
    }

    /// An endpoint of an account; `None` for endpoints of other accounts.
    #[boxed]
    pub async fn webhook_of_account(
        &self,
        id: WebhookId,
        owner: &UserAccountId,
    ) -> Result<Option<Webhook>, StoreError> {
        const SQL: &str = joined!(WEBHOOK, " WHERE id = $1 AND account_id = $2");
        let row: Option<WebhookRow> = query(SQL)
            .bind(id.as_uuid())
            .bind(owner.as_str())
            .fetch_optional(&self.pool)
            .during(Operation::ReadWebhook)
            .await?;
        Ok(row.map(Webhook::try_from).transpose()?)
    }

    /// Changes an endpoint of an account.
    #[boxed]
    pub async fn webhook_change(
        &self,
        id: WebhookId,
        owner: &UserAccountId,
        change: &WebhookUpdate,
        now: Timestamp,
    ) -> Result<UpdateResult, StoreError> {
        const CHANGE: &str = "UPDATE webhooks SET url = COALESCE($3, url), description = COALESCE($4, description),
            kinds = COALESCE($5, kinds) WHERE id = $1 AND account_id = $2 RETURNING disabled_by_operator_at";
        const ENABLE: &str = "UPDATE webhooks SET disabled_at = NULL, disabled_why = NULL, failing_since = NULL,
            failures = 0 WHERE id = $1 AND disabled_at IS NOT NULL";
        in_transaction!(
            &self.pool,
            |tx| {
                let row: Option<Option<Timestamp>> = scalar(CHANGE)
                    .bind(id.as_uuid())
                    .bind(owner.as_str())
                    .bind(change.url.as_deref())
                    .bind(change.description.as_ref().map(|text| storable(text.as_str())))
                    .bind(change.kinds.as_deref().map(kinds_text))
                    .fetch_optional(&mut *tx)
                    .await?;
                let Some(disabled_by_operator_at) = row else { return Ok(UpdateResult::Unknown) };
                match change.enabled {
                    Some(true) if disabled_by_operator_at.is_some() => return Ok(UpdateResult::DisabledByOperator),
                    Some(true) => drop(query(ENABLE).bind(id.as_uuid()).execute(&mut *tx).await?),
                    Some(false) => disable(tx, id, DisabledWhy::Owner, now).await?,
                    None => {}
                }
                Ok(UpdateResult::Updated)
            },
            commit if |result| *result == UpdateResult::Updated
        )
        .during(Operation::ChangeWebhook)
        .await
    }

    /// Replaces the secret of an endpoint; the replaced one also signs until `old_until`. `false` if the account has no such endpoint.
    #[boxed]
    pub async fn webhook_rotate(
        &self,
        id: WebhookId,
        owner: &UserAccountId,
        secret: &SigningSecret,
        old_until: Timestamp,
    ) -> Result<bool, StoreError> {
        const SQL: &str = "UPDATE webhooks SET old_secret = secret, old_secret_until = $4, secret = $3
            WHERE id = $1 AND account_id = $2";
        let rows_affected = query(SQL)
            .bind(id.as_uuid())
            .bind(owner.as_str())
            .bind(secret.as_bytes())
            .bind(old_until)
            .execute(self.pool.writer())
            .during(Operation::ChangeWebhook)
            .await?;
        Ok(rows_affected == 1)
    }

    /// Deletes an endpoint of an account, with its deliveries.
    #[boxed]
    pub async fn webhook_delete(&self, id: WebhookId, owner: &UserAccountId) -> Result<bool, StoreError> {
        const SQL: &str = "DELETE FROM webhooks WHERE id = $1 AND account_id = $2";
        let rows_affected = query(SQL)
            .bind(id.as_uuid())
            .bind(owner.as_str())
            .execute(self.pool.writer())
            .during(Operation::DeleteWebhook)
            .await?;
        Ok(rows_affected == 1)
    }

    /// Adds a test notification to an enabled endpoint of an account; `false` if there is no such endpoint, or too many deliveries wait.
    #[boxed]
    pub async fn webhook_test(
        &self,
        id: WebhookId,
        owner: &UserAccountId,
        notification: Uuid,
        now: Timestamp,
        waiting_max: u32,
    ) -> Result<bool, StoreError> {
        const SQL: &str =
            "INSERT INTO webhook_deliveries (webhook_id, notification_id, kind, body, created_at, next_try_at)
            SELECT w.id, $3, $4, $5, $6, $6 FROM webhooks w WHERE w.id = $1 AND w.account_id = $2
                AND w.disabled_at IS NULL AND w.disabled_by_operator_at IS NULL
                AND (SELECT COUNT(*) FROM webhook_deliveries d WHERE d.webhook_id = w.id
                    AND d.kind = $4 AND d.next_try_at IS NOT NULL) < $7";
        let body = webhook::body(webhook::TEST, now, &serde_json::json!({ "webhook_id": id }));
        let rows_affected = query(SQL)
            .bind(id.as_uuid())
            .bind(owner.as_str())
            .bind(notification)
            .bind(webhook::TEST)
            .bind(&body)
            .bind(now)
            .bind(i64::from(waiting_max))
            .execute(self.pool.writer())
            .during(Operation::WriteNotification)
            .await?;
        Ok(rows_affected == 1)
    }

    /// The newest deliveries of an endpoint of an account.
    #[boxed]
    pub async fn webhook_deliveries(
        &self,
        id: WebhookId,
        owner: &UserAccountId,
        rows_max: usize,
    ) -> Result<Vec<DeliveryRecord>, StoreError> {
        const SQL: &str = "SELECT d.notification_id, d.kind, d.created_at, d.next_try_at, d.tries, d.last_try_at,
                d.status, d.error, d.is_delivered
            FROM webhook_deliveries d JOIN webhooks w ON w.id = d.webhook_id
            WHERE d.webhook_id = $1 AND w.account_id = $2
            ORDER BY d.created_at DESC, d.notification_id DESC LIMIT $3";
        let rows: Vec<DeliveryRow> = query(SQL)
            .bind(id.as_uuid())
            .bind(owner.as_str())
            .bind(limit(rows_max))
            .fetch_all(&self.pool)
            .during(Operation::ListDeliveriesOfWebhook)
            .await?;
        Ok(rows.into_iter().map(DeliveryRecord::try_from).collect::<Result<_, _>>()?)
    }

    /// Endpoints with a due delivery and without a lease, with their accounts: first one of each account, then the second ones. Within each
    /// round, the endpoint with the oldest last lease comes first.
    #[boxed]
    pub async fn webhooks_due(
        &self,
        now: Timestamp,
        rows_max: usize,
    ) -> Result<Vec<(WebhookId, UserAccountId)>, StoreError> {
        const SQL: &str = "SELECT id, account_id FROM (
                SELECT w.id, w.account_id, COALESCE(w.leased_until, w.created_at) AS last_turn,
                    ROW_NUMBER() OVER (PARTITION BY w.account_id ORDER BY COALESCE(w.leased_until, w.created_at), w.id)
                        AS place
                FROM webhooks w
                WHERE w.disabled_at IS NULL AND w.disabled_by_operator_at IS NULL
                    AND (w.lease IS NULL OR w.leased_until <= $1)
                    AND EXISTS (SELECT 1 FROM webhook_deliveries d
                        WHERE d.webhook_id = w.id AND d.next_try_at IS NOT NULL AND d.next_try_at <= $1)) due
            ORDER BY place, last_turn, id LIMIT $2";
        let rows: Vec<(Uuid, String)> =
            query(SQL).bind(now).bind(limit(rows_max)).fetch_all(&self.pool).during(Operation::ListDueWebhooks).await?;
        let due = |(id, account): (Uuid, String)| Ok((id.into(), parsed("webhooks.account_id", &account)?));
        Ok(rows.into_iter().map(due).collect::<Result<_, Corrupt>>()?)
    }

    /// Leases an endpoint until `until`; `false` if another process has it.
    #[boxed]
    pub async fn webhook_lease(
        &self,
        id: WebhookId,
        lease: Uuid,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<bool, StoreError> {
        const SQL: &str = "UPDATE webhooks SET lease = $2, leased_until = $4, leased_by = $5
            WHERE id = $1 AND disabled_at IS NULL AND disabled_by_operator_at IS NULL
                AND (lease IS NULL OR leased_until <= $3)";
        let leased = query(SQL).bind(id.as_uuid()).bind(lease).bind(now).bind(until).bind(self.holder());
        let leased = leased.execute(self.pool.writer());
        Ok(leased.during(Operation::LeaseWebhooks).await? == 1)
    }

    /// Starts the next try and renews the lease; `None` if no delivery is due, the lease is lost, or the endpoint is disabled.
    #[boxed]
    pub async fn webhook_try_begin(
        &self,
        id: WebhookId,
        lease: Uuid,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<Option<DueDelivery>, StoreError> {
        const RENEW: &str = "UPDATE webhooks SET leased_until = $3
            WHERE id = $1 AND lease = $2 AND disabled_at IS NULL AND disabled_by_operator_at IS NULL
            RETURNING url, secret, old_secret, old_secret_until, failing_since, dropped";
        const NEXT: &str = "UPDATE webhook_deliveries SET tries = tries + 1, last_try_at = $2
            WHERE webhook_id = $1 AND notification_id = (SELECT d.notification_id FROM webhook_deliveries d
                WHERE d.webhook_id = $1 AND d.next_try_at IS NOT NULL AND d.next_try_at <= $2
                ORDER BY d.created_at, d.notification_id LIMIT 1)
            RETURNING notification_id, body, created_at, tries, more";
        in_transaction!(&self.pool, |tx| {
            let leased: Option<LeasedRow> =
                query(RENEW).bind(id.as_uuid()).bind(lease).bind(until).fetch_optional(&mut *tx).await?;
            let Some(leased) = leased else { return Ok(None) };
            let due: Option<DueRow> = query(NEXT).bind(id.as_uuid()).bind(now).fetch_optional(&mut *tx).await?;
            due.map(|due| leased.with(id, due, now)).transpose().map_err(undecodable)
        })
        .during(Operation::BeginTryOfDelivery)
        .await
    }

    /// Stores the result of a try; `false` if the delivery is settled. `lease` shows that no other process has taken over the endpoint.
    #[boxed]
    pub async fn webhook_try_end(
        &self,
        due: &DueDelivery,
        lease: Uuid,
        result: TryResult,
        then: AfterTry,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        const SETTLE: &str = "UPDATE webhook_deliveries SET next_try_at = $3, settled_at = $4, is_delivered = $5,
            status = $6, error = $7 WHERE webhook_id = $1 AND notification_id = $2 AND settled_at IS NULL";
        const SUCCESS: &str =
            "UPDATE webhooks SET failing_since = NULL, failures = 0, last_success_at = $2 WHERE id = $1";
        const FAILURE: &str =
            "UPDATE webhooks SET failing_since = COALESCE(failing_since, $3), failures = failures + 1,
            last_failure_at = $3 WHERE id = $1 AND lease = $2";
        let (next, is_delivered) = match then {
            AfterTry::Again(at) => (Some(at), false),
            AfterTry::Delivered => (None, true),
            AfterTry::GivenUp | AfterTry::Disabled(_) => (None, false),
        };
        in_transaction!(
            &self.pool,
            |tx| {
                let rows_affected = query(SETTLE)
                    .bind(due.webhook.as_uuid())
                    .bind(due.notification)
                    .bind(next)
                    .bind(next.is_none().then_some(now))
                    .bind(is_delivered)
                    .bind(result.status.map(i64::from))
                    .bind(result.error.as_deref().map(storable))
                    .execute(&mut *tx)
                    .await?;
                if rows_affected == 0 {
                    return Ok(false);
                }
                let id = due.webhook.as_uuid();
                if is_delivered {
                    query(SUCCESS).bind(id).bind(now).execute(&mut *tx).await?;
                } else {
                    query(FAILURE).bind(id).bind(lease).bind(now).execute(&mut *tx).await?;
                }
                if let AfterTry::Disabled(why) = then {
                    disable(tx, due.webhook, why, now).await?;
                }
                Ok(true)
            },
            commit if |done| *done
        )
        .during(Operation::EndTryOfDelivery)
        .await
    }

    /// Releases a lease.
    #[boxed]
    pub async fn webhook_lease_end(&self, id: WebhookId, lease: Uuid, now: Timestamp) -> Result<(), StoreError> {
        // The time stays, because it orders the endpoints by their last lease.
        const SQL: &str = "UPDATE webhooks SET lease = NULL, leased_until = $3 WHERE id = $1 AND lease = $2";
        let given = query(SQL).bind(id.as_uuid()).bind(lease).bind(now).execute(self.pool.writer());
        given.during(Operation::LeaseWebhooks).await.map(drop)
    }
}

/// Disables an endpoint and settles its waiting deliveries, in the caller's transaction.
async fn disable(tx: &mut Tx<'_>, id: WebhookId, why: DisabledWhy, now: Timestamp) -> Result<(), sqlx::Error> {
    const DISABLE: &str = "UPDATE webhooks SET disabled_at = $2, disabled_why = $3
        WHERE id = $1 AND disabled_at IS NULL";
    const END: &str = "UPDATE webhook_deliveries SET next_try_at = NULL, settled_at = $2,
        error = COALESCE(error, 'the endpoint was disabled') WHERE webhook_id = $1 AND next_try_at IS NOT NULL";
    query(DISABLE).bind(id.as_uuid()).bind(now).bind(<&'static str>::from(why)).execute(&mut *tx).await?;
    query(END).bind(id.as_uuid()).bind(now).execute(tx).await.map(drop)
}

crate::row! {
    struct WebhookRow {
        id: Uuid,
        account_id: String,
        url: String,
        description: String,
        kinds: String,
        created_at: Timestamp,
        disabled_at: Option<Timestamp>,
        disabled_why: Option<String>,
        disabled_by_operator_at: Option<Timestamp>,
        failing_since: Option<Timestamp>,
        dropped: i64,
        dropped_at: Option<Timestamp>,
        old_secret_until: Option<Timestamp>,
    }
}

/// The reason for which an endpoint is disabled, with its time.
fn disabled(
    (at, why): (Option<Timestamp>, Option<&str>),
    by_operator_at: Option<Timestamp>,
) -> Result<Option<(Timestamp, DisabledWhy)>, Corrupt> {
    let why = parsed_opt("webhooks.disabled_why", why)?;
    Ok(by_operator_at.map(|at| (at, DisabledWhy::Operator)).or(at.zip(why)))
}

impl TryFrom<WebhookRow> for Webhook {
    type Error = Corrupt;

    fn try_from(row: WebhookRow) -> Result<Self, Corrupt> {
        let disabled = disabled((row.disabled_at, row.disabled_why.as_deref()), row.disabled_by_operator_at)?;
        let dropped = u64::try_from(row.dropped).map_err(|error| Corrupt::new("webhooks.dropped", error))?;
        Ok(Self {
            id: row.id.into(),
            account: parsed("webhooks.account_id", &row.account_id)?,
            url: parsed("webhooks.url", &row.url)?,
            description: parsed("webhooks.description", &row.description)?,
            kinds: kinds_of_text("webhooks.kinds", &row.kinds)?,
            created_at: row.created_at,
            disabled,
            failing_since: row.failing_since,
            dropped: row.dropped_at.map(|at| (dropped, at)),
            old_secret_until: row.old_secret_until,
        })
    }
}

crate::row! {
    struct DeliveryRow {
        notification_id: Uuid,
        kind: String,
        created_at: Timestamp,
        next_try_at: Option<Timestamp>,
        tries: i64,
        last_try_at: Option<Timestamp>,
        status: Option<i64>,
        error: Option<String>,
        is_delivered: bool,
    }
}

impl TryFrom<DeliveryRow> for DeliveryRecord {
    type Error = Corrupt;

    fn try_from(row: DeliveryRow) -> Result<Self, Corrupt> {
        let status = row.status.map(u16::try_from).transpose();
        Ok(Self {
            notification: row.notification_id,
            kind: row.kind,
            created_at: row.created_at,
            next_try_at: row.next_try_at,
            tries: count("webhook_deliveries.tries", row.tries)?,
            last_try_at: row.last_try_at,
            status: status.map_err(|error| Corrupt::new("webhook_deliveries.status", error))?,
            error: row.error,
            is_delivered: row.is_delivered,
        })
    }
}

crate::row! {
    struct LeasedRow {
        url: String,
        secret: Vec<u8>,
        old_secret: Option<Vec<u8>>,
        old_secret_until: Option<Timestamp>,
        failing_since: Option<Timestamp>,
        dropped: i64,
    }
}

crate::row! {
    struct DueRow {
        notification_id: Uuid,
        body: String,
        created_at: Timestamp,
        tries: i64,
        more: i64,
    }
}

impl LeasedRow {
    fn with(self, webhook: WebhookId, due: DueRow, now: Timestamp) -> Result<DueDelivery, Corrupt> {
        let mut secrets = vec![bytes("webhooks.secret", &self.secret)?.into()];
        if let (Some(old), Some(until)) = (self.old_secret, self.old_secret_until)
            && now < until
        {
            secrets.push(bytes("webhooks.old_secret", &old)?.into());
        }
        Ok(DueDelivery {
            webhook,
            url: self.url,
            secrets,
            notification: due.notification_id,
            body: with_dropped(body_with_more(due.body, due.more)?, self.dropped),
            created_at: due.created_at,
            tries: count("webhook_deliveries.tries", due.tries)?,
            failing_since: self.failing_since,
        })
    }
}

/// Adds the number of dropped notifications to a body, which is an object.
fn with_dropped(body: String, dropped: i64) -> String {
    match body.strip_suffix('}') {
        Some(members) if dropped > 0 => format!("{members},\"dropped\":{dropped}}}"),
        _ => body,
    }
}

/// The body of a notification, byte for byte unless it counts further facts.
fn body_with_more(body: String, more: i64) -> Result<String, Corrupt> {
    if more == 0 {
        return Ok(body);
    }
    let mut read: Value =
        serde_json::from_str(&body).map_err(|error| Corrupt::new("webhook_deliveries.body", error))?;
    with_more(&mut read["data"], more);
    Ok(read.to_string())
}
