//! `attache serve --new-log`: a new epoch of the log.
//!
//! 1. A log of this installation keeps its events and its tree; from now on another key signs it, under a new origin. Any other log is set
//!    aside unchanged, and an empty one starts, because its events belong to accounts and computers that this main database does not have.
//! 2. The first event of the epoch is a record of the service itself ([`domain::epoch`]), with the newest stored checkpoint.
//! 3. The main database stores the new key last. A crash before that leaves a pair that the next start refuses, so the command is repeated.
//!
//! `attache admin log epoch` does the same while nodes run ([`declare`]), for a log with a tree that can grow. It also ends a halt of the
//! log.

use std::sync::Arc;

use chrono::{NaiveDateTime, TimeDelta};
use domain::chain::Position;
use domain::checkpoint::{EPOCH_FORMAT, epoch_of, epoch_origin};
use domain::envelope::Sealed;
use domain::epoch::EpochBegan;
use domain::ids::InstallationId;
use domain::log_part::LogPart;
use domain::{Clock, Rng};
use statistics::contract::{RecordScope, Submission};
use statistics::log::{Append, AppendOutcome, Log, LogError, MemoryFile, SeenCheckpoint};
use store::{Pool, Store};

use super::error::OpenError;
use super::log_record::LogRecord;
use super::pair::{Found, StartContext, is_lone_log, log_pool, log_pool_if_there};
use super::parts::{PartOpener, part_pool};
use super::places::SCHEMA;
use super::refusal::Mismatch;
use crate::config::Settings;

/// Starts an epoch and returns the main database and the log.
pub(super) async fn begin(ground: &StartContext<'_>, id: InstallationId) -> Result<(Store, Log), OpenError> {
    let now = ground.clock.now();
    let remembered = remembered_by_node(ground.settings, LogPart::FIRST);
    let base = &ground.settings.log.origin;
    let origin = later_origin(ground, base, remembered.as_ref().map(SeenCheckpoint::origin));
    let is_main_database_lost = is_lone_log(ground.settings);
    let Found { store, is_main_database_empty, log: pool } = ground.look().await?;
    store.migrate().await?;
    let log_record = LogRecord::read(&store, LogPart::FIRST).await?;
    if let Some(installation) = store.installation().await? {
        // With a part that is refused, every attempt of the start would begin another epoch.
        let settings = Arc::new(ground.settings.clone());
        let registry = Arc::new(ground.settings.registry().map_err(OpenError::Epoch)?);
        let parts = PartOpener::new(settings, store.clone(), (ground.clock, ground.rng), registry, installation.id);
        parts.await?.check().await?;
    }
    let own = match pool {
        Some(pool) if is_main_database_lost || is_main_database_empty => {
            set_aside(pool, &origin).await?;
            None
        }
        Some(pool) => own_log(ground, (&store, pool), &log_record, &origin).await?,
        None => None,
    };
    let installation = store.installation_begin(id).await?;
    let continues = own.is_some();
    let log = match own {
        Some(log) => {
            log.begin_epoch(&origin).await?;
            domain::failpoint!("epoch.begun");
            log
        }
        None => ground.first_log(log_pool(ground.settings, &store).await?, &origin).await?,
    };
    log.installation_begin(installation.id).await?;
    let checkpoint_before = newest(remembered, &log_record);
    let began = EpochBegan { installation: installation.id, origin, continues, checkpoint_before, reason: None };
    record(ground, &log, &began).await?;
    if !continues {
        // The log that was set aside has the acts of operators, the new one gets them again.
        store.acts_resend().await?;
    }
    domain::failpoint!("epoch.recorded");
    ground.remember_new(&log, installation.id).await?;
    store.log_begin_epoch(LogPart::FIRST, &actors::anchor::remembered(log.head().await?), now).await?;
    tracing::warn!(
        log.origin = began.origin,
        continues,
        "an epoch of the event log began: clients have to be given its key, and start without --new-log from now on"
    );
    Ok((store, log))
}

/// A declared epoch.
#[derive(Debug, Clone)]
pub struct Declared {
    /// Origin of the checkpoints from now on.
    pub origin: String,
    /// The key that signs them.
    pub vkey: String,
    /// Number of leaves of the signed tree.
    pub size: u64,
}

