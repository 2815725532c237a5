//! Opens the main database and the log, and checks that they belong together, before anything is served.
//!
//! Both databases contain the id of the installation, and the main database stores the newest checkpoint of the log ([`actors::anchor`]). A
//! pair is refused if one of the two is missing, if the ids differ, or if the log does not continue the checkpoint. The refusal names both
//! remedies: a backup, or a new epoch of the log (`epoch`). A pair without ids, after an interrupted first start, gets them.
//!
//! On PostgreSQL both are restored together, so each node also stores the newest checkpoint in a local file
//! ([`statistics::log::MemoryFile`]). A log that does not continue it is halted: it can be read, but is not signed or extended.
//!
//! The order of reads permits several processes to start at the same moment: a process creates the main database before the log, and stores
//! a checkpoint after it was signed. So the presence of the log is read before the presence of the main database, and the stored checkpoint
//! before the checkpoint of the log.

mod epoch;
mod error;
mod log_record;
mod memory;
mod pair;
mod parts;
mod places;
mod refusal;
mod schema;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actors::anchor::Anchor;
use actors::intake::grouped::GroupMessage;
use actors::upstream::{Appenders, Upstream};
use actors::witness::Witnesses;
use actors::{ActorKind, PartKind, anchor};
use domain::ids::InstallationId;
use domain::log_part::LogPart;
use domain::registry::Registry;
use domain::{Clock, Rng};
use statistics::client::Client;
use statistics::log::{Log, LogError, LogHead, MemoryFault, MemoryFile};
use statistics::parts::{Logs, PartSlot};
use statistics::witness::WitnessClient;
use store::Store;
use store::pool::servers_of;
use supervision::Handle;

pub use self::epoch::{Declared, declare};
pub use self::error::OpenError;
pub use self::log_record::LogRecord;
pub use self::memory::{MemoryKeeper, memory_settings, with_memory};
pub use self::pair::is_lone_log;
use self::pair::{Found, StartContext, log_pool, log_pool_if_there, refuse_memory};
pub use self::parts::{PartOpener, part_pool};
pub use self::places::SCHEMA;
pub use self::refusal::{Mismatch, StartRefusal, epoch_command};
pub use self::schema::{DatabasePlan, InstallationPlan, plan as plan_schema, require as require_schema};
use crate::config::Settings;

/// Number of attempts of a start whose database stops answering, and the wait between two. Together they outlast a restart of PostgreSQL.
const ATTEMPTS: u32 = 5;
const ATTEMPT_WAIT: Duration = Duration::from_secs(1);

/// How a start treats the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogStart {
    /// Continues the log recorded in the main database.
    #[default]
    Continue,
    /// Starts an epoch with a new origin, regardless of the stored checkpoint.
    NewEpoch,
}

/// The statistics service before the actors that use it.
#[derive(Debug)]
pub enum OpenedService {
    /// The embedded log.
    Embedded(Box<Log>),
    /// A service behind HTTP.
    External(Client),
}

/// Opens the main database and the log, brings both to the newest schema, and refuses them if they do not belong together.
#[boxed]
pub async fn open(
    settings: &Settings,
    clock: &Clock,
    rng: &Rng,
    start: LogStart,
) -> Result<(Store, OpenedService), OpenError> {
    let id = || InstallationId::from(rng.uuid_v7(clock.now()));
    if settings.upstream.url.is_some() {
        // There is no embedded log. The stored checkpoint of an earlier one is kept, in case that log is used again.
        let store = main_database_beside_log(settings).await?;
        store.migrate().await?;
        store.installation_begin(id()).await?;
        return Ok((store, OpenedService::External(Client::new(&settings.upstream, rng)?)));
    }
    let ground = StartContext { settings, clock, rng };
    let (store, log) = match start {
        LogStart::Continue => ground.joined_in_attempts(id()).await?,
        LogStart::NewEpoch => epoch::begin(&ground, id()).await?,
    };
    Ok((store, OpenedService::Embedded(Box::new(log))))
}

