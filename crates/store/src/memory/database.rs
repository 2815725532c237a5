//! The database of the memory: the main database, or a separate PostgreSQL database (`docs/decisions/0049-memory-database.md`).
//!
//! Both databases have all tables, and a table that belongs into the other one must stay empty: a constraint that no row satisfies marks it.
//! So a server that looks for the memory in the wrong database, such as one of an older version, fails instead of dividing the memory.

use std::path::Path;
use std::time::Duration;

use domain::ids::InstallationId;
use futures_util::future::BoxFuture;
use tokio::time::timeout;

use super::slot::{MemoryDatabase, OpenMemory};
use crate::error::{Context, StoreError};
use crate::operation::{During, Operation};
use crate::pool::{DatabaseSettings, OldTables, Pool, SchemaPlan, query, scalar, script};
use crate::replica::Replica;
use crate::{Store, in_transaction};

/// Why a database does not become, or is not, the database of the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MemoryRefusal {
    /// The memory is configured to be in the main database, and is not there.
    #[error("the memory is in another database: set knowledge.database.url")]
    NotConfigured,
    /// The main database still has memories.
    #[error("the main database has memories: stop all nodes and run `attache admin memory move`")]
    NotMoved,
    /// It has no tables although the memory was moved out of the main database.
    #[error(
        "the database of knowledge.database.url is empty, and the memory is not in the main database: correct the URL, or restore a backup"
    )]
    Empty,
    /// It has tables of the main database.
    #[error("knowledge.database.url leads to a main database: the memory needs a separate database")]
    MainDatabase,
    /// The URL of the main database leads to the database of a memory.
    #[error("database.url leads to the database of a memory: exchange it and knowledge.database.url")]
    NotMain,
    /// It belongs to another installation.
    #[error(
        "the database of knowledge.database.url has the memory of installation {found}, and this is {own}: correct the URL"
    )]
    OtherInstallation {
        /// The installation of the main database.
        own: InstallationId,
        /// The installation of the memory.
        found: InstallationId,
    },
    /// Memories would be moved into a database that has some: a copy after an interrupted move, or newer ones after the restore of an older
    /// main database.
    #[error(
        "the database of knowledge.database.url has memories already: docs/scale.md#memory says how to find out which database has the newer ones"
    )]
    NotEmpty,
    /// The memory is not in the main database any more.
    #[error("the memory is already in a separate database")]
    Moved,
}

/// Why the database of the memory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MemoryOpenError {
    /// A database failed.
    #[error("the database of the memory failed")]
    Store(#[from] StoreError),
    /// It must not be used.
    #[error(transparent)]
    Refused(#[from] MemoryRefusal),
}

/// The mark of a main database without the memory.
const ELSEWHERE: &str = "memory_is_elsewhere";
/// Fails if there are memories.
pub(super) const MARK_MAIN: &str = "ALTER TABLE account_indexes ADD CONSTRAINT memory_is_elsewhere CHECK (FALSE)";
/// The mark of the database of a memory.
const MEMORY: &str = "only_the_memory_is_here";
const MARK_MEMORY: &str = "ALTER TABLE accounts ADD CONSTRAINT only_the_memory_is_here CHECK (FALSE)";
const IS_MARKED: &str = "SELECT EXISTS (SELECT 1 FROM pg_constraint
    WHERE conrelid IN (to_regclass('account_indexes'), to_regclass('accounts')) AND conname = $1)";

/// References from the memory to rows of the main database.
const LOOSEN: [&str; 4] = [
    "ALTER TABLE account_indexes DROP CONSTRAINT IF EXISTS account_indexes_account_id_fkey",
    "ALTER TABLE memory_spaces DROP CONSTRAINT IF EXISTS memory_spaces_space_id_fkey",
    "ALTER TABLE space_indexes DROP CONSTRAINT IF EXISTS space_indexes_space_id_fkey",
    "ALTER TABLE space_chunks DROP CONSTRAINT IF EXISTS space_chunks_space_id_fkey",
];

/// Advisory lock: concurrent processes mark a database one after the other.
const LOCK: i64 = 0x6d65_6d6f_7279;

