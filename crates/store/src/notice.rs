//! Notifications of account owners. Each is written in the transaction of the reported fact: once for each endpoint, and once for the feed
//! of the account, if they subscribe to its kind.

mod dropped;

use chrono::TimeDelta;
use domain::Timestamp;
use domain::ids::MachineUuid;
use domain::live::Live;
use domain::webhook::{NotificationKind, body, kinds_of, notification_id};
use serde_json::Value;
use uuid::Uuid;

use crate::Store;
use crate::error::Corrupt;
use crate::pool::{QueryBuilder, Tx};
use crate::row::{chunks, parsed};

/// Limits of the notifications that a store writes. By default it writes none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NoticeLimits {
    /// Maximum number of waiting notifications per endpoint and kind; `None` if webhooks are off.
    pub webhook_waiting_max: Option<u32>,
    /// Number of entries per feed and kind at which no more are written until the janitor has deleted the oldest; `None` if feeds are off.
    pub feed_entries_max: Option<u32>,
}

/// A fact that account owners are notified of.
pub(crate) struct Notice<'a> {
    kind: NotificationKind,
    /// Id of the fact.
    fact: Uuid,
    to: Recipient<'a>,
    at: Timestamp,
    /// Ids and reasons, never content.
    data: Value,
}

/// The account to notify.
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
    pub fn with_notices(mut self, limits: impl Into<Live<NoticeLimits>>) -> Self {
        self.notices = limits.into();
        self
    }

    /// Whether notifications are written.
    pub(crate) fn notifies_owners(&self) -> bool {
        **self.notices.get() != NoticeLimits::default()
    }

    /// Writes notifications in the caller's transaction. Limits apply per kind, so that many notifications of one kind do not displace
    /// other kinds. Further held events are counted in the last notification about a held event.
    pub(crate) async fn notify_owners(&self, tx: &mut Tx<'_>, notices: &[Notice<'_>]) -> Result<(), sqlx::Error> {
        if !self.notifies_owners() {
            return Ok(());
        }
        let NoticeLimits { webhook_waiting_max, feed_entries_max } = **self.notices.get();
        let news: Vec<News<'_>> = notices.iter().map(News::of).collect();
        for chunk in chunks(&news) {
            for (outlet, rows_max) in [(&WEBHOOKS, webhook_waiting_max), (&FEEDS, feed_entries_max)] {
                let Some(rows_max) = rows_max else { continue };
                outlet.insert(tx, chunk, rows_max).await?;
                if chunk.iter().any(|each| each.kind == NotificationKind::EventHeld.as_str()) {
                    outlet.fold(tx, chunk).await?;
                }
            }
            if webhook_waiting_max.is_some() {
                dropped::count(tx, chunk).await?;
            }
        }
        Ok(())
    }
}

/// A table of notifications.
struct Outlet {
    /// Inserts a row.
    insert: &'static str,
    /// The values of the row.
    columns: &'static str,
    /// Selects the news of each subscribed owner.
    wanted: &'static str,
    /// Counts the rows of the owner and kind of `c`.
    count: &'static str,
    /// Maximum number of rows for held events of an owner.
    held_max: u32,
    /// Adds the `rest`, which got no row, to the count in the row of the last held event. That row is looked for once for each owner, not
    /// once for each of the owner's rows.
    fold: &'static str,
    /// Whether the news `n` of the owner has a row.
    is_written: &'static str,
}

/// Time window in which feeds have a maximum number of entries for held events.
const HELD_WINDOW: TimeDelta = TimeDelta::hours(24);

const WEBHOOKS: Outlet = Outlet {
    insert: "INSERT INTO webhook_deliveries (webhook_id, notification_id, kind, body, created_at, next_try_at)",
    columns: " SELECT c.owner, c.notification_id, c.kind, c.body, c.at, c.at",
    wanted: " FROM news n JOIN (SELECT id AS owner, account_id, kinds FROM webhooks WHERE disabled_at IS NULL) o
            ON o.account_id = COALESCE(n.account_id,
                (SELECT m.account_id FROM machines m WHERE m.machine_uuid = n.machine_uuid))
            WHERE o.kinds LIKE '%,' || n.kind || ',%'",
    count: "SELECT COUNT(*) FROM webhook_deliveries d
            WHERE d.webhook_id = c.owner AND d.kind = c.kind AND d.next_try_at IS NOT NULL AND d.created_at > ",
    held_max: 100,
    fold: " UPDATE webhook_deliveries SET more = more + (SELECT r.facts FROM rest r WHERE r.owner = webhook_id)
            WHERE (webhook_id, notification_id) IN (SELECT r.owner, (SELECT d.notification_id
                FROM webhook_deliveries d WHERE d.webhook_id = r.owner AND d.kind = 'event.held'
                    AND d.next_try_at IS NOT NULL ORDER BY d.created_at DESC, d.notification_id DESC LIMIT 1) FROM rest r)",
    is_written: "SELECT 1 FROM webhook_deliveries d WHERE d.webhook_id = o.owner AND d.notification_id = n.notification_id",
};

