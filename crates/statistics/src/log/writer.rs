//! The thread that owns the log's connection to SQLite.
//!
//! 1. Events arrive in a queue. The thread takes all waiting events, up to `group_max`, judges them against the heads of their chains in
//!    memory, and commits them in one transaction with one `fsync`.
//! 2. Each sender is answered after the commit.
//! 3. Between groups the thread places committed events in the tree ([`tree`]), writes the indexes ([`index`], [`ids`]) and the tables of
//!    sessions ([`sessions`]), a bounded number of rows in each transaction, and copies the write-ahead log into the file ([`Worker::checkpoint`]). No sender waits for this work;
//!    only the next group does.
//!
//! The memory of the thread is derived from the log: heads, sources and the newest events. Each transaction first checks whether another
//! connection has committed, and reads the events of other processes. After any error the connection is closed and its memory is dropped;
//! the next group opens the file again and reads it.
//!
//! **If it panics:** the senders of the group get an error, the memory is dropped as after any error, and the thread continues.

mod archive;
mod chains;
mod group;
mod ids;
mod index;
mod open;
mod progress;
mod sessions;
mod transaction;
mod tree;
mod unplaced;

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use domain::{Clock, Rng};
use store::pool::{SqliteFile, WalCopier, WalGrowth};
use tokio::sync::oneshot;

use self::group::Committed;
pub use self::ids::{ENTRY_BYTES, number_in};
use self::open::Open;
use self::sessions::SessionPass;
use self::tree::Pass;
use super::archive::moves::ArchiveMove;
use super::error::{DuringSqlite as _, LogError};
use super::health::appends::Appends;
use super::job::{Append, AppendReply, Sequenced};
use super::recent::UnindexedEvents;
use super::settings::WriterSettings;
use super::usage::sums::UsageSums;

/// Number of parts in which the write-ahead log is copied into the file.
const PARTS: u64 = 16;
/// Size of the write-ahead log, as a multiple of its limit, from which groups wait for its copy.
const LENGTH_MAX: u64 = 4;
/// Number of events after which a slice of an index is written even if more events wait.
const SLICE_EVERY: usize = 256;
/// Number of events after which events are added to sessions even if more events wait; larger than the number that a transaction adds, so
/// that a busy log grows at its own pace and sessions catch up later.
const FOLLOW_EVERY: usize = 1_024;
/// Maximum time between passes over the indexes, if there is an unindexed event.
const INDEX_AFTER: Duration = Duration::from_secs(5);
/// Maximum number of unindexed events. It is reached only if events can be written but the indexes cannot.
const UNINDEXED_MAX: usize = 1_048_576;
/// Maximum number of events that wait for the thread.
const WAITING_MAX: usize = 16_384;
/// Timeout of [`Writer::close`]. A thread that is still blocked on the file ends with the process; its uncommitted events were not
/// answered.
const CLOSE_WAIT_MAX: Duration = Duration::from_secs(2);

/// A command for the thread.
enum Job {
    /// Append these events and answer each.
    Append(Vec<(Append, AppendReply)>),
    /// Assign places to at most this number of events.
    Sequence { events_max: u32, answer: oneshot::Sender<Result<Sequenced, LogError>> },
    /// Add at most this number of events to their sessions.
    FollowSessions { events_max: u32, answer: oneshot::Sender<Result<u32, LogError>> },
    /// Write the progress of the archive; whether this process was the first.
    MoveArchive { step: ArchiveMove, answer: oneshot::Sender<Result<bool, LogError>> },
    /// Commit a change without effect.
    Probe(oneshot::Sender<Result<(), LogError>>),
    /// Stop; the sender is dropped after the connection is closed.
    Close(oneshot::Sender<()>),
}

/// Handle of the thread. Clones share one thread, which ends when the last clone is dropped.
#[derive(Clone)]
pub struct Writer {
    jobs: Sender<Job>,
    /// Number of events that were queued and are not in a group yet.
    queued: Arc<AtomicUsize>,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Writer")
    }
}

