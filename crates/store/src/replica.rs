//! A streaming replica of the PostgreSQL database that answers some reads (`docs/decisions/0032-growth-of-the-log.md`).
//!
//! A replica is used while it has every commit that is older than `database.replica_lag_max`. A check reads the position of the primary's
//! log and waits for it on the replica: at most once per `CHECK_EVERY`, only while there are reads, and never in the future of a request.
//! If the replica is unavailable, behind, promoted, or of another installation, reads run on the primary.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::live::Live;
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use crate::error::{Context, StoreError};
use crate::pool::{DatabaseSettings, Pool, query, scalar};

/// Minimum time between two checks.
const CHECK_EVERY: Duration = Duration::from_millis(500);
/// Pause between two reads of the replica's position.
const PAUSE: Duration = Duration::from_millis(20);
/// Timeout of a check.
const CHECK_DEADLINE: Duration = Duration::from_secs(5);

/// A replica of one schema of the database. Clones share it. It connects with the first check.
#[derive(Debug, Clone)]
pub struct Replica(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    settings: Live<DatabaseSettings>,
    url: String,
    schema: Option<&'static str>,
    known: Mutex<Known>,
    is_being_checked: AtomicBool,
}

/// The result of the last check.
#[derive(Debug, Default)]
struct Known {
    pool: Option<Pool>,
    /// Commits before this time are on the replica.
    current_at: Option<Instant>,
    checked_at: Option<Instant>,
}

impl Replica {
    /// The configured replica, if any.
    pub fn of(settings: &DatabaseSettings, schema: Option<&'static str>) -> Option<Self> {
        let url = settings.replica_url.clone().filter(|_| settings.url.is_some())?;
        let (known, is_being_checked) = (Mutex::default(), AtomicBool::new(false));
        Some(Self(Arc::new(Shared { settings: settings.clone().into(), url, schema, known, is_being_checked })))
    }

    /// The connections to the replica, while it has every commit that is older than `database.replica_lag_max`.
    pub fn current(&self, primary: &Pool) -> Option<Pool> {
        let now = Instant::now();
        let (pool, is_due) = {
            let state = self.known();
            let age = |at: Option<Instant>| at.map_or(Duration::MAX, |at| now.saturating_duration_since(at));
            let is_current = age(state.current_at) <= self.0.settings.get().replica_lag_max;
            (state.pool.clone().filter(|_| is_current), age(state.checked_at) >= CHECK_EVERY)
        };
        if is_due && !self.0.is_being_checked.swap(true, Ordering::AcqRel) {
            tokio::spawn(self.clone().check(primary.clone()));
        }
        pool
    }

    /// Timeout of a read on the replica; after it the read runs on the primary.
    pub fn read_deadline(&self) -> Duration {
        self.0.settings.get().replica_deadline
    }

    /// Puts other timeouts, and another maximum age, in force.
    pub fn retune(&self, settings: &DatabaseSettings) {
        self.0.settings.set(settings.clone());
        if let Some(pool) = &self.known().pool {
            pool.retune(settings);
        }
    }

    /// Records a failed read: the replica is not used before the next successful check.
    pub fn failed(&self, error: &(dyn std::error::Error + 'static)) {
        if self.known().current_at.take().is_some() {
            tracing::warn!(error = domain::reasons(error), "a read of the replica failed; reads run on the primary");
        }
    }

    /// Closes the connections to the replica.
    #[boxed]
    pub async fn close(&self) {
        let pool = {
            let mut state = self.known();
            state.current_at = None;
            state.pool.take()
        };
        if let Some(pool) = pool {
            pool.close().await;
        }
    }

    async fn check(self, primary: Pool) {
        // Also after a panic, so that another check is possible.
        let _ended = Checked(&self.0.is_being_checked);
        let begun = Instant::now();
        let outcome = timeout(CHECK_DEADLINE, self.catch_up(&primary)).await;
        let mut state = self.known();
        state.checked_at = Some(Instant::now());
        match outcome {
            Ok(Ok(())) => {
                if state.current_at.replace(begun).is_none() {
                    tracing::info!("the replica is current and answers reads");
                }
            }
            Ok(Err(error)) => tracing::debug!(error = domain::reasons(&error), "the replica cannot be used"),
            Err(_) => tracing::debug!("the replica is behind the primary"),
        }
    }

    /// Waits until the replica has all commits of the primary.
    async fn catch_up(&self, primary: &Pool) -> Result<(), StoreError> {
        const ASK: &str = "compare the replica with the primary";
        const WRITTEN: &str = "SELECT CAST(pg_current_wal_flush_lsn() AS TEXT)";
        const REPLAYED: &str =
            "SELECT pg_is_in_recovery(), COALESCE(pg_last_wal_replay_lsn() >= CAST($1 AS pg_lsn), FALSE)";
        let replica = self.connected(primary).await?;
        let written: String = scalar(WRITTEN).fetch_one(primary).await.context(ASK)?;
        loop {
            let replayed = query(REPLAYED).bind(&written).fetch_one(&replica).await;
            let (is_standby, is_there): (bool, bool) = replayed.context(ASK)?;
            if !is_standby {
                // A promoted server has diverged from the primary. Another server of the URL may be a standby.
                replica.renew();
                let what = "database.replica_url".to_owned();
                return Err(StoreError::Open { what, source: "its server is no standby any more".into() });
            }
            if is_there {
                return Ok(());
            }
            sleep(PAUSE).await;
        }
    }

    /// Connects, and compares the installations, once.
    async fn connected(&self, primary: &Pool) -> Result<Pool, StoreError> {
        const INSTALLATION: &str = "SELECT installation_id FROM installation WHERE id = 1";
        const ASK: &str = "compare the installation of the replica";
        if let Some(pool) = self.known().pool.clone() {
            return Ok(pool);
        }
        let settings = DatabaseSettings::clone(&self.0.settings.get());
        let pool = Pool::open_standby(&settings, &self.0.url, self.0.schema).await?;
        let own: Option<Uuid> = scalar(INSTALLATION).fetch_optional(primary).await.context(ASK)?;
        let there: Option<Uuid> = scalar(INSTALLATION).fetch_optional(&pool).await.context(ASK)?;
        if own != there {
            pool.close().await;
            let what = "database.replica_url".to_owned();
            return Err(StoreError::Open { what, source: "it is a database of another installation".into() });
        }
        self.known().pool = Some(pool.clone());
        Ok(pool)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Every update is an assignment, so a panic leaves no partial update.
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a check.
struct Checked<'c>(&'c AtomicBool);

impl Drop for Checked<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
