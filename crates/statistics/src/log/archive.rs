//! Bodies of events that move from the database into the archive.
//!
//! 1. When a tile of level 0 is full and signed, [`Log::archive_some`] writes its 256 bodies as one bundle, with the tiles that became full,
//!    and reads every object again. Then `archive.put` advances.
//! 2. When the events of a bundle are older than `log.archive.keep`, the bundle is read once more and compared with the database. Then one
//!    transaction empties their bodies and advances `archive.removed`.
//! 3. A reader that finds an empty body reads its bundle, and compares the body with `events.self`.
//!
//! The bytes of an object depend on the log only, so a process that ends between two steps leaves objects that the next pass finds as it
//! would write them. An object that differs belongs to events that a restored database does not have: the log continues in another folder.
//!
//! Bodies of the service's own agent stay in the database, because each page of activity reads them.

mod body;
pub(super) mod moves;
mod survey;

use std::time::{Duration, Instant};

use bytes::Bytes;
use domain::{Digest, Timestamp};
use futures_util::future::join_all;
use object_store::path::Path;
use proofs::merkle::tile::{LEVELS_MAX, TileId, WIDTH};
use store::in_transaction;
use store::pool::{query, scalar};

pub(super) use self::body::MissingBody;
use self::moves::{ArchiveMove, BEGIN, EMPTY, PUT, REMOVED};
pub use self::survey::ArchiveSurvey;
use super::error::{During, LogError};
use super::handle::Log;
use crate::archive::{Archive, ArchiveError, bundled};

/// Number of bundles that one pass writes, and number of bundles that it removes from the database.
const BUNDLES_MAX: u64 = 64;
/// Time after which a pass ends and another one continues; half of it writes bundles.
const PASS_MAX: Duration = Duration::from_secs(20);
/// Number of bundles that are written at the same time.
const AT_ONCE: usize = 8;
/// Bytes of these bundles from which no further one joins them.
const AT_ONCE_BYTES: usize = 32 << 20;
/// Number of events of a bundle.
const EVENTS: u64 = WIDTH as u64;

/// `(size of the signed tree, events of sessions)`.
const STATE: &str = "SELECT t.size, (SELECT events FROM session_progress WHERE id = 1) FROM tree t WHERE t.id = 1";
/// `(first, folder, put, removed)` of the folders, in the order of the bundles.
const FOLDERS: &str = "SELECT first, folder, put, removed FROM archive ORDER BY first";
/// Whether another process than `$1` has the lease, on PostgreSQL.
const LED_ELSEWHERE: &str = "SELECT COALESCE(holder <> $1, FALSE)
        AND held_until_ms > CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)
    FROM sequencer WHERE id = 1";
/// `(self, canonical)` of leaves in their order. Parameters: first leaf, end.
const LEAVES: [&str; 2] = [
    "SELECT self, canonical FROM events WHERE id > $1 AND id <= $2 ORDER BY id",
    "SELECT e.self, e.canonical FROM leaves l JOIN events e ON e.id = l.event
        WHERE l.leaf_index >= $1 AND l.leaf_index < $2 ORDER BY l.leaf_index",
];
/// The time of receipt of the newest event of a bundle, on SQLite and PostgreSQL.
const NEWEST: [&str; 2] = [
    "SELECT MAX(received_at_ms) FROM events WHERE id > $1 * 256 AND id <= ($1 + 1) * 256",
    "SELECT MAX(e.received_at_ms) FROM leaves l JOIN events e ON e.id = l.event
        WHERE l.leaf_index >= $1 * 256 AND l.leaf_index < ($1 + 1) * 256",
];

/// How much of the log is in its archive, in events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Archived {
    /// The first events of the tree, which have their bodies in the archive.
    pub put: u64,
    /// The first events of the tree, which have no body in the database.
    pub removed: u64,
    /// Leaves of the signed tree.
    pub leaves: u64,
    /// The folders of the archive, each with its first event.
    pub folders: Vec<(u64, String)>,
    /// Events that the tables of sessions include.
    followed: u64,
}

/// An object that was to be written.
#[derive(PartialEq, Eq)]
enum Written {
    /// It is there.
    There,
    /// Another one has its name.
    Other,
}