/// Starts an epoch of a part of the log in its database while nodes use it; they follow within a second. Refused for a log that `serve
/// --new-log` would set aside. A lost part starts with no events in an empty database,
/// and is refused while a node runs, which may have its log open.
#[boxed]
pub async fn declare(
    settings: &Settings,
    (clock, rng): (&Clock, &Rng),
    store: &Store,
    (part, is_lost): (LogPart, bool),
    reason: &str,
) -> Result<Declared, OpenError> {
    let ground = StartContext { settings, clock, rng };
    let refused = || no_log(part);
    let log_record = LogRecord::read(store, part).await?;
    let installation = store.installation().await?.ok_or_else(refused)?;
    if is_lost {
        may_be_lost(&ground, store, part, &log_record).await?;
    }
    let pool = if part.is_first() {
        log_pool_if_there(settings, store).await?.ok_or_else(refused)?
    } else {
        let configured = settings.log.part.iter().find(|configured| configured.number == part.number());
        let pool = part_pool(settings, &configured.ok_or_else(|| no_part(part))?.url).await;
        let pool = pool.map_err(|source| OpenError::PartDatabase { part, source })?;
        if !is_lost && pool.is_empty().await? {
            pool.close().await;
            return Err(OpenError::Epoch(format!(
                "the database of part {part} is empty. Correct its url in log.part; if its events are lost, stop all nodes and repeat the command with --lost"
            )));
        }
        pool
    };
    let log = ground.log(pool, &part.origin(&settings.log.origin)).await?;
    let declared = declare_in(&ground, store, (part, &log, is_lost), (installation.id, &log_record), reason).await;
    log.close().await;
    declared
}

/// Refuses to begin a part anew that has no events, or that a node has open.
async fn may_be_lost(
    ground: &StartContext<'_>,
    store: &Store,
    part: LogPart,
    log_record: &LogRecord,
) -> Result<(), OpenError> {
    let refused = |why: String| Err(OpenError::Epoch(why));
    if part.is_first() {
        return refused("--lost is for further parts of the log: start with `attache serve --new-log`".to_owned());
    }
    if !log_record.know_a_log() {
        return refused(format!("part {part} had no events that could be lost: start a server, which opens it"));
    }
    match store.nodes(ground.clock.now()).await?.into_iter().find(|node| !node.is_silent()) {
        Some(node) => refused(format!(
            "node {} runs and may have the log of part {part} open: stop all nodes first",
            node.place()
        )),
        None => Ok(()),
    }
}

fn no_log(part: LogPart) -> OpenError {
    let remedy = if part.is_first() {
        "Stop all nodes and start one with `serve --new-log`"
    } else {
        "Set its url in log.part to an empty database, and repeat the command with --lost"
    };
    OpenError::Epoch(format!("there is no log of this installation whose tree can grow. {remedy}"))
}

fn no_part(part: LogPart) -> OpenError {
    OpenError::Epoch(format!("the configuration has no part {part}: `attache admin log parts` lists them"))
}

async fn declare_in(
    ground: &StartContext<'_>,
    store: &Store,
    (part, log, is_lost): (LogPart, &Log, bool),
    (installation, log_record): (InstallationId, &LogRecord),
    reason: &str,
) -> Result<Declared, OpenError> {
    if is_lost {
        log.installation_begin(installation).await?;
        if !matches!(log_record.are_continued_by(log).await?, Err(Mismatch::OtherKey)) {
            return Err(OpenError::Epoch(format!(
                "the database of part {part} has the log that the main database remembers: repeat the command without --lost"
            )));
        }
    }
    if log_record.own(log.installation().await?, log).await?.is_err() || !log.is_intact().await? {
        return Err(no_log(part));
    }
    let (halted, head) = (log.halted(), log.head().await?);
    let remembered = remembered_by_node(ground.settings, part);
    let names = [&head.vkey]
        .into_iter()
        .chain(halted.iter().map(|halt| &halt.vkey))
        .chain(log_record.log().map(|log| &log.vkey));
    let names = names.filter_map(|vkey| vkey.split('+').next()).chain(remembered.as_ref().map(SeenCheckpoint::origin));
    let origin = later_origin(ground, &part.origin(&ground.settings.log.origin), names);
    let checkpoint_before = halted.and_then(|halt| halt.checkpoint).or_else(|| newest(remembered, log_record));
    log.begin_epoch(&origin).await?;
    let reason = Some(reason.to_owned());
    let began = EpochBegan { installation, origin: origin.clone(), continues: !is_lost, checkpoint_before, reason };
    record(ground, log, &began).await?;
    let head = log.head().await?;
    let declared = Declared { origin, vkey: head.vkey.clone(), size: head.size };
    store.log_begin_epoch(part, &actors::anchor::remembered(head), ground.clock.now()).await?;
    Ok(declared)
}

