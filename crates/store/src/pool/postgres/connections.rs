//! The connections of a process to one PostgreSQL database.
//!
//! A connection is lent to one user at a time and returned unchanged. A connection that was dropped during a statement or a transaction, or
//! that failed, is closed, so no query is needed between two users. An idle connection is tested with an empty round trip before use. When
//! one connection fails, all connections of its generation are closed, because the same cause has often broken them too.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::live::Live;
use futures_util::future::try_join_all;
use sqlx::{Connection, Error};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

use super::connection::PostgresConnection;
use super::examination::{Backend, Examiner, Verdict};
use super::hosts::Hosts;
use super::limits::Limits;
use super::session::{Greeting, Session, Unfit};
use crate::pool::DatabaseSettings;

/// Idle time after which a connection is tested before it is used.
const TRIED_AFTER: Duration = Duration::from_secs(1);

/// Idle time after which a connection is closed.
const IDLE_MAX: Duration = Duration::from_mins(10);

/// Age at which a connection is closed, because the server allocates memory for each connection.
const AGE_MAX: Duration = Duration::from_mins(30);

/// Time for which opening is retried while the server is starting or has no free connection.
const RETRIED_FOR: Duration = Duration::from_secs(1);

/// Number of sessions of [`PostgresPool::servers`].
const SESSIONS_COMPARED: u32 = 4;

/// Pause before the first retry; it doubles.
const RETRIED_AFTER: Duration = Duration::from_millis(10);

/// The use for which a connection is lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::pool) enum Access {
    Read,
    Write,
}

/// The connections, or a view of them for the tables of one schema. Clones share the connections.
#[derive(Debug, Clone)]
pub struct PostgresPool {
    pub(super) shared: Arc<Shared>,
    /// The schema of the tables; `None` is the server's default.
    pub(in crate::pool) schema: Option<&'static str>,
    /// Whether the connections belong to another pool, which closes them.
    is_part: bool,
}

/// State that all clones and views share.
pub(super) struct Shared {
    pub(super) hosts: Hosts,
    greeting: Greeting,
    pub(super) limits: Live<Limits>,
    pub(super) lent: Arc<Semaphore>,
    /// The newest is last, and is lent first.
    idle: Mutex<VecDeque<Idle>>,
    open: Arc<AtomicU32>,
    /// Connections of an older generation are not used any more.
    generation: AtomicU64,
    examiner: Examiner,
    is_closed: AtomicBool,
}

#[derive(Debug)]
struct Idle {
    session: Session,
    since: Instant,
}

/// Hides the options, which contain a password.
impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("limits", &self.limits).field("open", &self.open).finish_non_exhaustive()
    }
}