impl Writer {
    /// Starts the thread. The first job opens the file.
    pub fn start(
        file: SqliteFile,
        settings: &WriterSettings,
        (clock, rng): (&Clock, &Rng),
        spans: UsageSums,
        recent: UnindexedEvents,
        appends: Arc<Appends>,
    ) -> Result<Self, LogError> {
        let (jobs, queue) = mpsc::channel();
        let queued = Arc::<AtomicUsize>::default();
        let copier = WalCopier::start(file.clone()).map_err(LogError::Thread)?;
        let worker = Worker {
            file,
            clock: clock.clone(),
            rng: rng.clone(),
            settings: settings.clone(),
            spans,
            recent,
            appends,
            open: None,
            wal: WalGrowth::default(),
            copier,
            has_rest: false,
            unsliced: 0,
            unfollowed: 0,
            indexed_at: Instant::now(),
            index_error: None,
            queued: Arc::clone(&queued),
            waiting: VecDeque::new(),
            passes: VecDeque::new(),
            session_passes: VecDeque::new(),
            closing: None,
        };
        let thread = thread::Builder::new().name("attache-log".to_owned());
        thread.spawn(move || worker.run(&queue)).map_err(LogError::Thread)?;
        Ok(Self { jobs, queued })
    }

    /// Queues events; each is answered once, after the commit of its group or with the error that prevented it. If the thread has ended,
    /// the answers are dropped; if too many events wait, they are answered with [`LogError::Full`].
    pub fn append(&self, events: Vec<(Append, AppendReply)>) {
        let count = events.len();
        if self.queued.fetch_add(count, Ordering::AcqRel) + count > WAITING_MAX {
            self.queued.fetch_sub(count, Ordering::AcqRel);
            let full = Arc::new(LogError::Full);
            for (_, answer) in events {
                answer(Err(Arc::clone(&full)));
            }
            return;
        }
        drop(self.jobs.send(Job::Append(events)));
    }

    /// Assigns places to at most `events_max` events.
    #[boxed]
    pub async fn sequence(&self, events_max: u32) -> Result<Sequenced, LogError> {
        self.ask(|answer| Job::Sequence { events_max, answer }).await
    }

    /// Adds at most `events_max` events to their sessions; returns their number.
    #[boxed]
    pub async fn follow_sessions(&self, events_max: u32) -> Result<u32, LogError> {
        self.ask(|answer| Job::FollowSessions { events_max, answer }).await
    }

    /// Writes the progress of the archive; returns whether this process was the first.
    #[boxed]
    pub async fn move_archive(&self, step: ArchiveMove) -> Result<bool, LogError> {
        self.ask(|answer| Job::MoveArchive { step, answer }).await
    }

    /// Commits a change without effect, to test whether the log accepts writes.
    #[boxed]
    pub async fn probe(&self) -> Result<(), LogError> {
        self.ask(Job::Probe).await
    }

    /// Stops the thread after the queued jobs, and waits for its end, at most `CLOSE_WAIT_MAX`.
    #[boxed]
    pub async fn close(&self) {
        let (closing, closed) = oneshot::channel();
        if self.jobs.send(Job::Close(closing)).is_ok() {
            drop(tokio::time::timeout(CLOSE_WAIT_MAX, closed).await);
        }
    }

    async fn ask<T>(&self, job: impl FnOnce(oneshot::Sender<Result<T, LogError>>) -> Job) -> Result<T, LogError> {
        let (answer, answered) = oneshot::channel();
        self.jobs.send(job(answer)).map_err(|_| LogError::Closed)?;
        answered.await.unwrap_or(Err(LogError::Closed))
    }
}

/// The state that the thread owns.
struct Worker {
    file: SqliteFile,
    clock: Clock,
    rng: Rng,
    settings: WriterSettings,
    /// Usage of the newest leaves, for the meter.
    spans: UsageSums,
    /// Unindexed events, for readers.
    recent: UnindexedEvents,
    /// Result of the last append, for readiness.
    appends: Arc<Appends>,
    /// The connection, and the state of the log that was read through it.
    open: Option<Open>,
    /// Length of the write-ahead log.
    wal: WalGrowth,
    copier: WalCopier,
    /// Whether a part of the write-ahead log was copied and this thread has not copied the rest yet.
    has_rest: bool,
    /// Number of events since a slice of an index was written.
    unsliced: usize,
    /// Number of events since events were added to sessions.
    unfollowed: usize,
    /// Time at which the last pass over the indexes started or failed.
    indexed_at: Instant,
    /// Error of the last slice; the next sequencing pass returns it.
    index_error: Option<LogError>,
    /// The count of queued events, shared with the [`Writer`].
    queued: Arc<AtomicUsize>,
    waiting: VecDeque<(Append, AppendReply)>,
    passes: VecDeque<(Pass, oneshot::Sender<Result<Sequenced, LogError>>)>,
    session_passes: VecDeque<(SessionPass, oneshot::Sender<Result<u32, LogError>>)>,
    /// Dropped last, after the connection.
    closing: Option<oneshot::Sender<()>>,
}

