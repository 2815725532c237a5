//! A connection that the pool lends, and the watch over its statements.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use sqlx::Error;
use sqlx::postgres::PgConnection;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep};

use super::connections::Shared;
use super::examination::{Backend, Verdict};
use super::session::{Session, no_answer};

/// Number of checks in which the server may wait for this process, or in which another server may answer: a large response takes time on a
/// slow network, and several servers may share one name.
const WAITS_MAX: u32 = 10;

/// Maximum age of a failed session that is closed without the others: a new session would have the same settings.
const NEW: Duration = Duration::from_secs(1);

/// The state of a lent connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No statement is running, and no transaction is open.
    Ready,
    /// A statement was sent, and its response was not read completely.
    Busy,
    /// The connection must not be used again.
    Spent,
}

/// A connection of the pool. Dropping it returns it; if a statement is in flight or has failed, the connection is closed instead.
#[derive(Debug)]
pub struct PostgresConnection {
    /// `None` after it was closed.
    session: Option<Session>,
    state: State,
    /// Timeout of a statement.
    longest: Option<Duration>,
    /// Whether it has the settings of the pool, so that others may use it.
    is_common: bool,
    pool: Arc<Shared>,
    /// Released after the connection was returned or closed.
    _lent: OwnedSemaphorePermit,
}

impl PostgresConnection {
    pub(super) fn new(session: Session, pool: Arc<Shared>, lent: OwnedSemaphorePermit) -> Self {
        let longest = pool.limits.get().statement;
        Self { session: Some(session), state: State::Ready, longest, is_common: true, pool, _lent: lent }
    }

    /// Starts a statement: returns the connection to send it on, and the watch that waits for its response.
    pub fn statement(&mut self) -> Result<(&mut PgConnection, StatementWatch<'_>), Error> {
        let Some(session) = self.session.as_mut().filter(|_| self.state == State::Ready) else {
            return Err(Error::WorkerCrashed);
        };
        let Session { connection, backend, host, server, generation, opened, .. } = session;
        let watch = StatementWatch {
            state: &mut self.state,
            backend: Backend { process: *backend, server: server.as_deref() },
            host: *host,
            generation: *generation,
            opened: *opened,
            longest: self.longest,
            pool: &self.pool,
        };
        Ok((connection, watch))
    }

    /// The start time of its server.
    pub(super) fn server(&self) -> Option<&str> {
        self.session.as_ref()?.server.as_deref()?.split_whitespace().next()
    }

    /// Closes the connection at its end, and disables the timeout of statements.
    pub(super) fn set_apart(&mut self) {
        self.is_common = false;
        self.longest = None;
    }

    /// Closes the connection at its end.
    pub(super) fn spend(&mut self) {
        self.state = State::Spent;
    }

    /// Closes the connection gracefully. Its place in the pool is free after the server has been notified.
    pub async fn close(mut self) {
        if let Some(session) = self.session.take()
            && self.state == State::Ready
        {
            session.close().await;
        }
    }
}

impl Drop for PostgresConnection {
    fn drop(&mut self) {
        if let Some(session) = self.session.take()
            && self.state == State::Ready
            && self.is_common
        {
            self.pool.take_back(session);
        }
    }
}

/// Waits for the response to one statement.
#[derive(Debug)]
#[must_use]
pub struct StatementWatch<'c> {
    state: &'c mut State,
    backend: Backend<'c>,
    /// Number of the server's host in the URL.
    host: usize,
    generation: u64,
    opened: Instant,
    longest: Option<Duration>,
    pool: &'c Shared,
}

impl StatementWatch<'_> {
    /// Runs the statement. If no response arrives for `silent_after`, the server is examined, repeatedly at this interval. If the server
    /// does not work on the statement, or the statement exceeds its timeout, the connection is closed together with all of its generation.
    pub(in crate::pool) async fn over<T>(self, statement: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        *self.state = State::Busy;
        let begun = Instant::now();
        let mut statement = pin!(statement);
        let mut waits = 0;
        let outcome = loop {
            let silent_after = self.pool.limits.get().silent_after;
            tokio::select! {
                biased;
                outcome = &mut statement => break outcome,
                () = sleep(silent_after) => {}
            }
            let verdict = tokio::select! {
                biased;
                outcome = &mut statement => break outcome,
                verdict = self.pool.examine(self.host, self.backend) => verdict,
            };
            // If another server answers, a statement without a timeout, such as a migration, is not interrupted.
            let is_wait = verdict == Verdict::Waits || verdict == Verdict::Elsewhere && self.longest.is_some();
            waits += u32::from(is_wait);
            let is_late = self.longest.is_some_and(|longest| begun.elapsed() >= longest);
            if is_late || waits >= WAITS_MAX || matches!(verdict, Verdict::Idle | Verdict::Unreachable) {
                *self.state = State::Spent;
                self.pool.distrust(self.generation);
                let error = no_answer(begun.elapsed());
                tracing::warn!(
                    backend = self.backend.process,
                    ?verdict,
                    "a connection to the database is closed: {error}"
                );
                return Err(error);
            }
        };
        *self.state = match Aftermath::of(&outcome) {
            Aftermath::Usable => State::Ready,
            Aftermath::Spent => State::Spent,
            Aftermath::Outdated => {
                if self.opened.elapsed() > NEW {
                    self.pool.distrust(self.generation);
                }
                State::Spent
            }
        };
        outcome
    }
}

/// The effect of a statement's result on its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aftermath {
    Usable,
    /// The connection is closed.
    Spent,
    /// The connection is closed with all of its generation: the server or its settings have changed since the sessions were opened.
    Outdated,
}

impl Aftermath {
    fn of<T>(outcome: &Result<T, Error>) -> Self {
        match outcome {
            Ok(_) | Err(Error::RowNotFound) => Self::Usable,
            Err(Error::Database(error)) => Self::of_code(error.code().as_deref().unwrap_or_default()),
            Err(_) => Self::Spent,
        }
    }

    /// <https://www.postgresql.org/docs/current/errcodes-appendix.html>
    fn of_code(code: &str) -> Self {
        match code {
            // A read-only transaction; a table or a schema that is not found.
            "25006" | "42P01" | "3F000" => Self::Outdated,
            // The server ends the session after these errors.
            _ if ["08", "57P", "25P03"].iter().any(|ends| code.starts_with(ends)) => Self::Spent,
            _ => Self::Usable,
        }
    }
}
