//! The only connection of this process that writes to an SQLite file.
//!
//! SQLite allows one writer at a time, and a commit waits for the disk. Therefore bodies of transactions take turns in the order of
//! arrival, and waiting bodies share a commit:
//!
//! 1. The first member of a group starts a transaction (`BEGIN IMMEDIATE`) and runs its body in it.
//! 2. The next body joins the same transaction and runs in a savepoint. A body that fails or is refused is rolled back to its savepoint;
//!    other members are not affected. A single statement needs no savepoint: SQLite undoes a failed statement.
//! 3. When no body waits, or the group is full, or has been open for some milliseconds, the writer's thread commits the transaction. Then
//!    every member gets its result, including refused members, which may have read uncommitted rows of another member. If the commit fails,
//!    every member gets the error.
//!
//! Between two groups the thread copies the write-ahead log into the file, if it has grown enough (`wal.rs`).
//!
//! A body that is the only member runs without a savepoint: `BEGIN IMMEDIATE`, its statements, `COMMIT`.
//!
//! **If an operation fails:** a connection is closed if its `BEGIN`, `COMMIT`, `ROLLBACK`, `SAVEPOINT` or `RELEASE` failed, or if it
//! reported an error of the file, even if its body was dropped. The members of its group get that error, and the next body opens a new
//! connection. If the future of a body is dropped, the body is rolled back at once.

#[cfg(test)]
mod tests;
mod thread;

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use domain::live::Live;
use sqlx::Error;
use tokio::sync::oneshot;

use self::thread::WriterThread;
use super::connection::SqliteConnection;
use super::error::SqliteError;
use super::file::SqliteFile;
use super::wal::WalGrowth;
use crate::error::is_unavailable;

/// Limits of a group.
#[derive(Debug, Clone, Copy)]
struct GroupLimits {
    members_max: usize,
    /// Maximum time since its first member ended.
    open_max: Duration,
}

/// Limits the latency that a member adds to earlier members.
const GROUP_LIMITS: GroupLimits = GroupLimits { members_max: 256, open_max: Duration::from_millis(5) };

/// The writer of an SQLite file. Clones share it.
#[derive(Clone)]
pub struct Writer(Arc<Shared>);

struct Shared {
    file: SqliteFile,
    /// Timeout of waiting for a turn.
    wait_max: Live<Duration>,
    limits: GroupLimits,
    queue: Mutex<Queue>,
    thread: WriterThread,
    commits: AtomicU64,
    members: AtomicU64,
    opened: AtomicU64,
}

#[derive(Default)]
struct Queue {
    /// `None` while a body or the thread uses it.
    writer: Option<WriterConnection>,
    waiting: VecDeque<oneshot::Sender<WriteGuard>>,
    is_closed: bool,
}

/// The state that a turn owns.
#[derive(Default)]
struct WriterConnection {
    /// `None`: not opened yet, or closed after a failure.
    connection: Option<SqliteConnection>,
    /// The open transaction.
    group: Option<Group>,
    wal: WalGrowth,
}

/// Bodies that are committed together.
struct Group {
    members: Vec<oneshot::Sender<Result<(), SqliteError>>>,
    opened: Instant,
}

/// Counts since the file was opened, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriterCounts {
    /// Number of committed transactions.
    pub commits: u64,
    /// Number of committed bodies.
    pub members: u64,
    /// Number of opened connections: more than one means that a connection failed.
    pub opened: u64,
    /// Number of bodies that wait for their turn.
    pub waiting: usize,
}

/// The unit that is undone if a body fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undo {
    /// Several statements, all or none.
    Whole,
    /// One statement, which SQLite undoes if it fails.
    Statement,
}

/// The open part of a transaction that belongs to a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begun {
    Nothing,
    /// A transaction without other members.
    Transaction,
    /// A savepoint in the transaction of a group.
    Savepoint,
    /// One statement in the transaction of a group.
    Statement,
}

impl Writer {
    /// Starts the thread; the first turn opens the file.
    pub(in crate::pool) fn start(file: SqliteFile, wait_max: impl Into<Live<Duration>>) -> std::io::Result<Self> {
        Self::start_within(file, wait_max.into(), GROUP_LIMITS)
    }

    fn start_within(file: SqliteFile, wait_max: Live<Duration>, limits: GroupLimits) -> std::io::Result<Self> {
        Ok(Self(Arc::new(Shared {
            file,
            wait_max,
            limits,
            queue: Mutex::new(Queue { writer: Some(WriterConnection::default()), ..Queue::default() }),
            thread: WriterThread::start()?,
            commits: AtomicU64::new(0),
            members: AtomicU64::new(0),
            opened: AtomicU64::new(0),
        })))
    }