impl Worker {
    fn run(mut self, queue: &Receiver<Job>) {
        loop {
            let has_pass = !self.passes.is_empty() || !self.session_passes.is_empty();
            let is_idle = self.waiting.is_empty() && !has_pass && !self.has_index_work();
            let next = if is_idle { queue.recv().ok() } else { queue.try_recv().ok() };
            let mut is_over = is_idle && next.is_none();
            for job in next.into_iter().chain(queue.try_iter()) {
                is_over |= self.enqueue(job);
            }
            self.append_group();
            self.sequence_some();
            self.index_some();
            self.follow_some_sessions();
            self.checkpoint();
            if is_over {
                break;
            }
        }
        while !self.waiting.is_empty() {
            self.append_group();
        }
    }

    /// Adds a job to its queue; returns `true` if the thread shall stop.
    fn enqueue(&mut self, job: Job) -> bool {
        match job {
            Job::Append(events) => self.waiting.extend(events),
            Job::Sequence { events_max, answer } => self.passes.push_back((Pass::new(events_max), answer)),
            Job::FollowSessions { events_max, answer } => {
                self.session_passes.push_back((SessionPass::new(events_max), answer));
            }
            Job::MoveArchive { step, answer } => {
                drop(answer.send(self.guarded(|open| open.move_archive(&step))));
            }
            Job::Probe(answer) => {
                drop(answer.send(self.guarded(Open::probe)));
            }
            Job::Close(closing) => {
                self.closing = Some(closing);
                return true;
            }
        }
        false
    }

    fn append_group(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let count = self.waiting.len().min(self.settings.group_max.max(1));
        let (events, answers): (Vec<Append>, Vec<AppendReply>) = self.waiting.drain(..count).unzip();
        self.queued.fetch_sub(count, Ordering::AcqRel);
        self.unsliced += count;
        self.unfollowed += count;
        let appended = if self.recent.len() < UNINDEXED_MAX {
            self.guarded(|open| open.append(&events))
        } else {
            Err(LogError::Unindexed)
        };
        if appended.as_ref().map_or(true, |committed| committed.has_written) {
            self.appends.note(&appended, self.clock.now());
        }
        match appended {
            Ok(Committed { outcomes, .. }) => {
                for (answer, outcome) in answers.into_iter().zip(outcomes) {
                    answer(outcome);
                }
            }
            Err(error) => {
                let error = Arc::new(error);
                for answer in answers {
                    answer(Err(Arc::clone(&error)));
                }
            }
        }
    }

    /// Executes one transaction of the pass that has waited longest.
    fn sequence_some(&mut self) {
        let Some((mut pass, answer)) = self.passes.pop_front() else { return };
        let (now, spans) = (self.clock.now(), self.spans.clone());
        match self.guarded(|open| open.place_some(&mut pass, now, &spans)) {
            Ok(Some(sequenced)) => {
                // A pass without new events means that the log is idle.
                self.begin_indexing(sequenced.added == 0 || self.indexed_at.elapsed() >= INDEX_AFTER);
                drop(answer.send(self.index_error.take().map_or(Ok(sequenced), Err)));
            }
            Ok(None) => self.passes.push_front((pass, answer)),
            Err(error) => {
                self.begin_indexing(self.indexed_at.elapsed() >= INDEX_AFTER);
                drop(answer.send(Err(error)));
            }
        }
    }

    /// Starts a pass over the indexes if `is_time`; after a failure only after a delay.
    fn begin_indexing(&mut self, is_time: bool) {
        let Some(open) = &mut self.open else { return };
        if is_time && (self.index_error.is_none() || self.indexed_at.elapsed() >= INDEX_AFTER) {
            open.begin_indexing();
            self.indexed_at = Instant::now();
        }
    }

