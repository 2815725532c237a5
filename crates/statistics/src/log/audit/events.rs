//! The events in the order of the tree, followed by the events without a place, each after its predecessor.

use domain::ids::EventId;
use store::Pool;
use store::pool::{query, scalar};
use uuid::Uuid;

use super::super::error::During as _;
use super::super::handle::Log;
use super::super::postgres::{WaitingEvent, in_chain_order};
use super::super::sql::{self, AuditRow, postgres};
use super::fault::AuditFault;

/// Number of rows of one read.
const PAGE: u16 = 500;

/// How far the events have been read.
#[derive(Debug, Default)]
pub struct EventPages {
    /// SQLite: the number of the last event; PostgreSQL: the next place.
    next: i64,
    /// PostgreSQL: the numbers of the events that remain, once all places were read.
    rest: Option<Vec<i64>>,
}

store::row! {
    /// A row of [`postgres::REST`]; `follows` and the hash are set only for an event without a place.
    #[derive(Debug)]
    struct RestRow {
        leaf_index: Option<i64>,
        waiting: WaitingEvent,
    }
}

impl Log {
    /// The next events; empty at the end. Events that are appended during the audit may be left out.
    pub(super) async fn next_page(&self, pages: &mut EventPages) -> Result<Vec<AuditRow>, AuditFault> {
        const ASK: &str = "read events";
        if let Pool::Sqlite { .. } = &self.pool {
            let page = query(sql::EVENTS_AFTER).bind(pages.next).bind(i64::from(PAGE)).fetch_all(&self.pool);
            let rows: Vec<AuditRow> = page.await.during(ASK)?;
            pages.next = rows.last().map_or(pages.next, |last| last.id);
            return Ok(rows);
        }
        if pages.rest.is_none() {
            let page = query(postgres::EVENTS_PLACED).bind(pages.next).bind(i64::from(PAGE)).fetch_all(&self.pool);
            let rows: Vec<AuditRow> = page.await.during(ASK)?;
            for row in &rows {
                if row.proof.leaf_index != Some(pages.next) {
                    return Err(AuditFault::Place(u64::try_from(pages.next).unwrap_or(u64::MAX)));
                }
                pages.next += 1;
            }
            if !rows.is_empty() {
                return Ok(rows);
            }
            pages.rest = Some(self.numbers_from(pages.next).await?);
        }
        let rest = pages.rest.get_or_insert_default();
        // A queued number without a row leaves its chain without its head.
        let mut rows = Vec::new();
        while rows.is_empty() && !rest.is_empty() {
            let numbers: Vec<i64> = rest.drain(..rest.len().min(usize::from(PAGE))).collect();
            rows = query(postgres::EVENTS_OF).bind(numbers).fetch_all(&self.pool).await.during(ASK)?;
        }
        Ok(rows)
    }

    /// The numbers of the events from `place` on, and of events without a place. Fails if an event has neither.
    async fn numbers_from(&self, place: i64) -> Result<Vec<i64>, AuditFault> {
        const ASK: &str = "read events without a place";
        let stray: Option<Uuid> = scalar(postgres::UNQUEUED).fetch_optional(&self.pool).await.during(ASK)?;
        if let Some(id) = stray {
            return Err(AuditFault::Unqueued(EventId::from(id)));
        }
        let rest = query(postgres::REST).bind(place).fetch_all(&self.pool);
        let rest: Vec<RestRow> = rest.await.during(ASK)?;
        let (placed, waiting): (Vec<RestRow>, Vec<RestRow>) =
            rest.into_iter().partition(|row| row.leaf_index.is_some());
        let waiting = waiting.into_iter().map(|row| row.waiting).collect();
        let placed = placed.into_iter().map(|row| row.waiting.event);
        Ok(placed.chain(in_chain_order(waiting, false).into_iter().map(|waiting| waiting.event)).collect())
    }
}
