//! The embedded statistics service: an append-only log of events with a Merkle tree (`docs/decisions/0011-embedded-log.md` and
//! `docs/decisions/0012-tree-and-proofs.md`).
//!
//! 1. [`Log::append`] appends a group of events in one commit. An event that is already stored gets its earlier receipt; the others must
//!    continue their chains. The receipt is returned after the commit.
//! 2. [`Log::sequence`] assigns tree positions to new events, in the order of commits, and signs a checkpoint over the grown tree. It
//!    never signs a tree that does not extend the last signed one.
//! 3. [`Log::audit`] reads the log again and verifies every event, every chain, the tree and its signature.
//! 4. [`Log::follow_sessions`] adds events to the sums of their sessions, behind the log.
//! 5. [`Log::archive_some`] moves old bodies into an object store.
//! 6. All other operations read: activity, sessions, proofs, checkpoint, consistency, keys, usage. All are index lookups, for any length of the log.
//!
//! An SQLite file is written by one thread that owns its connection (`log/writer.rs`); on PostgreSQL (`log/postgres.rs`) several processes
//! write without waiting for each other.

mod append;
mod archive;
mod audit;
mod compare;
mod cosign;
mod days;
mod ended;
mod epoch;
mod error;
mod follower;
mod halt;
mod handle;
mod health;
mod job;
mod lease;
mod memory;
mod postgres;
pub(crate) mod read;
mod recent;
mod recorded;
mod replica;
mod sequence;
mod sessions;
mod settings;
pub(crate) mod sql;
mod summaries;
mod tree_cache;
mod usage;
mod writer;

pub use archive::{ArchiveSurvey, Archived};
pub use audit::{AuditFault, Audited};
pub use cosign::{CosignError, Cosigned, Witnessing};
pub use days::{DayCounts, DayQuery, EVENTS_MAX as DAY_EVENTS_MAX};
pub use epoch::{Continuity, LogHead};
pub use error::LogError;
pub use halt::{Fork, Halt};
pub use handle::Log;
pub use health::LogStatus;
pub use job::{Append, AppendOutcome, AppendReply, Sequenced};
pub use memory::SeenCheckpoint;
pub use memory::file::{MemoryFault, MemoryFile};
pub use postgres::ContendedEvents;
pub use recorded::RecordedEvent;
pub use sessions::{
    MODEL_DAYS_MAX, ModelDay, RecordedModelUse, RecordedSession, RecordedSessionEvent, SESSION_FILES_MAX, SESSIONS_MAX,
    SessionFilter, SessionPage, TimelinePage, session_page_statement,
};
pub use settings::WriterSettings;