    /// Waits for a turn in a transaction; end it with [`WriteGuard::settle`].
    pub async fn begin(&self, undo: Undo) -> Result<WriteGuard, Error> {
        let turn = self.turn().await?;
        turn.enter(undo).await
    }

    /// Waits for a turn outside of any transaction, on an open connection.
    pub(in crate::pool) async fn alone(&self) -> Result<WriteGuard, Error> {
        let mut turn = self.turn().await?;
        if turn.writer.group.is_some() || turn.writer.connection.is_none() {
            turn = turn
                .on_thread(|mut turn| {
                    turn.shared.commit(&mut turn.writer);
                    turn.open().map(|()| turn)
                })
                .await?;
        }
        Ok(turn)
    }

    /// Runs `last` on the connection after the running body, and closes the connection. Waiting and later bodies get an error.
    pub(in crate::pool) async fn close(&self, last: &'static str) {
        self.0.queue().is_closed = true;
        let turn = match self.queue_up() {
            Ok(turn) => turn,
            Err(waiting) => match waiting.await {
                Ok(turn) => turn,
                Err(_) => return,
            },
        };
        let closed = turn
            .on_thread(move |mut turn| {
                turn.shared.commit(&mut turn.writer);
                if let Some(mut connection) = turn.writer.connection.take() {
                    let result = connection.raw().execute_batch(last);
                    if let Err(error) = result {
                        tracing::debug!(
                            error = domain::reasons(&error),
                            "the statistics of the database could not be updated"
                        );
                    }
                }
                Ok(turn)
            })
            .await;
        drop(closed);
    }

    /// Counts since the file was opened.
    pub fn counts(&self) -> WriterCounts {
        WriterCounts {
            commits: self.0.commits.load(Ordering::Relaxed),
            members: self.0.members.load(Ordering::Relaxed),
            opened: self.0.opened.load(Ordering::Relaxed),
            waiting: self.0.queue().waiting.iter().filter(|waiting| !waiting.is_closed()).count(),
        }
    }

    /// Whether no transaction is open.
    pub(in crate::pool) fn is_idle(&self) -> bool {
        self.0.queue().writer.is_some()
    }

    async fn turn(&self) -> Result<WriteGuard, Error> {
        if self.is_closed() {
            return Err(Error::PoolClosed);
        }
        let wait_max = **self.0.wait_max.get();
        let turn = match self.queue_up() {
            Ok(turn) => turn,
            Err(waiting) => match tokio::time::timeout(wait_max, waiting).await {
                Ok(turn) => turn.map_err(|_| Error::PoolClosed)?,
                Err(_) => return Err(Error::PoolTimedOut),
            },
        };
        if self.is_closed() { Err(Error::PoolClosed) } else { Ok(turn) }
    }

    /// Returns a turn, or a place at the end of the queue.
    fn queue_up(&self) -> Result<WriteGuard, oneshot::Receiver<WriteGuard>> {
        let mut queue = self.0.queue();
        if let Some(writer) = queue.writer.take() {
            return Ok(WriteGuard::new(Arc::clone(&self.0), writer));
        }
        let (sender, waiting) = oneshot::channel();
        queue.waiting.push_back(sender);
        Err(waiting)
    }

    fn is_closed(&self) -> bool {
        self.0.queue().is_closed
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("file", &self.0.file.path()).finish_non_exhaustive()
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes the writer connection to the next in the queue. If the queue is empty or the group is full, commits first.
    fn pass_on(self: &Arc<Self>, mut writer: WriterConnection) {
        loop {
            let next = {
                let mut queue = self.queue();
                let commits = match &writer.group {
                    None => false,
                    Some(group) => group.is_full(self.limits) || queue.waiting.is_empty(),
                };
                if commits {
                    break;
                }
                let Some(next) = queue.waiting.pop_front() else {
                    queue.writer = Some(writer);
                    return;
                };
                next
            };
            // Outside the lock: if the receiver was dropped, the turn is returned or dropped.
            match next.send(WriteGuard::new(Arc::clone(self), writer)) {
                Ok(()) => return,
                Err(mut turn) => writer = turn.take_writer(),
            }
        }
        let mut turn = WriteGuard::new(Arc::clone(self), writer);
        self.thread.run(move || {
            let mut answers = turn.shared.finish(&mut turn.writer);
            if turn.writer.wal.has_grown_by(turn.shared.file.wal_bytes()) {
                std::mem::take(&mut answers).give();
                turn.writer.copy_wal();
            }
            // The next group starts before the members of this one get their results.
            drop(turn);
            answers.give();
        });
    }

    /// Commits the open group, if any, and answers its members.
    fn commit(&self, writer: &mut WriterConnection) {
        self.finish(writer).give();
    }

    /// Commits the open group, if any.
    fn finish(&self, writer: &mut WriterConnection) -> Answers {
        let Some(group) = writer.group.take() else { return Answers::default() };
        let committed = match &mut writer.connection {
            Some(connection) => connection.command("COMMIT"),
            None => Err(SqliteError::rolled_back()),
        };
        match &committed {
            Ok(()) => {
                writer.wal.committed();
                self.commits.fetch_add(1, Ordering::Relaxed);
                self.members.fetch_add(group.members.len() as u64, Ordering::Relaxed);
            }
            Err(_) => writer.connection = None,
        }
        Answers { members: group.members, outcome: Some(committed) }
    }
}

impl Group {
    fn is_full(&self, limits: GroupLimits) -> bool {
        self.members.len() >= limits.members_max || self.opened.elapsed() >= limits.open_max
    }
}

/// The result of a group, for its members.
#[derive(Default)]
struct Answers {
    members: Vec<oneshot::Sender<Result<(), SqliteError>>>,
    outcome: Option<Result<(), SqliteError>>,
}

impl Answers {
    fn give(self) {
        let Some(outcome) = self.outcome else { return };
        let is_alone = self.members.len() == 1;
        for member in self.members {
            let outcome = match &outcome {
                Err(error) if !is_alone => Err(error.for_other_members()),
                outcome => outcome.clone(),
            };
            // A caller may have been dropped.
            let _gone = member.send(outcome);
        }
    }
}

impl WriterConnection {
    /// Closes the connection, which rolls back the transaction. Returns the error for the members.
    fn fail(&mut self, error: &SqliteError) -> Answers {
        self.connection = None;
        let members = self.group.take().map(|group| group.members).unwrap_or_default();
        Answers { members, outcome: Some(Err(error.clone())) }
    }