impl Archived {
    /// The folder of a bundle.
    fn folder_of(&self, bundle: u64) -> Option<&str> {
        let event = bundle.saturating_mul(EVENTS);
        self.folders.iter().rev().find(|(first, _)| *first <= event).map(|(_, folder)| folder.as_str())
    }
}

impl Log {
    /// Sets the archive of old bodies.
    #[must_use]
    pub fn with_archive(mut self, archive: Option<Archive>) -> Self {
        self.archive = archive;
        self
    }

    /// The archive of old bodies.
    pub fn archive(&self) -> Option<&Archive> {
        self.archive.as_ref()
    }

    /// How much of the log is in its archive.
    #[boxed]
    pub async fn archived(&self) -> Result<Archived, LogError> {
        const ASK: &str = "read the progress of the archive";
        let rows: Vec<(i64, String, i64, i64)> = query(FOLDERS).fetch_all(&self.pool).await.during(ASK)?;
        let (leaves, followed): (i64, i64) = query(STATE).fetch_one(&self.pool).await.during(ASK)?;
        let number = |value: i64| u64::try_from(value).map_err(|_| LogError::Corrupt("archive"));
        let mut state = Archived { leaves: number(leaves)?, followed: number(followed)?, ..Archived::default() };
        for (first, folder, put, removed) in rows {
            let (first, put, removed) = (number(first)? * EVENTS, number(put)? * EVENTS, number(removed)? * EVENTS);
            // A folder continues the one before it.
            if state.removed == first {
                state.removed = removed;
            }
            state.put = put;
            state.folders.push((first, folder));
        }
        Ok(state)
    }

    /// One pass, unless another process signs the log; returns how much is archived afterwards, and whether there is more to do.
    #[boxed]
    pub async fn archive_some(&self) -> Result<(Archived, bool), LogError> {
        let Some(archive) = &self.archive else { return Ok((Archived::default(), false)) };
        let state = self.archived().await?;
        if self.is_led_elsewhere().await? {
            return Ok((state, false));
        }
        match self.archive_from(archive, state.clone()).await {
            Err(LogError::Corrupt(column)) => {
                // Another process may have emptied a body that this one was to read.
                let now = self.archived().await?;
                let has_moved = (now.put, now.removed) != (state.put, state.removed);
                if has_moved { Ok((now, true)) } else { Err(LogError::Corrupt(column)) }
            }
            outcome => outcome,
        }
    }

    async fn archive_from(&self, archive: &Archive, mut state: Archived) -> Result<(Archived, bool), LogError> {
        let begun = Instant::now();
        let (put, removed) = (state.put / EVENTS, state.removed / EVENTS);
        let full = state.leaves / EVENTS;
        let until = full.min(put + BUNDLES_MAX);
        if until > put || self.is_due(archive, &state, removed).await? {
            self.is_own(archive, &state).await?;
        }
        let (put_until, folders) = self.put(archive, &state, until).await?;
        (state.put, state.folders) = (put_until * EVENTS, folders);
        let removable = (state.put.min(state.followed) / EVENTS).min(removed + BUNDLES_MAX);
        let mut done = removed;
        while done < removable
            && begun.elapsed() < PASS_MAX
            && self.is_due(archive, &state, done).await?
            && self.remove(archive, &state, done).await?
        {
            done += 1;
        }
        state.removed = done * EVENTS;
        let is_cut = begun.elapsed() >= PASS_MAX;
        let has_more = is_cut || (put_until == until && until < full) || (done == removed + BUNDLES_MAX);
        Ok((state, has_more))
    }

    /// Whether another process has the lease of the sequencer, so that it makes the passes. Processes without a lease, on an idle log, may all
    /// make them: each change is guarded.
    async fn is_led_elsewhere(&self) -> Result<bool, LogError> {
        if self.is_sequencer() {
            return Ok(false);
        }
        let led = scalar(LED_ELSEWHERE).bind(self.holder).fetch_one(&self.pool).await;
        led.during("read the lease of the sequencer")
    }

    /// Fails if the archive does not have the last bundle: it is another one, or it was emptied.
    async fn is_own(&self, archive: &Archive, state: &Archived) -> Result<(), ArchiveError> {
        let Some(last) = (state.put / EVENTS).checked_sub(1) else { return Ok(()) };
        let Some(folder) = state.folder_of(last) else { return Ok(()) };
        let bundle = archive.bundle(folder, last);
        if archive.has(&bundle).await? { Ok(()) } else { Err(archive.note(archive.missing(&bundle))) }
    }