const FEEDS: Outlet = Outlet {
    insert: "INSERT INTO feed_entries (account_id, notification_id, kind, body, created_at)",
    columns: " SELECT c.owner, c.notification_id, c.kind, c.body, c.at",
    wanted: " FROM news n JOIN (SELECT account_id AS owner, account_id, kinds FROM feeds) o
            ON o.account_id = COALESCE(n.account_id,
                (SELECT m.account_id FROM machines m WHERE m.machine_uuid = n.machine_uuid))
            WHERE o.kinds LIKE '%,' || n.kind || ',%'",
    count: "SELECT COUNT(*) FROM feed_entries e
            WHERE e.account_id = c.owner AND e.kind = c.kind AND e.created_at > ",
    held_max: 10,
    fold: " UPDATE feed_entries SET more = more + (SELECT r.facts FROM rest r WHERE r.owner = account_id)
            WHERE (account_id, notification_id) IN (SELECT r.owner, (SELECT e.notification_id
                FROM feed_entries e WHERE e.account_id = r.owner AND e.kind = 'event.held'
                ORDER BY e.created_at DESC, e.notification_id DESC LIMIT 1) FROM rest r)",
    is_written: "SELECT 1 FROM feed_entries e WHERE e.account_id = o.owner AND e.notification_id = n.notification_id",
};

/// A row of `news`, shared by all tables.
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

impl Outlet {
    /// Inserts news up to the limits.
    async fn insert(&self, tx: &mut Tx<'_>, news: &[News<'_>], rows_max: u32) -> Result<(), sqlx::Error> {
        let Some(last) = news.iter().map(|each| each.at).max() else { return Ok(()) };
        let mut sql = QueryBuilder::new(self.insert);
        push_news(&mut sql, news);
        sql.push(self.columns);
        sql.push(
            " FROM (SELECT o.owner, n.notification_id, n.kind, n.body, n.at,
                ROW_NUMBER() OVER (PARTITION BY o.owner, n.kind ORDER BY n.at, n.notification_id) AS place",
        );
        sql.push(self.wanted).push(") c WHERE c.place + (").push(self.count);
        sql.push("CASE WHEN c.kind = 'event.held' THEN ").push_bind(last - HELD_WINDOW);
        sql.push(" ELSE ").push_bind(Timestamp::UNIX_EPOCH).push(" END) <= CASE WHEN c.kind = 'event.held' THEN ");
        sql.push_bind(i64::from(self.held_max.min(rows_max))).push(" ELSE ").push_bind(i64::from(rows_max));
        sql.push(" END ON CONFLICT DO NOTHING");
        sql.build().execute(tx).await.map(drop)
    }

    /// Counts held events that have no row.
    async fn fold(&self, tx: &mut Tx<'_>, news: &[News<'_>]) -> Result<(), sqlx::Error> {
        let mut sql = QueryBuilder::new("");
        push_news(&mut sql, news);
        sql.push(", rest (owner, facts) AS (SELECT o.owner, COUNT(*)").push(self.wanted);
        sql.push(" AND n.kind = 'event.held' AND NOT EXISTS (").push(self.is_written).push(") GROUP BY o.owner)");
        sql.push(self.fold);
        sql.build().execute(tx).await.map(drop)
    }
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

/// Sets the number of further facts in the member `data` of a body.
pub(crate) fn with_more(data: &mut Value, more: i64) {
    if more > 0
        && let Some(members) = data.as_object_mut()
    {
        members.insert("more".to_owned(), more.into());
    }
}

/// Kinds in the form of a column: `,event.held,batch.done,`.
pub(crate) fn kinds_text(kinds: &[NotificationKind]) -> String {
    kinds.iter().fold(",".to_owned(), |text, kind| text + kind.as_str() + ",")
}

pub(crate) fn kinds_of_text(column: &'static str, text: &str) -> Result<Vec<NotificationKind>, Corrupt> {
    let kinds = text.split(',').filter(|kind| !kind.is_empty()).map(|kind| parsed(column, kind));
    kinds.collect::<Result<Vec<_>, _>>().map(|kinds| kinds_of(&kinds))
}