    /// A failure is not returned to members: the log stays unchanged, and the next group opens a new connection.
    fn copy_wal(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        if let Err(error) = self.wal.copy(connection.raw()) {
            tracing::warn!(
                error = domain::reasons(&error),
                "the write-ahead log could not be copied into the file; it grows until it can"
            );
            self.connection = None;
        }
    }

    fn command(&mut self, sql: &str) -> Result<(), SqliteError> {
        match &mut self.connection {
            Some(connection) => connection.command(sql),
            None => Err(SqliteError::rolled_back()),
        }
    }
}

/// The right to use the writer's connection, until it is settled or dropped. Dropping it rolls back its body.
pub struct WriteGuard {
    shared: Arc<Shared>,
    writer: WriterConnection,
    begun: Begun,
    /// Whether the writer connection belongs to another turn.
    is_over: bool,
}

impl WriteGuard {
    fn new(shared: Arc<Shared>, writer: WriterConnection) -> Self {
        Self { shared, writer, begun: Begun::Nothing, is_over: false }
    }

    /// The connection, within the transaction.
    pub fn connection(&mut self) -> Result<&mut SqliteConnection, Error> {
        self.writer.connection.as_mut().ok_or(Error::WorkerCrashed)
    }

    /// Commits the body with its group if `outcome` is `Ok` and `good`, and otherwise rolls it back. Returns the result after the commit.
    pub async fn settle<T>(self, outcome: Result<T, Error>, good: impl FnOnce(&T) -> bool) -> Result<T, Error> {
        let keep = outcome.as_ref().is_ok_and(good);
        match self.end(keep) {
            Ended::Alone => outcome,
            Ended::InGroup(committed) => match committed.await {
                Ok(Ok(())) => outcome,
                // Replaces even a body's own error, which may depend on rows of another member that are rolled back now.
                Ok(Err(error)) => Err(error.into()),
                Err(_) => Err(Error::WorkerCrashed),
            },
            Ended::Failed(error) => match outcome {
                // The error that ended the transaction.
                Err(own) if is_unavailable(&own) => Err(own),
                _ => Err(error.into()),
            },
        }
    }

    fn end(mut self, keep: bool) -> Ended {
        let begun = std::mem::replace(&mut self.begun, Begun::Nothing);
        let broken = match &self.writer.connection {
            Some(connection) => connection.broken(),
            None => Some(SqliteError::rolled_back()),
        };
        let ended = match (broken, begun) {
            (Some(error), _) => Err(error),
            (None, Begun::Transaction) if !keep => match self.writer.command("ROLLBACK") {
                // The transaction had no other member, so the body read only committed rows.
                Ok(()) => return Ended::Alone,
                Err(error) => Err(error),
            },
            (None, Begun::Savepoint) if keep => self.writer.command(RELEASE),
            (None, Begun::Savepoint) => self.writer.command(UNDO).and_then(|()| self.writer.command(RELEASE)),
            (None, Begun::Transaction | Begun::Statement | Begun::Nothing) => Ok(()),
        };
        if let Err(error) = ended {
            self.writer.fail(&error).give();
            return Ended::Failed(error);
        }
        let (member, committed) = oneshot::channel();
        let group = self.writer.group.get_or_insert_with(|| Group { members: Vec::new(), opened: Instant::now() });
        group.members.push(member);
        Ended::InGroup(committed)
    }