/// The statistics service with the further parts of the log, and the pass that opens absent parts.
#[boxed]
pub async fn with_parts(
    service: OpenedService,
    settings: &Settings,
    store: &Store,
    (clock, rng): (&Clock, &Rng),
    registry: &Arc<Registry>,
) -> Result<(Upstream, Option<PartOpener>), OpenError> {
    let log = match service {
        OpenedService::Embedded(log) => log.with_registry(Arc::clone(registry)),
        OpenedService::External(client) => return Ok((Upstream::External(client), None)),
    };
    let installation = store.installation().await?.ok_or(OpenError::Absent("the installation's id"))?.id;
    let settings_of_opener = Arc::new(settings.clone());
    let opener =
        PartOpener::new(settings_of_opener, store.clone(), (clock, rng), Arc::clone(registry), installation).await?;
    opener.open().await?;
    let intake = appenders(settings);
    let log = Logs::new(log, opener.slots().clone());
    let opener = (!opener.slots().is_empty()).then_some(opener);
    Ok((Upstream::Embedded { intake, log }, opener))
}

/// An appender for each database server.
fn appenders(settings: &Settings) -> Appenders {
    let first = (LogPart::FIRST, settings.database.url.as_deref());
    let further = settings.log.part.iter().map(|part| (LogPart::new(part.number), Some(part.url.as_str())));
    let mut of_servers: BTreeMap<String, Handle<GroupMessage>> = BTreeMap::new();
    let of_part = |(part, url): (LogPart, Option<&str>)| {
        let server = url.map(servers_of).unwrap_or_default();
        let handle = of_servers.entry(server).or_insert_with(|| {
            Handle::new(PartKind::new(ActorKind::Intake, part), settings.actors.of(ActorKind::Intake))
        });
        (part, handle.clone())
    };
    Appenders::new([first].into_iter().chain(further).map(of_part).collect())
}

/// Opens the main database for a command that may run while a server does. It creates no file and changes no table; older tables are
/// refused.
#[boxed]
pub async fn open_main_database(settings: &Settings) -> Result<Store, OpenError> {
    if is_main_database_absent(settings) && !is_lone_log(settings) {
        return Err(OpenError::Absent("the main database"));
    }
    let store = main_database_beside_log(settings).await?;
    if let Err(error) = store.check_schema().await {
        store.close().await;
        return Err(error.into());
    }
    Ok(store)
}

/// Whether the file of the main database does not exist; false on PostgreSQL.
fn is_main_database_absent(settings: &Settings) -> bool {
    settings.database.url.is_none() && !settings.data.main_database().exists()
}

/// Opens the main database. Refused if it would be created next to an existing log.
async fn main_database_beside_log(settings: &Settings) -> Result<Store, OpenError> {
    if settings.upstream.url.is_none() && is_lone_log(settings) {
        return Err(StartRefusal::of(settings, Mismatch::FactsMissing).into());
    }
    let store = Store::open(&settings.database, &settings.data.main_database()).await?;
    let store = store.with_notices(settings.notices());
    refuse_memory(&store).await?;
    if is_main_database_lost(&store, settings).await? {
        store.close().await;
        return Err(StartRefusal::of(settings, Mismatch::FactsMissing).into());
    }
    Ok(store)
}

/// PostgreSQL: whether the main database has no tables although a log exists.
async fn is_main_database_lost(store: &Store, settings: &Settings) -> Result<bool, OpenError> {
    if settings.upstream.url.is_some() || !store.pool().is_postgres() || !store.pool().is_empty().await? {
        return Ok(false);
    }
    let Some(log) = log_pool_if_there(settings, store).await? else { return Ok(false) };
    log.close().await;
    // Another process may have created both since the first check.
    Ok(store.pool().is_empty().await?)
}

/// Compares the main database and a part of the log, without writing.
#[boxed]
pub async fn compare(store: &Store, part: LogPart, log: &Log) -> Result<Result<(), Mismatch>, OpenError> {
    let owner = log.installation().await?;
    let record = LogRecord::read(store, part).await?;
    if let Err(mismatch) = record.own(owner, log).await? {
        return Ok(Err(mismatch));
    }
    record.are_continued_by(log).await
}

