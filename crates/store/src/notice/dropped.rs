//! Notifications without a row, because too many wait for their endpoint.

use super::{News, push_news};
use crate::pool::{QueryBuilder, Tx};

/// The endpoints that subscribe to news `n` without a row of it. Rows of held events count held events without a row.
const LACKING: &str = " FROM news n JOIN webhooks w ON w.account_id = COALESCE(n.account_id,
        (SELECT m.account_id FROM machines m WHERE m.machine_uuid = n.machine_uuid))
    WHERE w.disabled_at IS NULL AND n.kind <> 'event.held' AND w.kinds LIKE '%,' || n.kind || ',%'
        AND NOT EXISTS (SELECT 1 FROM webhook_deliveries d
            WHERE d.webhook_id = w.id AND d.notification_id = n.notification_id)";

/// Counts news without a row per endpoint. Called after the news within the limits were inserted.
pub(super) async fn count(tx: &mut Tx<'_>, news: &[News<'_>]) -> Result<(), sqlx::Error> {
    let mut sql = QueryBuilder::new("");
    push_news(&mut sql, news);
    sql.push(", lacking (webhook, facts, at) AS (SELECT w.id, COUNT(*), MAX(n.at)").push(LACKING);
    sql.push(
        " GROUP BY w.id)
        UPDATE webhooks SET dropped = dropped + (SELECT l.facts FROM lacking l WHERE l.webhook = id),
            dropped_at = (SELECT l.at FROM lacking l WHERE l.webhook = id)
        WHERE id IN (SELECT webhook FROM lacking)",
    );
    let endpoints = sql.build().execute(tx).await?;
    if endpoints > 0 {
        metrics::counter!("attache_webhooks_total", "outcome" => "dropped").increment(endpoints);
        tracing::warn!(endpoints, "notifications are dropped: too many wait for their endpoints");
    }
    Ok(())
}