impl PostgresPool {
    /// Creates a pool without a connection.
    pub(super) fn new(hosts: Hosts, greeting: Greeting, limits: Limits, schema: Option<&'static str>) -> Self {
        let lent = usize::try_from(limits.lent_max).unwrap_or(Semaphore::MAX_PERMITS).min(Semaphore::MAX_PERMITS);
        let shared = Shared {
            hosts,
            greeting,
            limits: limits.into(),
            lent: Arc::new(Semaphore::new(lent)),
            idle: Mutex::default(),
            open: Arc::default(),
            generation: AtomicU64::new(0),
            examiner: Examiner::default(),
            is_closed: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared), schema, is_part: false }
    }

    /// The same connections for the tables of another schema.
    pub(in crate::pool) fn in_schema(&self, schema: &'static str) -> Self {
        Self { shared: Arc::clone(&self.shared), schema: Some(schema), is_part: true }
    }

    /// Opens the first connection, once: its error is the reason why the database cannot be used.
    pub(super) async fn open_first(&self) -> Result<PostgresConnection, Error> {
        let lent = Arc::clone(&self.shared.lent).acquire_owned().await.map_err(|_| Error::PoolClosed)?;
        let session = self.shared.connect_once().await.map_err(|failed| failed.error)?;
        Ok(PostgresConnection::new(session, Arc::clone(&self.shared), lent))
    }

    /// Lends a connection. `Access::Write` fails while the database is read-only.
    #[boxed]
    pub(in crate::pool) async fn acquire(&self, access: Access) -> Result<PostgresConnection, Error> {
        let shared = &self.shared;
        let acquired = async {
            let lent = Arc::clone(&shared.lent).acquire_owned().await.map_err(|_| Error::PoolClosed)?;
            if shared.is_closed.load(Ordering::Acquire) {
                return Err(Error::PoolClosed);
            }
            let session = match shared.idle_session(access).await {
                Some(session) => session,
                None => shared.new_session(access).await?,
            };
            Ok(PostgresConnection::new(session, Arc::clone(shared), lent))
        };
        let longest = shared.limits.get().acquire;
        timeout(longest, acquired).await.unwrap_or(Err(Error::PoolTimedOut))
    }

    /// Lends a connection for long work that may wait for locks, such as a migration. It is closed afterwards, with its settings.
    pub(crate) async fn acquire_apart(&self) -> Result<PostgresConnection, Error> {
        let mut connection = self.acquire(Access::Write).await?;
        connection.set_apart();
        let (on, watch) = connection.statement()?;
        watch.over(sqlx::raw_sql("SET statement_timeout TO 0; SET lock_timeout TO 0").execute(on)).await?;
        Ok(connection)
    }

    /// Number of servers that sessions are on, by their times of start: a balancer or a name may lead to several.
    pub(in crate::pool) async fn servers(&self) -> Result<usize, Error> {
        let count = SESSIONS_COMPARED.min(self.lent_max());
        let sessions = try_join_all((0..count).map(|_| self.acquire(Access::Read))).await?;
        Ok(sessions.iter().map(PostgresConnection::server).collect::<BTreeSet<_>>().len())
    }

    /// Closes idle connections immediately and lent ones when they are returned, with their prepared statements.
    pub(in crate::pool) fn renew(&self) {
        self.shared.distrust(self.shared.generation.load(Ordering::Acquire));
    }

    /// Puts the timeouts of other settings in force. If they are settings of sessions, [renews](Self::renew) the connections.
    pub(in crate::pool) fn retune(&self, settings: &DatabaseSettings) {
        self.shared.limits.set(Limits::of(settings));
        if self.shared.greeting.retune(settings) {
            self.renew();
        }
    }

    /// Waits for lent connections, at most for `acquire_timeout`, and closes all. A view of another pool closes nothing.
    pub async fn close(&self) {
        if self.is_part {
            return;
        }
        let shared = &self.shared;
        shared.is_closed.store(true, Ordering::Release);
        // An error means that the semaphore was closed before.
        let Limits { acquire, lent_max, .. } = **shared.limits.get();
        let all = timeout(acquire, shared.lent.acquire_many(lent_max)).await;
        if all.is_err() {
            tracing::warn!("statements are under way although the database is closed; their connections are cut");
        }
        shared.lent.close();
        let idle: Vec<Idle> = shared.idle().drain(..).collect();
        futures_util::future::join_all(idle.into_iter().map(|idle| idle.session.close())).await;
    }

    /// Maximum number of connections that are lent at the same time.
    pub fn lent_max(&self) -> u32 {
        self.shared.limits.get().lent_max
    }

    /// Number of open connections.
    pub fn size(&self) -> u32 {
        self.shared.open.load(Ordering::Acquire)
    }

    /// Number of open connections that are not lent.
    pub fn num_idle(&self) -> usize {
        self.shared.idle().len()
    }
}

impl Shared {
    fn idle(&self) -> MutexGuard<'_, VecDeque<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest idle connection that is usable.
    async fn idle_session(&self, access: Access) -> Option<Session> {
        loop {
            let Idle { mut session, since } = self.newest_idle(access)?;
            if !self.is_usable(&session) {
                continue;
            }
            if since.elapsed() < TRIED_AFTER {
                return Some(session);
            }
            let longest = self.limits.get().trial;
            match timeout(longest, session.connection.ping()).await {
                Ok(Ok(())) => return Some(session),
                Ok(Err(error)) => {
                    tracing::debug!(error = domain::reasons(&error), "an idle connection to the database has ended");
                }
                Err(_) => self.distrust(session.generation),
            }
        }
    }

