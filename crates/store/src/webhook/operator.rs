//! Endpoints of all accounts, for operators.

use domain::Timestamp;
use domain::ids::{UserAccountId, WebhookId};
use domain::web_url::WebUrl;
use domain::webhook::DisabledWhy;
use uuid::Uuid;

use crate::error::{Corrupt, StoreError};
use crate::operation::{During, Operation};
use crate::pool::query;
use crate::row::{count, limit, parsed};
use crate::{Store, in_transaction};

/// An endpoint, as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookOverview {
    /// Id of the endpoint.
    pub id: WebhookId,
    /// The account that is notified.
    pub account: UserAccountId,
    /// Where notifications are sent to. Its path may be a secret of the receiver.
    pub url: WebUrl,
    /// The time at which it was disabled, and the reason; an operator's precedes others.
    pub disabled: Option<(Timestamp, DisabledWhy)>,
    /// Failures after the last success.
    pub failures: u32,
    /// Time of the last success.
    pub last_success_at: Option<Timestamp>,
    /// Time of the last failure.
    pub last_failure_at: Option<Timestamp>,
    /// Number of waiting deliveries.
    pub waiting: u32,
    /// Time of the fact that the oldest one reports.
    pub oldest_waiting_at: Option<Timestamp>,
}

impl Store {
    /// Endpoints of all accounts after this one, oldest first.
    #[boxed]
    pub async fn webhooks_overview(
        &self,
        after: Option<WebhookId>,
        rows_max: usize,
    ) -> Result<Vec<WebhookOverview>, StoreError> {
        const SQL: &str = "SELECT w.id, w.account_id, w.url, w.disabled_at, w.disabled_why, w.disabled_by_operator_at,
                w.failures, w.last_success_at, w.last_failure_at,
                (SELECT COUNT(*) FROM webhook_deliveries d WHERE d.webhook_id = w.id AND d.next_try_at IS NOT NULL)
                    AS waiting,
                (SELECT MIN(d.created_at) FROM webhook_deliveries d
                    WHERE d.webhook_id = w.id AND d.next_try_at IS NOT NULL) AS oldest_waiting_at
            FROM webhooks w WHERE $1 IS NULL OR w.id > $1 ORDER BY w.id LIMIT $2";
        let rows: Vec<OverviewRow> = query(SQL)
            .bind(after.map(|id| id.as_uuid()))
            .bind(limit(rows_max))
            .fetch_all(&self.pool)
            .during(Operation::ListWebhooks)
            .await?;
        Ok(rows.into_iter().map(WebhookOverview::try_from).collect::<Result<_, _>>()?)
    }

    /// Disables an endpoint with the act of an operator, until [`Store::webhook_enable`]. Its deliveries wait. `false` if there is none with
    /// this id, or an operator has disabled it.
    #[boxed]
    pub async fn webhook_disable(&self, id: WebhookId, now: Timestamp) -> Result<bool, StoreError> {
        const SQL: &str = "UPDATE webhooks SET disabled_by_operator_at = $2
            WHERE id = $1 AND disabled_by_operator_at IS NULL";
        in_transaction!(
            &self.pool,
            |tx| {
                let changed = query(SQL).bind(id.as_uuid()).bind(now).execute(&mut *tx).await? > 0;
                if changed {
                    self.record_act(tx, now).await?;
                }
                Ok(changed)
            },
            commit if |changed| *changed
        )
        .during(Operation::DisableWebhook)
        .await
    }

    /// Enables an endpoint that an operator or the server disabled, with the act of an operator, and forgets its failures. If its owner
    /// disabled it too, it stays disabled. Deliveries of facts before `kept_since` are settled. `false` if there is nothing to enable.
    #[boxed]
    pub async fn webhook_enable(
        &self,
        id: WebhookId,
        kept_since: Timestamp,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        const ENABLE: &str = "UPDATE webhooks SET disabled_by_operator_at = NULL, failing_since = NULL, failures = 0,
            disabled_at = CASE WHEN disabled_why = 'owner' THEN disabled_at END,
            disabled_why = CASE WHEN disabled_why = 'owner' THEN disabled_why END
            WHERE id = $1 AND (disabled_by_operator_at IS NOT NULL OR disabled_why IN ('gone', 'failing'))";
        const SETTLE: &str = "UPDATE webhook_deliveries SET next_try_at = NULL, settled_at = $3,
            error = COALESCE(error, 'it waited too long for the endpoint')
            WHERE webhook_id = $1 AND next_try_at IS NOT NULL AND created_at < $2";
        in_transaction!(
            &self.pool,
            |tx| {
                let changed = query(ENABLE).bind(id.as_uuid()).execute(&mut *tx).await? > 0;
                if changed {
                    query(SETTLE).bind(id.as_uuid()).bind(kept_since).bind(now).execute(&mut *tx).await?;
                    self.record_act(tx, now).await?;
                }
                Ok(changed)
            },
            commit if |changed| *changed
        )
        .during(Operation::EnableWebhook)
        .await
    }
}

crate::row! {
    struct OverviewRow {
        id: Uuid,
        account_id: String,
        url: String,
        disabled_at: Option<Timestamp>,
        disabled_why: Option<String>,
        disabled_by_operator_at: Option<Timestamp>,
        failures: i64,
        last_success_at: Option<Timestamp>,
        last_failure_at: Option<Timestamp>,
        waiting: i64,
        oldest_waiting_at: Option<Timestamp>,
    }
}

impl TryFrom<OverviewRow> for WebhookOverview {
    type Error = Corrupt;

    fn try_from(row: OverviewRow) -> Result<Self, Corrupt> {
        Ok(Self {
            id: row.id.into(),
            account: parsed("webhooks.account_id", &row.account_id)?,
            url: parsed("webhooks.url", &row.url)?,
            disabled: super::disabled((row.disabled_at, row.disabled_why.as_deref()), row.disabled_by_operator_at)?,
            failures: count("webhooks.failures", row.failures)?,
            last_success_at: row.last_success_at,
            last_failure_at: row.last_failure_at,
            waiting: count("webhook_deliveries", row.waiting)?,
            oldest_waiting_at: row.oldest_waiting_at,
        })
    }
}
