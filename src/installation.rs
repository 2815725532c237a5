//! Opens the main database (the facts) and the log, and checks that they belong together, before anything is served.
//!
//! Both databases carry the id of the installation, and the facts remember the newest checkpoint of the log ([`actors::anchor`]). A
//! pair is refused if one of the two is missing, if they have different ids, or if the log does not continue the checkpoint. Both ways out
//! are in the refusal: a backup, or a new epoch of the log ([`epoch`]). A pair of a version without ids gets them once.
//!
//! The order of reads lets several processes start at the same moment: a process makes the facts before the log, and remembers a
//! checkpoint after it was signed. So the presence of the log is read before that of the facts, and the remembered checkpoint before the
//! checkpoint of the log.

mod epoch;
mod error;
mod places;
mod refusal;

use actors::anchor::Anchor;
use actors::upstream::Upstream;
use actors::{ActorKind, anchor};
use domain::ids::InstallationId;
use domain::{Clock, Rng};
use statistics::client::Client;
use statistics::log::{Continuity, Log, LogHead};
use store::installation::{Installation, RememberedLog};
use store::{DatabaseSettings, Pool, Store};
use supervision::Handle;

pub use self::error::OpenError;
pub use self::places::SCHEMA;
pub use self::refusal::{Mismatch, StartRefusal};
use crate::config::Settings;

/// How a start treats the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogStart {
    /// Continues the log that the facts remember.
    #[default]
    Continue,
    /// Begins an epoch with a new origin, regardless of the remembered checkpoint.
    NewEpoch,
}

/// Opens facts and log, brings both to the newest schema, and refuses them if they do not belong together.
pub async fn open(
    settings: &Settings,
    clock: &Clock,
    rng: &Rng,
    start: LogStart,
) -> Result<(Store, Upstream), OpenError> {
    let id = || InstallationId::from(rng.uuid_v7(clock.now()));
    if settings.upstream.url.is_some() {
        // There is no embedded log. The remembered checkpoint of an earlier one stays, in case that log is used again.
        let store = open_facts(settings).await?;
        store.installation_begin(id()).await?;
        return Ok((store, Upstream::External(Client::new(&settings.upstream, rng)?)));
    }
    let ground = StartContext { settings, clock, rng };
    let (store, log) = match start {
        LogStart::Continue => ground.joined(id()).await?,
        LogStart::NewEpoch => epoch::begin(&ground, id()).await?,
    };
    let append = Handle::new(ActorKind::Append, settings.actors.of(ActorKind::Append));
    Ok((store, Upstream::Embedded { append, log }))
}

/// Opens the facts alone and brings them to the newest schema. They are not made beside a log without facts.
pub async fn open_facts(settings: &Settings) -> Result<Store, OpenError> {
    if settings.upstream.url.is_none() && is_lone_log(settings) {
        return Err(StartRefusal::of(settings, Mismatch::FactsMissing).into());
    }
    let store = Store::open(&settings.database, &settings.data.facts()).await?;
    if are_facts_lost(&store, settings).await? {
        store.close().await;
        return Err(StartRefusal::of(settings, Mismatch::FactsMissing).into());
    }
    store.migrate().await?;
    Ok(store)
}

/// Whether the data folder has the file of the log and not that of the facts.
pub fn is_lone_log(settings: &Settings) -> bool {
    settings.database.url.is_none() && settings.data.log().exists() && !settings.data.facts().exists()
}

/// The log, unless its file is missing or it has no tables.
async fn log_pool_if_there(settings: &Settings) -> Result<Option<Pool>, OpenError> {
    if settings.database.url.is_none() && !settings.data.log().exists() {
        return Ok(None);
    }
    let pool = log_pool(settings).await?;
    if pool.is_empty().await? {
        pool.close().await;
        return Ok(None);
    }
    Ok(Some(pool))
}

