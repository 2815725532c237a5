//! Adds the events of an SQLite file to the tables of sessions (`log/sessions.rs`).

use rusqlite::{Connection, Row};
use uuid::Uuid;

use super::open::Open;
use super::transaction::begin;
use crate::log::error::{DuringSqlite as _, LogError};
use crate::log::sessions::batch::{FollowedEvent, STEP, SessionBatch, SessionState};
use crate::log::sessions::sql::{ADVANCE, FOLLOWED_ON_SQLITE, PROGRESS, SQLITE};

/// A run over the events that no session includes.
pub struct SessionPass {
    left: u32,
    added: u32,
}

impl SessionPass {
    /// A pass over at most `events_max` events.
    pub fn new(events_max: u32) -> Self {
        Self { left: events_max, added: 0 }
    }
}

impl Open {
    /// Executes one transaction of a pass; `Some` with the number of added events when the pass has ended.
    pub fn follow_sessions(&mut self, pass: &mut SessionPass) -> Result<Option<u32>, LogError> {
        let wanted = STEP.min(pass.left);
        let transaction = begin(&mut self.db)?;
        let count = step(&transaction, wanted)?;
        if count > 0 {
            transaction.commit().during("commit sessions")?;
        }
        pass.added += count;
        pass.left -= count;
        Ok((pass.left == 0 || count < wanted).then_some(pass.added))
    }
}

fn step(db: &Connection, events_max: u32) -> Result<u32, LogError> {
    const READ: &str = "read events that are in no session";
    const WRITE: &str = "write sessions";
    // The transaction has the write lock, so the progress does not change until it ends.
    let from: i64 = db.prepare_cached(PROGRESS).during(READ)?.query_row([], |row| row.get(0)).during(READ)?;
    let mut batch = SessionBatch::default();
    let mut count = 0;
    {
        let mut statement = db.prepare_cached(FOLLOWED_ON_SQLITE).during(READ)?;
        let mut rows = statement.query((from, events_max)).during(READ)?;
        while let Some(row) = rows.next().during(READ)? {
            batch.add(&followed(row).during(READ)?)?;
            count += 1;
        }
    }
    if count == 0 {
        return Ok(0);
    }
    db.prepare_cached(ADVANCE).during(WRITE)?.execute((from, count)).during(WRITE)?;
    if batch.has_sessions() {
        let states = states(db, &batch.ids())?;
        for (statement, rows) in SQLITE.rows.into_iter().zip(batch.rows(states)) {
            db.prepare_cached(statement).during(WRITE)?.execute([rows]).during(WRITE)?;
        }
    }
    if let Some(days) = batch.days() {
        db.prepare_cached(SQLITE.days).during(WRITE)?.execute([days]).during(WRITE)?;
    }
    Ok(count)
}

fn states(db: &Connection, ids: &str) -> Result<Vec<SessionState>, LogError> {
    const READ: &str = "read sessions";
    let mut statement = db.prepare_cached(SQLITE.states).during(READ)?;
    let rows = statement.query_map([ids], |row| {
        Ok(SessionState {
            id: Uuid::from_bytes(row.get("id")?),
            last_ms: row.get("last_ms")?,
            is_request: row.get("is_request")?,
        })
    });
    rows.and_then(Iterator::collect).during(READ)
}

fn followed(row: &Row<'_>) -> rusqlite::Result<FollowedEvent> {
    Ok(FollowedEvent {
        id: row.get("id")?,
        machine_id: Uuid::from_bytes(row.get("machine_id")?),
        user_cuid: row.get("user_cuid")?,
        agent_id: row.get("agent_id")?,
        event_type: row.get("event_type")?,
        consent_level: row.get("consent_level")?,
        ts_edge_ms: row.get("ts_edge_ms")?,
        received_at_ms: row.get("received_at_ms")?,
        canonical: row.get("canonical")?,
    })
}
