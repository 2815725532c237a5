//! Why the main database and the log cannot be opened.

use domain::log_part::LogPart;
use statistics::log::LogError;
use store::StoreError;
use store::memory::database::MemoryRefusal;

use super::refusal::{Mismatch, StartRefusal};

/// The reason. The messages name a remedy.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A database failed.
    #[error("the database failed")]
    Store(#[from] StoreError),
    /// The embedded log failed.
    #[error("the embedded statistics service failed")]
    Log(#[from] LogError),
    /// The client of an external statistics service cannot be set up.
    #[error("the client of the external statistics service cannot be set up")]
    Client(#[from] statistics::client::ClientError),
    /// A database that must exist does not.
    #[error("{0} does not exist yet")]
    Absent(&'static str),
    /// A database lacks tables of this program.
    #[error("the database {name:?} is not up to date")]
    Schema {
        /// `main`, `memory`, `log`, or `log part N`.
        name: String,
        /// The difference.
        #[source]
        source: StoreError,
    },
    /// The client of a witness cannot be set up.
    #[error("the client of a witness in log.witness cannot be set up")]
    Witness(#[from] statistics::witness::WitnessFault),
    /// The main database and the log do not belong together.
    #[error(transparent)]
    Mismatch(#[from] StartRefusal),
    /// The main database knows a part of the log that the configuration lacks.
    #[error(
        "the main database knows part {0} of the log, and the configuration does not: add [[log.part]] with number = {0} and its url"
    )]
    PartMissing(LogPart),
    /// A part does not belong to the main database.
    #[error("part {part} of the log: {mismatch}. {}", Mismatch::advice(*part))]
    Part {
        /// The part.
        part: LogPart,
        /// Why it is refused.
        mismatch: Mismatch,
    },
    /// The database of a part failed.
    #[error("the database of part {part} of the log failed")]
    PartDatabase {
        /// The part.
        part: LogPart,
        /// Why.
        #[source]
        source: StoreError,
    },
    /// The url of a part leads to another part.
    #[error(
        "the url of part {part} of the log leads to the log {found:?}, and not to {origin:?}: exchange the urls in log.part"
    )]
    PartOrigin {
        /// The part.
        part: LogPart,
        /// The origin that it must have.
        origin: String,
        /// The origin that was found.
        found: String,
    },
    /// A node of another version would write events of the new part's computers into the first part.
    #[error("part {part} of the log is new, and node {node} runs version {version}: upgrade or stop it first")]
    PartBesideVersion {
        /// The part.
        part: LogPart,
        /// The place of the node.
        node: String,
        /// Its version.
        version: String,
    },
    /// The separate database of the memory failed.
    #[error("the database of the memory (knowledge.database.url) failed")]
    MemoryDatabase(#[source] StoreError),
    /// The memory is not where the configuration says.
    #[error(transparent)]
    Memory(MemoryRefusal),
    /// A node of another version would look for the memory in the main database.
    #[error("the memory gets a separate database, and node {node} runs version {version}: upgrade or stop it first")]
    MemoryBesideVersion {
        /// The place of the node.
        node: String,
        /// Its version.
        version: String,
    },
    /// A new epoch of the log cannot start.
    #[error("a new epoch of the event log cannot begin: {0}")]
    Epoch(String),
}

impl OpenError {
    /// Whether a database did not answer.
    pub(super) fn is_away(&self) -> bool {
        match self {
            Self::Store(error)
            | Self::MemoryDatabase(error)
            | Self::PartDatabase { source: error, .. }
            | Self::Log(LogError::Store(error)) => error.is_unavailable(),
            Self::Log(LogError::Sql { source, .. }) => store::error::is_unavailable(source),
            _ => false,
        }
    }

    /// Whether a start may succeed when it is repeated: a statement found an open database unavailable. A database that cannot be opened
    /// is not among them, so that a wrong address is reported immediately.
    pub(super) fn is_unanswered(&self) -> bool {
        match self {
            Self::Store(error) | Self::Log(LogError::Store(error)) => is_unanswered(error),
            Self::Log(LogError::Sql { source, .. }) => store::error::is_unavailable(source),
            _ => false,
        }
    }
}

fn is_unanswered(error: &StoreError) -> bool {
    !matches!(error, StoreError::Open { .. }) && error.is_unavailable()
}