impl StartContext<'_> {
    /// The same as [`joined`](Self::joined), repeated while the database does not answer. As several processes may start at the same moment,
    /// every step can be repeated.
    async fn joined_in_attempts(&self, id: InstallationId) -> Result<(Store, Log), OpenError> {
        for _ in 1..ATTEMPTS {
            match self.joined(id).await {
                Err(error) if error.is_unanswered() => {
                    tracing::warn!(
                        error = domain::reasons(&error),
                        "the database does not answer; the start is repeated"
                    );
                    tokio::time::sleep(ATTEMPT_WAIT).await;
                }
                outcome => return outcome,
            }
        }
        self.joined(id).await
    }

    /// Returns a main database and a log that belong together. A pair without ids gets `id`.
    async fn joined(&self, id: InstallationId) -> Result<(Store, Log), OpenError> {
        if is_lone_log(self.settings) {
            return Err(StartRefusal::of(self.settings, Mismatch::FactsMissing).into());
        }
        let Found { store, is_main_database_empty, log: pool } = self.look().await?;
        let refused = |mismatch| OpenError::from(StartRefusal::of(self.settings, mismatch));
        if is_main_database_empty && let Some(pool) = pool {
            pool.close().await;
            store.close().await;
            return Err(refused(Mismatch::FactsMissing));
        }
        if is_main_database_empty {
            self.fits_the_file(&store).await?;
        }
        store.migrate().await?;
        let record = LogRecord::read(&store, LogPart::FIRST).await?;
        let pool = match pool {
            None if record.know_a_log() => {
                // Another process may just have created it, and recorded it in the main database.
                log_pool_if_there(self.settings, &store)
                    .await?
                    .ok_or_else(|| refused(Mismatch::LogMissing { remembered: record.events_min() }))?
            }
            None => log_pool(self.settings, &store).await?,
            Some(pool) => pool,
        };
        let log = self.first_log(pool, &self.settings.log.origin).await?;
        if let Err(mismatch) = compare(&store, LogPart::FIRST, &log).await? {
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
            let mismatch = Mismatch::OtherInstallation { main: installation.id, log: owner };
            return Err(StartRefusal::of(self.settings, mismatch).into());
        }
        let head: LogHead = log.head().await?;
        match store.log_remember(LogPart::FIRST, &anchor::remembered(head), self.clock.now()).await {
            // For example a full disk: reads and proofs are served, and the pass that stores checkpoints retries.
            Err(error) if error.is_unavailable() => {
                tracing::warn!(
                    error = domain::reasons(&error),
                    "the server starts although its database cannot be written to"
                );
            }
            done => drop(done?),
        }
        self.remember(log, owner).await
    }

    /// PostgreSQL: compares the log with the checkpoint in the node's file, and updates that file from now on.
    async fn remember(&self, log: &Log, installation: InstallationId) -> Result<(), OpenError> {
        if self.settings.database.url.is_some() {
            log.remember_in(&self.settings.data.checkpoint(), installation).await?;
        }
        Ok(())
    }

    /// A node with the checkpoint of a log does not start another installation in an empty database.
    async fn fits_the_file(&self, store: &Store) -> Result<(), OpenError> {
        if self.settings.database.url.is_none() {
            return Ok(());
        }
        let path = self.settings.data.checkpoint();
        match MemoryFile::new(&path).read().map_err(LogError::from)? {
            // Another process in the same folder may have created the installation since the check.
            Some((remembered, _)) if store.pool().is_empty().await? => {
                Err(LogError::from(MemoryFault::OtherInstallation { path, remembered }).into())
            }
            _ => Ok(()),
        }
    }
}

/// The passes that request cosignatures from witnesses, one for each part of the log; none without witnesses.
pub fn witnesses_of(upstream: &Upstream, settings: &Settings) -> Result<Vec<Witnesses>, OpenError> {
    let Some(logs) = upstream.logs() else { return Ok(Vec::new()) };
    // The configuration was validated when it was read.
    let addresses = settings.log.witnesses().unwrap_or_default();
    if addresses.is_empty() {
        return Ok(Vec::new());
    }
    let mut passes = Vec::new();
    for (part, slot) in logs.slots() {
        let witnesses = addresses.iter().cloned().map(WitnessClient::new).collect::<Result<_, _>>()?;
        passes.push(Witnesses::new(part, slot.clone(), witnesses));
    }
    Ok(passes)
}

/// The passes that store the newest checkpoints while the server runs, one for each part of the log.
pub fn anchors_of(store: &Store, upstream: &Upstream, clock: &Clock) -> Vec<Anchor> {
    let anchor = |(part, slot): (LogPart, &PartSlot)| Anchor {
        store: store.clone(),
        part,
        log: slot.clone(),
        clock: clock.clone(),
    };
    upstream.logs().into_iter().flat_map(Logs::slots).map(anchor).collect()
}