    /// Writes the bundles before `until`. Returns the first bundle that is not written, and the folders.
    async fn put(
        &self,
        archive: &Archive,
        state: &Archived,
        until: u64,
    ) -> Result<(u64, Vec<(u64, String)>), LogError> {
        let (mut next, mut folders) = (state.put / EVENTS, state.folders.clone());
        // A folder that has no object of this log yet.
        let mut new = None;
        let begun = Instant::now();
        while next < until && begun.elapsed() < PASS_MAX / 2 {
            let folder = match (&new, folders.last()) {
                (Some(folder), _) | (None, Some((_, folder))) => String::clone(folder),
                (None, None) => new.insert(self.folder().await?).clone(),
            };
            let bundles = self.bundles(next, until).await?;
            let wanted = bundles.len() as u64;
            let writes =
                (next..).zip(&bundles).map(|(bundle, content)| self.put_bundle(archive, &folder, bundle, content));
            let written: Vec<Written> = join_all(writes).await.into_iter().collect::<Result<_, _>>()?;
            domain::failpoint!("archive.put");
            let there = written.iter().take_while(|written| **written == Written::There).count() as u64;
            if there > 0 {
                let (from, until) = (next, next + there);
                let step = match &new {
                    Some(folder) => ArchiveMove::Begin { from, until, folder: folder.clone() },
                    None => ArchiveMove::Put { from, until },
                };
                if !self.move_archive(step).await? {
                    // Another process was faster.
                    break;
                }
                folders.extend(new.take().map(|folder| (from * EVENTS, folder)));
                next = until;
            }
            if there < wanted {
                let folder = format!("{}.{}", self.folder().await?, self.rng.uuid_v7(self.clock.now()).simple());
                tracing::warn!(
                    folder,
                    "the archive has other bodies of these events, as after a restore: the log continues in another folder"
                );
                new = Some(folder);
            }
        }
        Ok((next, folders))
    }

    /// Makes a change, unless another process has made it.
    async fn move_archive(&self, step: ArchiveMove) -> Result<bool, LogError> {
        const WRITE: &str = "write the progress of the archive";
        let number = |bundle: u64| i64::try_from(bundle).map_err(|_| LogError::Corrupt("archive.put"));
        if let Some(writer) = &self.writer {
            return writer.move_archive(step).await;
        }
        let moved = match step {
            ArchiveMove::Put { from, until } => {
                query(PUT).bind(number(until)?).bind(number(from)?).execute(self.pool.writer()).await
            }
            ArchiveMove::Begin { from, until, folder } => {
                let begin = query(BEGIN).bind(number(from)?).bind(&folder).bind(number(until)?);
                begin.execute(self.pool.writer()).await
            }
            ArchiveMove::Remove { bundle } => {
                let bundle = number(bundle)?;
                in_transaction!(
                    &self.pool,
                    |tx| {
                        let moved = query(REMOVED).bind(bundle).execute(&mut *tx).await?;
                        query(EMPTY).bind(bundle).execute(&mut *tx).await?;
                        Ok(moved)
                    },
                    commit if |moved: &u64| *moved > 0
                )
                .await
            }
        };
        Ok(moved.during(WRITE)? > 0)
    }

    /// The next bundles, as many as may be in memory.
    async fn bundles(&self, from: u64, until: u64) -> Result<Vec<Bytes>, LogError> {
        let (mut bundles, mut bytes) = (Vec::new(), 0);
        for bundle in (from..until).take(AT_ONCE) {
            if bytes >= AT_ONCE_BYTES {
                break;
            }
            let content = self.bundle(bundle).await?;
            bytes += content.len();
            bundles.push(content);
        }
        Ok(bundles)
    }