/// Opens the database of the log, and makes it if it is not there.
async fn log_pool(settings: &Settings) -> Result<Pool, OpenError> {
    let database = DatabaseSettings { page_bytes: settings.log.page_bytes, ..settings.database.clone() };
    Ok(Pool::open(&database, &settings.data.log(), Some(SCHEMA)).await?)
}

/// Whether facts without tables have a log beside them, in PostgreSQL.
async fn are_facts_lost(store: &Store, settings: &Settings) -> Result<bool, OpenError> {
    if settings.upstream.url.is_some() || !store.pool().is_postgres() || !store.pool().is_empty().await? {
        return Ok(false);
    }
    let Some(log) = log_pool_if_there(settings).await? else { return Ok(false) };
    log.close().await;
    // Another process may have made both meanwhile.
    Ok(store.pool().is_empty().await?)
}

/// Compares facts and log, and writes nothing.
pub async fn compare(store: &Store, log: &Log) -> Result<Result<(), Mismatch>, OpenError> {
    let owner = log.installation().await?;
    let facts = Facts::read(store).await?;
    if let Err(mismatch) = facts.own(owner, log).await? {
        return Ok(Err(mismatch));
    }
    facts.are_continued_by(log).await
}

/// The facts about the log in the main database.
#[derive(Debug, Clone)]
pub struct Facts {
    installation: Option<Installation>,
    /// Leaves whose usage is counted: the facts of a version that remembers nothing know at least that.
    counted: u64,
}

impl Facts {
    /// Reads them from the main database.
    pub async fn read(store: &Store) -> Result<Self, OpenError> {
        Ok(Self { installation: store.installation().await?, counted: store.usage_counted().await? })
    }

    /// The remembered checkpoint of the log.
    pub fn log(&self) -> Option<&RememberedLog> {
        self.installation.as_ref()?.log.as_ref()
    }

    /// Whether there was a log with events or a key.
    pub fn know_a_log(&self) -> bool {
        self.log().is_some() || self.counted > 0
    }

    /// The events that the log must have.
    pub fn events_min(&self) -> u64 {
        self.log().map_or(0, |log| log.size).max(self.counted)
    }

    /// Whether the log is of the same installation; `owner` was read from it before the facts were.
    async fn own(&self, owner: Option<InstallationId>, log: &Log) -> Result<Result<(), Mismatch>, OpenError> {
        let of = |log| move |facts: &Installation| Mismatch::OtherInstallation { facts: facts.id, log };
        Ok(match (&self.installation, owner) {
            (None, Some(_)) => Err(Mismatch::FactsWithoutId),
            (Some(facts), Some(owner)) if facts.id != owner => Err(of(owner)(facts)),
            (Some(facts), None) if facts.log.is_some() => match log.installation().await? {
                // Another process has given it an id since.
                Some(owner) if owner == facts.id => Ok(()),
                Some(owner) => Err(of(owner)(facts)),
                None => Err(Mismatch::LogWithoutId),
            },
            _ => Ok(()),
        })
    }

    /// Whether the log continues the remembered checkpoint.
    async fn are_continued_by(&self, log: &Log) -> Result<Result<(), Mismatch>, OpenError> {
        let Some(remembered) = self.log() else { return self.are_counted_by(log).await };
        let Some(seen) = remembered.opened() else { return Ok(Err(Mismatch::Unreadable)) };
        match log.continues(&remembered.vkey, &seen).await? {
            Continuity::Continues => self.are_counted_by(log).await,
            Continuity::OtherKey => Ok(Err(Mismatch::OtherKey)),
            Continuity::Smaller => {
                Ok(Err(Mismatch::Smaller { log: log.head().await?.size, remembered: self.events_min() }))
            }
            Continuity::Differs => Ok(Err(Mismatch::Differs { size: seen.size })),
        }
    }

