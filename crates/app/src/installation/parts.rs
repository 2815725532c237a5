//! Opens the further parts of the log (`docs/decisions/0047-log-parts.md`).
//!
//! A server that is away stops no start: its part is opened later ([`PartOpener`]), and until then its computers get 424. A server that
//! refuses the connection stops a start: its URL is wrong. So does a part of another installation, or under another number, because events
//! would reach the wrong tree.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use domain::ids::InstallationId;
use domain::log_part::LogPart;
use domain::node::NodeRecord;
use domain::registry::Registry;
use domain::{Clock, Rng};
use statistics::log::{Log, LogError};
use statistics::parts::PartSlot;
use store::{DatabaseSettings, OldTables, Pool, Store, StoreError};
use supervision::periodic::{Next, Pass, PassError};

use super::compare;
use super::error::OpenError;
use super::log_record::LogRecord;
use super::pair::StartContext;
use super::places::SCHEMA;
use super::refusal::Mismatch;
use crate::config::{LogPartSettings, Settings};

/// Opens the parts that the configuration names and that are not open.
#[derive(Debug, Clone)]
pub struct PartOpener {
    settings: Arc<Settings>,
    store: Store,
    clock: Clock,
    rng: Rng,
    registry: Arc<Registry>,
    installation: InstallationId,
    slots: Arc<BTreeMap<LogPart, PartSlot>>,
}

impl PartOpener {
    /// The parts of the configuration, all of them not open. Refused if the main database knows a part that the configuration lacks.
    #[boxed]
    pub async fn new(
        settings: Arc<Settings>,
        store: Store,
        (clock, rng): (&Clock, &Rng),
        registry: Arc<Registry>,
        installation: InstallationId,
    ) -> Result<Self, OpenError> {
        let slots: BTreeMap<_, _> =
            settings.log.part.iter().map(|part| (LogPart::new(part.number), PartSlot::default())).collect();
        let known = store.log_parts().await?;
        if let Some(missing) = known.iter().find(|record| !slots.contains_key(&record.part)) {
            return Err(OpenError::PartMissing(missing.part));
        }
        let (clock, rng) = (clock.clone(), rng.clone());
        Ok(Self { settings, store, clock, rng, registry, installation, slots: Arc::new(slots) })
    }

    /// The parts, which the passes fill.
    pub fn slots(&self) -> &BTreeMap<LogPart, PartSlot> {
        &self.slots
    }

    /// Opens each part that can be opened. An unavailable server is left for a later call; the first other error is returned at the end.
    #[boxed]
    pub async fn open(&self) -> Result<(), OpenError> {
        let mut opened = Ok(());
        for part in &self.settings.log.part {
            let Some(slot) = self.slots.get(&LogPart::new(part.number)) else { continue };
            if slot.get().is_some() {
                continue;
            }
            match self.opened(part).await {
                Ok(log) => slot.fill(log),
                Err(error) if error.is_away() => tracing::warn!(
                    log.part = part.number,
                    error = domain::reasons(&error),
                    "a part of the log is away: its computers get 424 until it is opened"
                ),
                Err(error) => opened = opened.and(Err(error)),
            }
        }
        opened
    }

    /// Opens the parts as a start does, and closes them: an error would refuse the start.
    #[boxed]
    pub async fn check(&self) -> Result<(), OpenError> {
        let checked = self.open().await;
        for log in self.slots.values().filter_map(PartSlot::get) {
            log.close().await;
        }
        checked
    }

    async fn opened(&self, LogPartSettings { number, url, .. }: &LogPartSettings) -> Result<Log, OpenError> {
        let (part, settings) = (LogPart::new(*number), &self.settings);
        let origin = part.origin(&settings.log.origin);
        let pool = part_pool(settings, url).await.map_err(|source| OpenError::PartDatabase { part, source })?;
        let record = LogRecord::read(&self.store, part).await?;
        if record.know_a_log() && pool.is_empty().await? {
            pool.close().await;
            return Err(OpenError::Part { part, mismatch: Mismatch::LogMissing { remembered: record.events_min() } });
        }
        if settings.database.old_tables == OldTables::Refuse
            && let Err(source) = Log::check_schema(&pool).await
        {
            pool.close().await;
            return Err(OpenError::PartDatabase { part, source });
        }
        let ground = StartContext { settings, clock: &self.clock, rng: &self.rng };
        let log = ground.log(pool, &origin).await.map_err(|error| match error {
            OpenError::Log(LogError::OtherOrigin { begun, .. }) => {
                OpenError::PartOrigin { part, origin: origin.clone(), found: begun }
            }
            error => error,
        })?;
        let log = log.with_registry(Arc::clone(&self.registry));
        if let Err(error) = self.belongs(part, &origin, &log).await {
            log.close().await;
            return Err(error);
        }
        let file = settings.data.checkpoint_of(part);
        log.remember_in(&file, self.installation).await?;
        Ok(log)
    }

    /// Refuses the log of another installation, of another part, or one that does not continue the stored checkpoint.
    async fn belongs(&self, part: LogPart, origin: &str, log: &Log) -> Result<(), OpenError> {
        let refused = |mismatch| OpenError::Part { part, mismatch };
        let owner = log.installation_begin(self.installation).await?;
        if owner != self.installation {
            return Err(refused(Mismatch::OtherInstallation { main: self.installation, log: owner }));
        }
        if !self.store.log_parts().await?.iter().any(|known| known.part == part) {
            if let Some(node) = node_of_other_version(&self.store, &self.clock).await? {
                let (place, version) = (node.place(), node.traits.version);
                return Err(OpenError::PartBesideVersion { part, node: place, version });
            }
            self.store.log_part_open(part, origin, self.clock.now()).await?;
        }
        compare(&self.store, part, log).await?.map_err(refused)
    }
}

/// A node that runs another version, which knows no new database.
pub(super) async fn node_of_other_version(store: &Store, clock: &Clock) -> Result<Option<NodeRecord>, OpenError> {
    let nodes = store.nodes(clock.now()).await?;
    Ok(nodes.into_iter().find(|node| !node.is_silent() && node.traits.version != env!("CARGO_PKG_VERSION")))
}

/// Opens the database of a part.
#[boxed]
pub async fn part_pool(settings: &Settings, url: &str) -> Result<Pool, StoreError> {
    let database = DatabaseSettings { url: Some(url.to_owned()), replica_url: None, ..settings.database.clone() };
    Pool::open(&database, Path::new(""), Some(SCHEMA)).await
}

impl Pass for PartOpener {
    type Memory = ();

    async fn run(&self, (): &mut ()) -> Result<Next, PassError> {
        self.open().await?;
        let are_open = self.slots.values().all(|slot| slot.get().is_some());
        Ok(if are_open { Next::Idle } else { Next::AfterPause })
    }
}