    fn newest_idle(&self, access: Access) -> Option<Idle> {
        let mut idle = self.idle();
        let place = idle.iter().rposition(|idle| access == Access::Read || !idle.session.is_read_only)?;
        idle.remove(place)
    }

    /// Opens a connection. A read-only one is kept for reads.
    async fn new_session(&self, access: Access) -> Result<Session, Error> {
        if access == Access::Write {
            // Makes room for the new connection.
            drop(self.newest_idle(Access::Read));
        }
        let session = self.connect().await?;
        if access == Access::Write && session.is_read_only {
            self.take_back(session);
            return Err(Unfit::ReadOnly.into());
        }
        if !session.is_read_only {
            // The database accepts writes again.
            self.idle().retain(|idle| !idle.session.is_read_only);
        }
        Ok(session)
    }

    fn is_usable(&self, session: &Session) -> bool {
        session.generation == self.generation.load(Ordering::Acquire) && session.opened.elapsed() < AGE_MAX
    }

    /// Tries each server once.
    async fn connect_once(&self) -> Result<Session, Failed> {
        let generation = self.generation.load(Ordering::Acquire);
        let mut failures = Vec::new();
        for number in self.hosts.in_turn() {
            let server = (number, self.hosts.at(number));
            let longest = self.limits.get().connect_to_one_of(self.hosts.count());
            match Session::open(server, &self.greeting, longest, generation, &self.open).await {
                Ok(session) => return Ok(session),
                Err(error) => {
                    self.hosts.failed(number);
                    failures.push((number, error));
                }
            }
        }
        let is_starting = failures.iter().any(|(_, error)| is_starting(error));
        Err(Failed { error: self.hosts.failure(failures), is_starting })
    }

    async fn connect(&self) -> Result<Session, Error> {
        let until = Instant::now() + RETRIED_FOR;
        let mut pause = RETRIED_AFTER;
        loop {
            match self.connect_once().await {
                Err(failed) if failed.is_starting && Instant::now() + pause < until => {
                    sleep(pause).await;
                    pause *= 2;
                }
                done => return done.map_err(|failed| failed.error),
            }
        }
    }

    /// Takes back a connection that is ready for another user.
    pub(super) fn take_back(&self, session: Session) {
        if self.is_closed.load(Ordering::Acquire) || !self.is_usable(&session) {
            return;
        }
        let mut idle = self.idle();
        idle.push_back(Idle { session, since: Instant::now() });
        while idle.front().is_some_and(|oldest| oldest.since.elapsed() >= IDLE_MAX) {
            idle.pop_front();
        }
    }

    /// Examines a process of the server with this number.
    pub(super) async fn examine(&self, host: usize, backend: Backend<'_>) -> Verdict {
        let longest = self.limits.get().silent_after;
        self.examiner.examine(&self.hosts.at(host).options, backend, longest).await
    }

    /// Closes the connections of a generation with a failed connection, and of earlier ones. Newer connections stay.
    pub(super) fn distrust(&self, generation: u64) {
        // An error means that another task has already done so for this generation.
        let _ = self.generation.compare_exchange(generation, generation + 1, Ordering::AcqRel, Ordering::Acquire);
        self.idle().retain(|idle| idle.session.generation > generation);
    }
}

/// The result of a failed attempt at all servers.
struct Failed {
    error: Error,
    is_starting: bool,
}

/// Whether the server may accept a connection soon.
fn is_starting(error: &Error) -> bool {
    match error {
        Error::Io(error) => error.kind() == ErrorKind::ConnectionRefused,
        Error::Database(error) => error.is_transient_in_connect_phase(),
        _ => false,
    }
}