/// Maximum wait for a value that an answer can leave out.
const OPTIONAL_MAX: Duration = Duration::from_millis(500);

impl Store {
    /// This store with a memory in a separate database, which [`Self::memory_open`] opens. Until then operations on memories fail as they do
    /// while a database is away.
    #[must_use]
    pub fn with_memory_apart(self) -> Self {
        Self { memory: Some(MemoryDatabase::default()), ..self }
    }

    /// The connections to the database of the memory, with an error of the driver while it is not open.
    pub(crate) fn memory_pool(&self) -> Result<&Pool, sqlx::Error> {
        match &self.memory {
            None => Ok(&self.pool),
            Some(database) => database.get().map(|open| &open.pool).ok_or_else(|| database.away()),
        }
    }

    /// The connections to the database of the memory.
    pub(crate) fn memory(&self) -> Result<&Pool, StoreError> {
        self.memory_pool().context("reach the memory")
    }

    /// The replica that answers searches.
    pub(crate) fn replica_of_memory(&self) -> Option<&Replica> {
        match &self.memory {
            None => self.replica.as_ref(),
            Some(database) => database.get()?.replica.as_ref(),
        }
    }

    /// The connections to a separate database of the memory, once it is open.
    pub fn memory_apart(&self) -> Option<&Pool> {
        Some(&self.memory.as_ref()?.get()?.pool)
    }

    /// Whether the memory has a separate database.
    pub fn is_memory_apart(&self) -> bool {
        self.memory.is_some()
    }

    /// Whether the memory can be used: always if it is in the main database.
    pub fn is_memory_open(&self) -> bool {
        self.memory_pool().is_ok()
    }

