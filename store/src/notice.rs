//! Notifications of account owners. Each is written in the transaction of the fact that it reports: once for each endpoint, and once for the
//! feed of the account, if they ask for its kind.

mod dropped;

use domain::Timestamp;
use domain::ids::MachineUuid;
use domain::webhook::{NotificationKind, body, kinds_of, notification_id};
use serde_json::Value;
use uuid::Uuid;

use crate::Store;
use crate::error::Corrupt;
use crate::pool::{QueryBuilder, Tx};
use crate::row::{chunks, parsed};

/// Which notifications a store writes. By default it writes none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NoticeLimits {
    /// Notifications that may wait for one endpoint; `None` if webhooks are off.
    pub webhook_waiting_max: Option<u32>,
    /// Entries of a feed after which no more are written until the janitor has deleted the oldest; `None` if feeds are off.
    pub feed_entries_max: Option<u32>,
}

/// A fact that owners are notified of.
pub(crate) struct Notice<'a> {
    kind: NotificationKind,
    /// What happened, by its id.
    fact: Uuid,
    to: Recipient<'a>,
    at: Timestamp,
    /// Ids and reasons: never content.
    data: Value,
}

/// The account that is notified.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Recipient<'a> {
    /// This account.
    Account(&'a str),
    /// The account that the computer is attached to.
    OwnerOf(MachineUuid),
}

impl<'a> Notice<'a> {
    pub(crate) fn new(kind: NotificationKind, fact: Uuid, to: Recipient<'a>, at: Timestamp, data: Value) -> Self {
        Self { kind, fact, to, at, data }
    }
}

impl Store {
    /// Writes notifications within these limits.
    #[must_use]
    pub fn with_notices(mut self, limits: NoticeLimits) -> Self {
        self.notices = limits;
        self
    }

    /// Whether notifications are written.
    pub(crate) fn notifies_owners(&self) -> bool {
        self.notices != NoticeLimits::default()
    }

    /// Writes notifications in the caller's transaction. An endpoint or a feed with too many of them gets no more.
    pub(crate) async fn notify_owners(&self, tx: &mut Tx<'_>, notices: &[Notice<'_>]) -> Result<(), sqlx::Error> {
        const DELIVERIES: &str =
            "INSERT INTO webhook_deliveries (webhook_id, notification_id, kind, body, created_at, next_try_at)";
        const TO_WEBHOOKS: &str = " SELECT w.id, n.notification_id, n.kind, n.body, n.at, n.at FROM news n
            JOIN webhooks w ON w.account_id = COALESCE(n.account_id,
                (SELECT m.account_id FROM machines m WHERE m.machine_uuid = n.machine_uuid))
            WHERE w.disabled_at IS NULL AND w.kinds LIKE '%,' || n.kind || ',%'
                AND (SELECT COUNT(*) FROM webhook_deliveries d WHERE d.webhook_id = w.id
                    AND d.next_try_at IS NOT NULL) < ";
        const ENTRIES: &str = "INSERT INTO feed_entries (account_id, notification_id, kind, body, created_at)";
        const TO_FEEDS: &str = " SELECT f.account_id, n.notification_id, n.kind, n.body, n.at FROM news n
            JOIN feeds f ON f.account_id = COALESCE(n.account_id,
                (SELECT m.account_id FROM machines m WHERE m.machine_uuid = n.machine_uuid))
            WHERE f.kinds LIKE '%,' || n.kind || ',%'
                AND (SELECT COUNT(*) FROM feed_entries e WHERE e.account_id = f.account_id) < ";
        if !self.notifies_owners() {
            return Ok(());
        }
        let NoticeLimits { webhook_waiting_max, feed_entries_max } = self.notices;
        let news: Vec<News<'_>> = notices.iter().map(News::of).collect();
        for chunk in chunks(&news) {
            if let Some(waiting_max) = webhook_waiting_max {
                insert(tx, DELIVERIES, chunk, TO_WEBHOOKS, waiting_max).await?;
                dropped::count(tx, chunk).await?;
            }
            if let Some(entries_max) = feed_entries_max {
                insert(tx, ENTRIES, chunk, TO_FEEDS, entries_max).await?;
            }
        }
        Ok(())
    }
}

/// A row of `news`, made once for all tables.
struct News<'a> {
    id: Uuid,
    account: Option<&'a str>,
    machine: Option<Uuid>,
    kind: &'static str,
    body: String,
    at: Timestamp,
}

impl<'a> News<'a> {
    fn of(notice: &Notice<'a>) -> Self {
        let (kind, at) = (notice.kind.as_str(), notice.at);
        let (account, machine) = match notice.to {
            Recipient::Account(account) => (Some(account), None),
            Recipient::OwnerOf(machine) => (None, Some(machine.as_uuid())),
        };
        let (id, body) = (notification_id(kind, notice.fact, at), body(kind, at, &notice.data));
        Self { id, account, machine, kind, body, at }
    }
}

/// Inserts the rows that `select`, which ends with a comparison, makes of the news.
async fn insert(
    tx: &mut Tx<'_>,
    into: &'static str,
    news: &[News<'_>],
    select: &'static str,
    rows_max: u32,
) -> Result<(), sqlx::Error> {
    let mut sql = QueryBuilder::new(into);
    push_news(&mut sql, news);
    sql.push(select).push_bind(i64::from(rows_max));
    sql.push(" ON CONFLICT DO NOTHING");
    sql.build().execute(tx).await.map(drop)
}

fn push_news<'n>(sql: &mut QueryBuilder<'n>, news: &'n [News<'_>]) {
    sql.push(" WITH news (notification_id, account_id, machine_uuid, kind, body, at) AS (");
    sql.push_values(news, |mut row, each| {
        row.push_bind(each.id)
            .push_bind(each.account)
            .push_bind(each.machine)
            .push_bind(each.kind)
            .push_bind(each.body.as_str())
            .push_bind(each.at);
    });
    sql.push(")");
}

/// Kinds as a column has them: `,event.held,batch.done,`.
pub(crate) fn kinds_text(kinds: &[NotificationKind]) -> String {
    kinds.iter().fold(",".to_owned(), |text, kind| text + kind.as_str() + ",")
}

pub(crate) fn kinds_of_text(column: &'static str, text: &str) -> Result<Vec<NotificationKind>, Corrupt> {
    let kinds = text.split(',').filter(|kind| !kind.is_empty()).map(|kind| parsed(column, kind));
    kinds.collect::<Result<Vec<_>, _>>().map(|kinds| kinds_of(&kinds))
}
