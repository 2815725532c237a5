//! `attache serve --new-log`: a new epoch of the log.
//!
//! 1. A log of this installation keeps its events and its tree; another key signs it from now on, under a new origin. Any other log is
//!    set aside as it is, and an empty one begins: its events belong to accounts and computers that these facts do not have.
//! 2. The first event of the epoch is a record of the service itself ([`domain::epoch`]), with the newest checkpoint that is remembered.
//! 3. The facts remember the new key last. A crash before that leaves a pair that the next start refuses, so the command is repeated.

use domain::chain::Position;
use domain::checkpoint::epoch_origin;
use domain::envelope::{AgentKinds, Sealed};
use domain::epoch::EpochBegan;
use domain::ids::InstallationId;
use statistics::contract::{RecordScope, Submission};
use statistics::log::{Append, AppendOutcome, Log};
use store::{Pool, Store};

use super::error::OpenError;
use super::facts::Facts;
use super::pair::{Found, StartContext, is_lone_log, log_pool, log_pool_if_there};
use super::places::SCHEMA;

/// Bytes of the record at most.
const RECORD_BYTES_MAX: usize = 65_536;

/// Begins an epoch and returns the main database and the log.
pub(super) async fn begin(ground: &StartContext<'_>, id: InstallationId) -> Result<(Store, Log), OpenError> {
    let now = ground.clock.now();
    let origin = epoch_origin(&ground.settings.log.origin, now);
    let are_facts_lost = is_lone_log(ground.settings);
    let Found { store, are_facts_empty, log: pool } = ground.look().await?;
    store.migrate().await?;
    let facts = Facts::read(&store).await?;
    let own = match pool {
        Some(pool) if are_facts_lost || are_facts_empty => {
            set_aside(pool, &origin).await?;
            None
        }
        Some(pool) => own_log(ground, pool, &facts, &origin).await?,
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
        None => ground.log(log_pool(ground.settings).await?, &origin).await?,
    };
    log.installation_begin(installation.id).await?;
    let checkpoint_before = facts.log().map(|log| log.checkpoint.clone());
    let began = EpochBegan { installation: installation.id, origin, continues, checkpoint_before };
    record(ground, &log, &began).await?;
    domain::failpoint!("epoch.recorded");
    store.installation_new_log(&actors::anchor::remembered(log.head().await?), now).await?;
    tracing::warn!(
        log.origin = began.origin,
        continues,
        "an epoch of the event log began: clients have to be given its key, and start without --new-log from now on"
    );
    Ok((store, log))
}

/// The log in a pool if it belongs to these facts and its tree can grow. Any other is set aside.
async fn own_log(ground: &StartContext<'_>, pool: Pool, facts: &Facts, origin: &str) -> Result<Option<Log>, OpenError> {
    let log = ground.log(pool, &ground.settings.log.origin).await?;
    let owner = log.installation().await?;
    if facts.own(owner, &log).await?.is_ok() && log.is_intact().await? {
        return Ok(Some(log));
    }
    log.close().await;
    // The pool closed with the log.
    if let Some(pool) = log_pool_if_there(ground.settings).await? {
        set_aside(pool, origin).await?;
    }
    Ok(None)
}

/// The mark is the moment in the origin of the epoch.
async fn set_aside(pool: Pool, origin: &str) -> Result<(), OpenError> {
    let mark = origin.rsplit('-').next().unwrap_or_default();
    let name = pool.set_aside(SCHEMA, mark).await?;
    tracing::warn!(name, "the event log that was there was set aside");
    Ok(())
}

/// Appends the record. The chain of the installation has a beginning for each epoch.
async fn record(ground: &StartContext<'_>, log: &Log, began: &EpochBegan) -> Result<(), OpenError> {
    let (now, rng) = (ground.clock.now(), ground.rng);
    let failed = |why: &str| OpenError::Epoch(why.to_owned());
    let identity = rng.cuid2().parse().map_err(|_| failed("no identity could be drawn"))?;
    let mut position = Position::genesis(0);
    // The second attempt uses the chain position from the first refusal.
    for _ in 0..2 {
        let written = began.event(rng.uuid_v7(now).into(), &identity, &position, now);
        let sealed = Sealed::open(&written.body, RECORD_BYTES_MAX, &AgentKinds::new([]))
            .map_err(|_| failed("the record is larger than an event may be"))?;
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
