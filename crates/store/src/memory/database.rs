//! The database of the memory: the main database, or a separate PostgreSQL database (`docs/decisions/0049-memory-database.md`).
//!
//! Both databases have all tables, and a table that belongs into the other one must stay empty: a constraint that no row satisfies marks it.
//! So a server that looks for the memory in the wrong database, such as one of an older version, fails instead of dividing the memory.

use std::path::Path;

use domain::ids::InstallationId;

use super::slot::{MemoryDatabase, OpenMemory};
use crate::error::{Context, StoreError};
use crate::operation::{During, Operation};
use crate::pool::{DatabaseSettings, Pool, SchemaPlan, query, scalar, script};
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
    /// Memories would be moved into a database that has some.
    #[error(
        "the database of knowledge.database.url has memories already: after an interrupted move create it again, and repeat the command"
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
            Some(database) => database.get().map(|open| &open.pool).ok_or_else(|| {
                let reason = "the database of the memory (knowledge.database.url) is away";
                sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::NotConnected, reason))
            }),
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

    /// Fails while a separate database of the memory does not answer.
    #[boxed]
    pub async fn memory_answers(&self) -> Result<(), StoreError> {
        if self.memory.is_none() {
            return Ok(());
        }
        let answer = scalar("SELECT number FROM account_indexes LIMIT 1").fetch_optional::<i64>(self.memory()?);
        answer.during(Operation::ReachMemory).await.map(drop)
    }

    /// Whether the memory was moved out of the main database.
    #[boxed]
    pub async fn is_memory_elsewhere(&self) -> Result<bool, StoreError> {
        is_marked(&self.pool, ELSEWHERE).await
    }

    /// Opens the separate database of the memory. An empty database becomes one, unless the main database has memories.
    #[boxed]
    pub async fn memory_open(&self, settings: &DatabaseSettings) -> Result<(), MemoryOpenError> {
        let Some(database) = &self.memory else { return Ok(()) };
        if database.get().is_some() {
            return Ok(());
        }
        let pool = self.memory_examine(settings).await?;
        if let Err(error) = self.memory_begin(&pool).await {
            pool.close().await;
            return Err(error.into());
        }
        database.fill(OpenMemory { pool, replica: Replica::of(settings, None) });
        Ok(())
    }

    /// What a start would change in the tables of the database of `settings`.
    #[boxed]
    pub async fn memory_schema_plan(settings: &DatabaseSettings) -> Result<SchemaPlan, StoreError> {
        let pool = Pool::open(settings, Path::new(""), None).await?;
        let plan = Self::of(pool.clone()).schema_plan().await;
        pool.close().await;
        plan
    }

    /// Opens the database of `settings`, and refuses one that is not, and cannot become, the memory of this installation. Changes nothing.
    #[boxed]
    pub async fn memory_examine(&self, settings: &DatabaseSettings) -> Result<Pool, MemoryOpenError> {
        let pool = Pool::open(settings, Path::new(""), None).await?;
        if let Err(error) = self.refuse_memory(&pool).await {
            pool.close().await;
            return Err(error);
        }
        Ok(pool)
    }

    async fn refuse_memory(&self, pool: &Pool) -> Result<(), MemoryOpenError> {
        const HAS_MEMORIES: &str = "SELECT EXISTS (SELECT 1 FROM account_indexes)";
        let (is_new, is_elsewhere) = (self.is_new_memory(pool).await?, self.is_memory_elsewhere().await?);
        if is_new && is_elsewhere {
            return Err(MemoryRefusal::Empty.into());
        }
        if !is_elsewhere && scalar(HAS_MEMORIES).fetch_one(&self.pool).during(Operation::OpenMemory).await? {
            return Err(MemoryRefusal::NotMoved.into());
        }
        Ok(())
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