    async fn are_counted_by(&self, log: &Log) -> Result<Result<(), Mismatch>, OpenError> {
        let size = log.head().await?.size;
        let is_smaller = size < self.counted;
        Ok(if is_smaller { Err(Mismatch::Smaller { log: size, remembered: self.counted }) } else { Ok(()) })
    }
}

/// The configuration and resources with which both databases are opened.
pub struct StartContext<'g> {
    /// The configuration.
    pub settings: &'g Settings,
    /// The current time.
    pub clock: &'g Clock,
    /// The source of ids.
    pub rng: &'g Rng,
}

/// The two databases before their tables were touched.
pub struct Found {
    /// The main database.
    pub store: Store,
    /// Whether the facts have no tables.
    pub are_facts_empty: bool,
    /// The log, unless its file is missing or it has no tables.
    pub log: Option<Pool>,
}

impl StartContext<'_> {
    /// Opens the databases that exist. On SQLite it creates no file for the log.
    pub async fn look(&self) -> Result<Found, OpenError> {
        let log = log_pool_if_there(self.settings).await?;
        let store = Store::open(&self.settings.database, &self.settings.data.facts()).await?;
        let are_facts_empty = store.pool().is_empty().await?;
        Ok(Found { store, are_facts_empty, log })
    }

    /// Starts the log in a pool. A log that begins has this origin.
    pub async fn log(&self, pool: Pool, origin: &str) -> Result<Log, OpenError> {
        let log = Log::open_with(pool, origin, self.clock, self.rng, &self.settings.log.writer()).await?;
        Ok(log.with_tiles_cache(self.settings.log.tiles_cache_bytes))
    }

    /// Facts and log that belong together. A pair without ids gets this one.
    async fn joined(&self, id: InstallationId) -> Result<(Store, Log), OpenError> {
        if is_lone_log(self.settings) {
            return Err(StartRefusal::of(self.settings, Mismatch::FactsMissing).into());
        }
        let Found { store, are_facts_empty, log: pool } = self.look().await?;
        let refused = |mismatch| OpenError::from(StartRefusal::of(self.settings, mismatch));
        if are_facts_empty && let Some(pool) = pool {
            pool.close().await;
            store.close().await;
            return Err(refused(Mismatch::FactsMissing));
        }
        store.migrate().await?;
        let facts = Facts::read(&store).await?;
        let pool = match pool {
            None if facts.know_a_log() => {
                // Another process may have made it a moment ago, and the facts remember it since then.
                log_pool_if_there(self.settings)
                    .await?
                    .ok_or_else(|| refused(Mismatch::LogMissing { remembered: facts.events_min() }))?
            }
            None => log_pool(self.settings).await?,
            Some(pool) => pool,
        };
        let log = self.log(pool, &self.settings.log.origin).await?;
        if let Err(mismatch) = compare(&store, &log).await? {
            log.close().await;
            store.close().await;
            return Err(refused(mismatch));
        }
        self.join(&store, &log, id).await?;
        Ok((store, log))
    }

    /// Writes missing ids, and stores the newest checkpoint.
    async fn join(&self, store: &Store, log: &Log, id: InstallationId) -> Result<(), OpenError> {
        let installation = store.installation_begin(id).await?;
        let owner = log.installation_begin(installation.id).await?;
        if owner != installation.id {
            let mismatch = Mismatch::OtherInstallation { facts: installation.id, log: owner };
            return Err(StartRefusal::of(self.settings, mismatch).into());
        }
        let head: LogHead = log.head().await?;
        store.installation_remember(&anchor::remembered(head), self.clock.now()).await?;
        Ok(())
    }
}

/// The pass that stores the newest checkpoint while the server runs; `None` with an external statistics service.
pub fn anchor_of(store: &Store, upstream: &Upstream, clock: &Clock) -> Option<Anchor> {
    let Upstream::Embedded { log, .. } = upstream else { return None };
    Some(Anchor { store: store.clone(), log: log.clone(), clock: clock.clone() })
}