    /// Writes one bundle, and the tiles that are full with it.
    async fn put_bundle(
        &self,
        archive: &Archive,
        folder: &str,
        bundle: u64,
        content: &Bytes,
    ) -> Result<Written, LogError> {
        if write(archive, &archive.bundle(folder, bundle), content).await? == Written::Other {
            return Ok(Written::Other);
        }
        let mut ids = Vec::new();
        let mut index = bundle + 1;
        for level in 0..LEVELS_MAX {
            ids.push(TileId { level, index: index - 1 });
            if !index.is_multiple_of(EVENTS) {
                break;
            }
            index /= EVENTS;
        }
        let tiles = self.tiles(ids.iter().copied()).await?;
        for id in ids {
            if write(archive, &archive.tile(folder, id), &tiles.bytes(id).into()).await? == Written::Other {
                return Ok(Written::Other);
            }
        }
        Ok(Written::There)
    }

    /// Whether the events of a bundle are old enough to leave the database.
    async fn is_due(&self, archive: &Archive, state: &Archived, bundle: u64) -> Result<bool, LogError> {
        if (bundle + 1) * EVENTS > state.put {
            return Ok(false);
        }
        let newest: Option<i64> = scalar(NEWEST[usize::from(self.pool.is_postgres())])
            .bind(i64::try_from(bundle).map_err(|_| LogError::Corrupt("archive.removed"))?)
            .fetch_one(&self.pool)
            .await
            .during("read the age of a bundle")?;
        Ok(newest.is_some_and(|newest| age(self.clock.now(), newest) >= archive.keep()))
    }

    /// Empties the bodies of a bundle in the database, after it was compared with the archive.
    async fn remove(&self, archive: &Archive, state: &Archived, bundle: u64) -> Result<bool, LogError> {
        let content = self.bundle(bundle).await?;
        let folder = state.folder_of(bundle).ok_or(LogError::Corrupt("archive.first"))?;
        let object = archive.bundle(folder, bundle);
        match archive.read(&object).await? {
            Some(found) if found == content => {}
            // Another log may have written it.
            Some(_) => return Err(archive.note(archive.changed(&object)).into()),
            None => {
                tracing::warn!(%object, "the archive has lost the bodies of this bundle: they are written again");
                archive.write(&object, &content).await?;
            }
        }
        domain::failpoint!("archive.remove");
        self.move_archive(ArchiveMove::Remove { bundle }).await
    }

    /// A bundle from the database, each body compared with its seal.
    async fn bundle(&self, bundle: u64) -> Result<Bytes, LogError> {
        let place = |bundle: u64| i64::try_from(bundle * EVENTS).map_err(|_| LogError::Corrupt("archive.put"));
        let (first, end) = (place(bundle)?, place(bundle + 1)?);
        let leaves = query(LEAVES[usize::from(self.pool.is_postgres())]).bind(first).bind(end);
        let leaves: Vec<(Vec<u8>, Vec<u8>)> =
            leaves.fetch_all(&self.pool).await.during("read the bodies of a bundle")?;
        let is_whole = |(seal, body): &(Vec<u8>, Vec<u8>)| seal[..] == Digest::of(body).as_bytes()[..];
        if leaves.len() != WIDTH || !leaves.iter().all(is_whole) {
            return Err(LogError::Corrupt("events.canonical"));
        }
        bundled(leaves.iter().map(|(_, body)| &body[..])).map_err(|_| LogError::Corrupt("events.canonical"))
    }

    /// The folder of a new archive: name of the log, and hash of the key that signs it.
    async fn folder(&self) -> Result<String, LogError> {
        let signed = self.signed().await?;
        folder_of_key(&signed.vkey).ok_or(LogError::Corrupt("tree.vkey"))
    }
}

/// The folder of a log that began its archive with this key.
fn folder_of_key(vkey: &str) -> Option<String> {
    let (name, rest) = vkey.split_once('+')?;
    let (hash, _) = rest.split_once('+')?;
    Some(format!("{name}+{hash}"))
}

/// Writes an object, unless it is there.
async fn write(archive: &Archive, object: &Path, content: &Bytes) -> Result<Written, ArchiveError> {
    match archive.read(object).await? {
        Some(found) if found == *content => Ok(Written::There),
        Some(_) => Ok(Written::Other),
        None => archive.write(object, content).await.map(|()| Written::There),
    }
}

/// The time since an event was received; none for one from the future.
fn age(now: Timestamp, received_at_ms: i64) -> Duration {
    u64::try_from(now.timestamp_millis().saturating_sub(received_at_ms)).map_or(Duration::ZERO, Duration::from_millis)
}