/// The origin of an epoch that starts now, or later if needed to follow these origins, which may come from other clocks.
fn later_origin<'o>(ground: &StartContext<'_>, base: &str, origins: impl IntoIterator<Item = &'o str>) -> String {
    let newest = origins.into_iter().map(epoch_of).max().unwrap_or_default().to_owned();
    let mut begins = ground.clock.now();
    if let Ok(newest) = NaiveDateTime::parse_from_str(&newest, EPOCH_FORMAT) {
        begins = begins.max(newest.and_utc() + TimeDelta::seconds(1));
    }
    epoch_origin(base, begins)
}

/// The checkpoint in the file of the node on which the command runs. The epoch replaces an unreadable file.
fn remembered_by_node(settings: &Settings, part: LogPart) -> Option<SeenCheckpoint> {
    settings.database.url.as_ref()?;
    Some(MemoryFile::new(&settings.data.checkpoint_of(part)).read().ok()??.1)
}

/// The larger one of the checkpoints that the node and the main database store.
fn newest(remembered: Option<SeenCheckpoint>, record: &LogRecord) -> Option<String> {
    let size = record.log().map_or(0, |log| log.size);
    let own = remembered.filter(|checkpoint| checkpoint.size > size).map(|checkpoint| checkpoint.checkpoint);
    own.or_else(|| record.log().map(|log| log.checkpoint.clone()))
}

impl StartContext<'_> {
    /// PostgreSQL: writes the checkpoint of the new epoch to the node's file.
    async fn remember_new(&self, log: &Log, installation: InstallationId) -> Result<(), OpenError> {
        if self.settings.database.url.is_none() {
            return Ok(());
        }
        let path = self.settings.data.checkpoint();
        let file = MemoryFile::new(&path);
        file.write(installation, &log.seen().await?).map_err(LogError::from)?;
        Ok(log.remember_in(&path, installation).await?)
    }
}

/// The log in a pool if it belongs to this main database and its tree can grow. Any other log is set aside.
async fn own_log(
    ground: &StartContext<'_>,
    (store, pool): (&Store, Pool),
    log_record: &LogRecord,
    origin: &str,
) -> Result<Option<Log>, OpenError> {
    let log = ground.first_log(pool, &ground.settings.log.origin).await?;
    let owner = log.installation().await?;
    if log_record.own(owner, &log).await?.is_ok() && log.is_intact().await? {
        return Ok(Some(log));
    }
    log.close().await;
    // The file was closed together with the log.
    if let Some(pool) = log_pool_if_there(ground.settings, store).await? {
        set_aside(pool, origin).await?;
    }
    Ok(None)
}

/// The name contains the time in the origin of the epoch.
async fn set_aside(pool: Pool, origin: &str) -> Result<(), OpenError> {
    let mark = origin.rsplit('-').next().unwrap_or_default();
    let name = pool.set_aside(SCHEMA, mark).await?;
    tracing::warn!(name, "the event log that was there was set aside");
    Ok(())
}

/// Appends the record. The installation's chain restarts with each epoch.
async fn record(ground: &StartContext<'_>, log: &Log, began: &EpochBegan) -> Result<(), OpenError> {
    let (now, rng) = (ground.clock.now(), ground.rng);
    let failed = |why: &str| OpenError::Epoch(why.to_owned());
    let mut position = Position::genesis(0);
    // The second attempt uses the chain position from the first refusal.
    for _ in 0..2 {
        let written = began.event(rng.uuid_v7(now).into(), &position, now);
        let sealed =
            Sealed::open_report(&written.body).map_err(|_| failed("the record is larger than an event may be"))?;
        let submission = Submission::new(written.body.into(), sealed, RecordScope::default());
        let append = Append::new(submission, rng.uuid_v7(now).into(), now);
        match log.append(&[append]).await?.pop() {
            Some(AppendOutcome::Receipt(_)) => return Ok(()),
            Some(AppendOutcome::Refused { refusal, .. }) => {
                position = Position::genesis(refusal.expected().chain_epoch + 1);
            }
            Some(AppendOutcome::EventIdConflict | AppendOutcome::Busy) | None => {}
        }
    }
    Err(failed("the log did not take the record"))
}
