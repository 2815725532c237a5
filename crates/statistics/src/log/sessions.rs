//! Sessions of agents: sums over the events that name one session, and the use of models by day.
//!
//! The tables follow the log: each step adds the next events, in the order of the log, and moves the row `session_progress` in the same
//! transaction, guarded by its old value. So each event is counted once, by the first process that commits it, even if a process dies in
//! between. Appends do not write these tables.
//!
//! On SQLite the thread that writes the log executes the steps, between groups (`log/writer/sessions.rs`).

pub(super) mod batch;
mod costs;
mod model;
mod read;
pub(super) mod sql;

pub use costs::{MODEL_DAYS_MAX, ModelDay};
pub use model::{RecordedModelUse, RecordedSession, RecordedSessionEvent, SessionFilter, SessionPage, TimelinePage};
pub use read::{FILES_MAX as SESSION_FILES_MAX, LIMIT_MAX as SESSIONS_MAX};

use store::pool::{query, scalar};
use store::{Pool, in_transaction};

use self::batch::{FollowedEvent, STEP, SessionBatch, SessionState};
use super::error::{During, LogError};
use super::handle::Log;

/// The statement of [`Log::sessions`], for tests of its plan.
#[doc(hidden)]
pub fn session_page_statement(pool: &Pool) -> &'static str {
    if pool.is_postgres() { sql::POSTGRES.page } else { sql::SQLITE.page }
}

impl Log {
    /// Adds the next events of the log to the tables of sessions, at most `events_max`; returns the number of added events. On PostgreSQL
    /// events without a place in the tree are not included.
    #[boxed]
    pub async fn follow_sessions(&self, events_max: u32) -> Result<u32, LogError> {
        if let Some(writer) = &self.writer {
            return writer.follow_sessions(events_max).await;
        }
        let mut added = 0;
        while added < events_max {
            let step = self.follow_step(STEP.min(events_max - added)).await?;
            if step == 0 {
                break;
            }
            added += step;
        }
        Ok(added)
    }

    /// One transaction on PostgreSQL; 0 if there is no further event, or if another process has added these.
    async fn follow_step(&self, events_max: u32) -> Result<u32, LogError> {
        let from: i64 =
            scalar(sql::PROGRESS).fetch_one(&self.pool).await.during("read the progress of the sessions")?;
        let events = query(sql::FOLLOWED_ON_POSTGRES).bind(from).bind(i64::from(events_max)).fetch_all(&self.pool);
        let events: Vec<FollowedEvent> = events.await.during("read events that are in no session")?;
        let Some(count) = u32::try_from(events.len()).ok().filter(|count| *count > 0) else { return Ok(0) };
        let mut batch = SessionBatch::default();
        for event in &events {
            batch.add(event)?;
        }
        let is_first = self.store_sessions(from, count, &batch).await?;
        Ok(if is_first { count } else { 0 })
    }

    /// Adds a batch, unless another process was faster.
    async fn store_sessions(&self, from: i64, count: u32, batch: &SessionBatch) -> Result<bool, LogError> {
        let statements = self.session_statements();
        let (ids, days) = (batch.ids(), batch.days());
        in_transaction!(
            &self.pool,
            |tx| {
                let moved = query(sql::ADVANCE).bind(from).bind(i64::from(count)).execute(&mut *tx).await?;
                if moved == 0 {
                    return Ok(false);
                }
                if batch.has_sessions() {
                    let states: Vec<SessionState> = query(statements.states).bind(&ids).fetch_all(&mut *tx).await?;
                    for (statement, rows) in statements.rows.into_iter().zip(batch.rows(states)) {
                        query(statement).bind(&rows).execute(&mut *tx).await?;
                    }
                }
                if let Some(days) = &days {
                    query(statements.days).bind(days).execute(&mut *tx).await?;
                }
                Ok(true)
            },
            commit if |is_first: &bool| *is_first
        )
        .await
        .during("write sessions")
    }
}