    fn has_index_work(&self) -> bool {
        self.open.as_ref().is_some_and(Open::has_index_work)
    }

    /// Writes a slice of the indexes, unless events wait and fewer than [`SLICE_EVERY`] were appended since the last slice.
    fn index_some(&mut self) {
        self.begin_indexing(self.recent.len() >= self.settings.index_every);
        if !self.has_index_work() || (!self.waiting.is_empty() && self.unsliced < SLICE_EVERY) {
            return;
        }
        self.unsliced = 0;
        if let Err(error) = self.guarded(Open::index_some) {
            tracing::warn!(
                error = domain::reasons(&error),
                "the indexes of the log could not be written; the next pass tries again"
            );
            self.index_error = Some(error);
            self.indexed_at = Instant::now();
        }
    }

    /// Executes one transaction of the oldest pass over sessions, unless events wait and fewer than [`FOLLOW_EVERY`] were appended since
    /// the last one.
    fn follow_some_sessions(&mut self) {
        if !self.waiting.is_empty() && self.unfollowed < FOLLOW_EVERY {
            return;
        }
        let Some((mut pass, answer)) = self.session_passes.pop_front() else { return };
        self.unfollowed = 0;
        let step = |open: &mut Open| open.follow_sessions(&mut pass).map_err(|error| LogError::Sessions(error.into()));
        match self.guarded(step) {
            Ok(None) => self.session_passes.push_front((pass, answer)),
            Ok(Some(added)) => drop(answer.send(Ok(added))),
            Err(error) => drop(answer.send(Err(error))),
        }
    }

    /// Copies the write-ahead log into the file, on another thread and in parts, so that no group waits for a long copy. If the log exceeds
    /// its limit and only a small rest is left, this thread copies the rest, and the next commit overwrites the log from its start. A
    /// failure is ignored here: the next transaction shows whether the connection still works.
    fn checkpoint(&mut self) {
        let Some(open) = &self.open else { return };
        self.wal.committed();
        let wal_bytes = self.settings.wal_bytes;
        let is_too_long = self.wal.length() >= wal_bytes.saturating_mul(LENGTH_MAX);
        if self.copier.is_busy() && !is_too_long {
            return;
        }
        let has_part = self.wal.has_grown_by(wal_bytes / PARTS);
        if has_part && !is_too_long {
            self.copier.begin();
            self.wal.mark();
            self.has_rest = true;
            return;
        }
        let is_due = has_part || (self.has_rest && self.wal.length() >= wal_bytes);
        if !is_due {
            return;
        }
        self.has_rest = false;
        if let Err(error) = self.wal.copy(&open.db) {
            tracing::warn!(
                error = domain::reasons(&error),
                "the write-ahead log could not be copied into the file; it grows until it can"
            );
            self.open = None;
        }
    }

    /// Runs `job` with the connection, which is opened if there is none. After an error or a panic the connection and its memory are
    /// dropped, except after a fault of the stored tree or of the tables of sessions: it changes no memory, and reading the events after
    /// the tree again in each pass would stop the appends.
    fn guarded<T>(&mut self, job: impl FnOnce(&mut Open) -> Result<T, LogError>) -> Result<T, LogError> {
        const OPEN: &str = "open the log for writing";
        let (file, settings, recent, rng) = (&self.file, &self.settings, &self.recent, &self.rng);
        let (open, wal) = (&mut self.open, &mut self.wal);
        let result = catch_unwind(AssertUnwindSafe(|| {
            let open = match open {
                Some(open) => open,
                none => {
                    let db = file.writer().during(OPEN)?;
                    wal.watch(&db).during(OPEN)?;
                    let mut open = Open::new(db, settings, recent, rng)?;
                    open.fold()?;
                    none.insert(open)
                }
            };
            job(open)
        }));
        let result = result.unwrap_or_else(|panic| Err(LogError::Crashed(words(panic.as_ref()))));
        if result.as_ref().is_err_and(|error| !error.is_beside_the_log()) {
            self.open = None;
        }
        result
    }
}

/// The message of a panic.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a message").to_owned()
}