    /// A value of the memory that other answers contain; `None` while a separate database of the memory is away or slow.
    #[boxed]
    pub async fn if_reachable<'r, T: Send>(
        &'r self,
        read: BoxFuture<'r, Result<T, StoreError>>,
    ) -> Result<Option<T>, StoreError> {
        if self.memory.is_none() {
            return read.await.map(Some);
        }
        match timeout(OPTIONAL_MAX, read).await {
            Ok(Err(error)) if error.is_unavailable() => Ok(None),
            Ok(read) => read.map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Fails while the database of the memory takes no writes.
    #[boxed]
    pub async fn memory_answers(&self) -> Result<(), StoreError> {
        Self::of(self.memory()?.clone()).writable().await
    }

    /// Whether memories can be added now: always if they are in the main database, which other parts test. Cheap for many callers.
    #[boxed]
    pub async fn takes_memories(&self) -> bool {
        match &self.memory {
            None => true,
            Some(database) => database.probed(self.memory_answers()).await,
        }
    }

    /// Whether the memory was moved out of the main database.
    #[boxed]
    pub async fn is_memory_elsewhere(&self) -> Result<bool, StoreError> {
        is_marked(&self.pool, ELSEWHERE).await
    }

    /// Whether this is the database of a memory, and no main database.
    #[boxed]
    pub async fn is_memory_only(&self) -> Result<bool, StoreError> {
        is_marked(&self.pool, MEMORY).await
    }

    /// Opens the separate database of the memory. An empty database becomes one, unless the main database has memories.
    #[boxed]
    pub async fn memory_open(&self, settings: &DatabaseSettings) -> Result<(), MemoryOpenError> {
        let Some(database) = &self.memory else { return Ok(()) };
        if database.get().is_some() {
            return Ok(());
        }
        let Some(_turn) = database.turn() else {
            let what = "the memory".to_owned();
            return Err(StoreError::Open { what, source: "it is being opened".into() }.into());
        };
        let opened = async {
            let there = self.memory_examine(settings).await?;
            let begun = async {
                if settings.old_tables == OldTables::Refuse {
                    there.check_schema().await?;
                }
                self.memory_begin(&there.pool).await
            };
            if let Err(error) = begun.await {
                there.close().await;
                return Err(MemoryOpenError::from(error));
            }
            Ok(there.pool)
        };
        let pool = opened.await.inspect_err(|error| database.refuse(domain::reasons(error)))?;
        database.fill(OpenMemory { pool, replica: Replica::of(settings, None) });
        Ok(())
    }

    /// What a start would change in the tables of the database of `settings`.
    #[boxed]
    pub async fn memory_schema_plan(settings: &DatabaseSettings) -> Result<SchemaPlan, StoreError> {
        let there = Self::open(settings, Path::new("")).await?;
        let plan = there.schema_plan().await;
        there.close().await;
        plan
    }

    /// Opens the database of `settings`, and refuses one that is not, and cannot become, the memory of this installation. Changes nothing.
    #[boxed]
    pub async fn memory_examine(&self, settings: &DatabaseSettings) -> Result<Self, MemoryOpenError> {
        const HAS_MEMORIES: &str = "SELECT EXISTS (SELECT 1 FROM account_indexes)";
        // Before the other database, which another node may begin in the meantime.
        let is_elsewhere = self.is_memory_elsewhere().await?;
        if !is_elsewhere && scalar(HAS_MEMORIES).fetch_one(&self.pool).during(Operation::OpenMemory).await? {
            return Err(MemoryRefusal::NotMoved.into());
        }
        let there = Self::of(Pool::open(settings, Path::new(""), None).await?);
        let refused = match self.is_new_memory(&there.pool).await {
            Ok(true) if is_elsewhere => Err(MemoryRefusal::Empty.into()),
            is_new => is_new.map(drop),
        };
        if let Err(error) = refused {
            there.close().await;
            return Err(error);
        }
        Ok(there)
    }

    /// Whether a database may become the memory of this installation; `false` if it is already. Any other database is refused.
    pub(super) async fn is_new_memory(&self, pool: &Pool) -> Result<bool, MemoryOpenError> {
        if pool.is_empty().await? {
            return Ok(true);
        }
        // A main database gets its installation with its first start.
        let Some(found) = Self::of(pool.clone()).installation().await? else { return Ok(true) };
        if !is_marked(pool, MEMORY).await? {
            return Err(MemoryRefusal::MainDatabase.into());
        }
        match self.installation().await? {
            Some(own) if own.id != found.id => {
                Err(MemoryRefusal::OtherInstallation { own: own.id, found: found.id }.into())
            }
            _ => Ok(false),
        }
    }

    /// Makes a database the memory of this installation, or brings it to the newest schema. Can be repeated.
    async fn memory_begin(&self, pool: &Pool) -> Result<(), StoreError> {
        self.memory_prepare(pool).await?;
        mark(&self.pool, ELSEWHERE, &[MARK_MAIN]).await
    }

    /// The same, while the main database still has the memory.
    pub(super) async fn memory_prepare(&self, pool: &Pool) -> Result<(), StoreError> {
        let there = Self::of(pool.clone());
        there.migrate().await?;
        mark(pool, MEMORY, &[&LOOSEN[..], &[MARK_MEMORY]].concat()).await?;
        if let Some(own) = self.installation().await? {
            there.installation_begin(own.id).await?;
        }
        Ok(())
    }
}

async fn is_marked(pool: &Pool, mark: &'static str) -> Result<bool, StoreError> {
    if !pool.is_postgres() {
        return Ok(false);
    }
    scalar(IS_MARKED).bind(mark).fetch_one(pool).during(Operation::OpenMemory).await
}

/// Marks a database, once: the last of the statements makes the mark.
async fn mark(pool: &Pool, mark: &'static str, statements: &[&'static str]) -> Result<(), StoreError> {
    if is_marked(pool, mark).await? {
        return Ok(());
    }
    in_transaction!(pool, |tx| {
        query("SELECT pg_advisory_xact_lock($1)").bind(LOCK).execute(&mut *tx).await?;
        let is_marked: bool = scalar(IS_MARKED).bind(mark).fetch_one(&mut *tx).await?;
        if !is_marked {
            for statement in statements {
                script(*statement).execute(&mut *tx).await?;
            }
        }
        Ok(())
    })
    .during(Operation::OpenMemory)
    .await
}