    /// Joins the open transaction, or starts one.
    async fn enter(mut self, undo: Undo) -> Result<Self, Error> {
        if self.writer.group.is_some() {
            match undo {
                Undo::Statement => self.begun = Begun::Statement,
                Undo::Whole => match self.writer.command(SAVEPOINT) {
                    Ok(()) => self.begun = Begun::Savepoint,
                    Err(error) => {
                        self.writer.fail(&error).give();
                        return Err(error.into());
                    }
                },
            }
        } else {
            let begun = match &mut self.writer.connection {
                Some(connection) => connection.command(BEGIN),
                // The writer's thread opens the file.
                None => Err(SqliteError::rolled_back()),
            };
            match begun {
                Ok(()) => self.begun = Begun::Transaction,
                Err(error) if self.writer.connection.is_none() || error.is_busy() => {
                    self = self
                        .on_thread(|mut turn| turn.open().and_then(|()| turn.wait_and_begin()).map(|()| turn))
                        .await?;
                }
                Err(error) => {
                    self.writer.connection = None;
                    return Err(error.into());
                }
            }
        }
        if let Some(connection) = &mut self.writer.connection {
            connection.begin_use();
        }
        Ok(self)
    }

    /// Opens the connection if there is none.
    fn open(&mut self) -> Result<(), Error> {
        if self.writer.connection.is_none() {
            let opened = self.shared.file.own_writer();
            let watched = opened.and_then(|connection| self.writer.wal.watch(&connection).map(|()| connection));
            let connection = watched.map_err(|error| SqliteError::from(&error))?;
            self.shared.opened.fetch_add(1, Ordering::Relaxed);
            self.writer.connection = Some(SqliteConnection::new(connection));
        }
        Ok(())
    }

    /// Sends `BEGIN IMMEDIATE` and waits for other processes.
    fn wait_and_begin(&mut self) -> Result<(), Error> {
        let begun = match &mut self.writer.connection {
            None => Err(SqliteError::rolled_back()),
            Some(connection) => {
                let waits = |connection: &mut SqliteConnection, longest: Duration| {
                    connection.raw().busy_timeout(longest).map_err(|error| SqliteError::from(&error))
                };
                waits(connection, self.shared.file.busy_timeout())
                    .and_then(|()| connection.command(BEGIN))
                    .and_then(|()| waits(connection, Duration::ZERO))
            }
        };
        match begun {
            Ok(()) => self.begun = Begun::Transaction,
            Err(error) => {
                self.writer.connection = None;
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Runs `work` on the writer's thread. If the caller is dropped, the turn ends together with `work`.
    async fn on_thread(self, work: impl FnOnce(Self) -> Result<Self, Error> + Send + 'static) -> Result<Self, Error> {
        let (sender, done) = oneshot::channel();
        let thread = Arc::clone(&self.shared);
        thread.thread.run(move || {
            let _gone = sender.send(work(self));
        });
        done.await.map_err(|_| Error::WorkerCrashed)?
    }

    fn take_writer(&mut self) -> WriterConnection {
        self.is_over = true;
        std::mem::take(&mut self.writer)
    }

    /// Rolls back a body that was not settled. Closes the connection after an error of the file.
    fn undo(&mut self) {
        let fault = self.writer.connection.as_ref().and_then(SqliteConnection::fault);
        let undone = match (fault, std::mem::replace(&mut self.begun, Begun::Nothing)) {
            (Some(fault), _) => Err(fault),
            (None, Begun::Nothing | Begun::Statement) => return,
            (None, Begun::Transaction) => self.writer.command("ROLLBACK"),
            (None, Begun::Savepoint) => self.writer.command(UNDO).and_then(|()| self.writer.command(RELEASE)),
        };
        if let Err(error) = undone {
            self.writer.fail(&error).give();
        }
    }
}

const BEGIN: &str = "BEGIN IMMEDIATE";
const SAVEPOINT: &str = "SAVEPOINT member";
const RELEASE: &str = "RELEASE member";
const UNDO: &str = "ROLLBACK TO member";

/// How a turn ended.
enum Ended {
    /// The turn was the only member, and is rolled back.
    Alone,
    /// The turn is a member of a group that is committed later.
    InGroup(oneshot::Receiver<Result<(), SqliteError>>),
    /// The transaction is lost.
    Failed(SqliteError),
}

impl Drop for WriteGuard {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        self.undo();
        let writer = self.take_writer();
        self.shared.pass_on(writer);
    }
}

impl fmt::Debug for WriteGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteGuard").field("begun", &self.begun).finish_non_exhaustive()
    }
}
