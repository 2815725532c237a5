//! The archive of the log: an object store, S3 or a folder, with the bodies of its events (`docs/decisions/0048-archive.md`).
//!
//! The objects of a log are in a folder with its name and the hash of its first key:
//!
//! | object | content |
//! |---|---|
//! | `tile/<L>/<N>` | a full tile, as C2SP `tlog-tiles` names it |
//! | `bodies/<N>` | the bodies of 256 events, in the order of their hashes in tile `0/<N>`: each as its length (4 bytes, big-endian) and its RFC 8785 bytes |
//!
//! Objects never change.

mod client;
mod settings;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt as _, PutPayload};
use proofs::merkle::tile::{TileId, TilePath, WIDTH};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tokio::sync::Semaphore;
use tokio::time::timeout;

pub use self::settings::ArchiveSettings;

/// Time after a failure in which readers do not ask the store.
pub(crate) const PAUSE: Duration = Duration::from_secs(2);
/// Overhead of an entry of the cache in bytes.
const ENTRY_BYTES: usize = 128;
/// Bytes of one permit of [`Inner::room`].
const ROOM_BYTES: u64 = 1 << 20;
/// Bytes of the largest bundle that fits, 256 bodies with the longest one that is permitted by default.
const BUNDLE_BYTES: u64 = 64 << 20;
/// Bytes of the length in front of a body.
const LENGTH_BYTES: usize = 4;

/// An open archive. Clones share its cache.
#[derive(Clone)]
pub struct Archive(Arc<Inner>);

struct Inner {
    store: Arc<dyn ObjectStore>,
    /// The URL, which has no password.
    url: String,
    prefix: Path,
    keep: Duration,
    timeout: Duration,
    bundles: Cache<Path, Bytes, ByLength>,
    /// Bounds the memory of reads that are in progress: a permit for each MiB of the cache.
    room: Semaphore,
    /// Number of bundles that were read for readers.
    reads: AtomicU64,
    /// Number of operations that were begun.
    begun: AtomicU64,
    /// The failure of the last operation, if it failed.
    fault: Mutex<Option<Fault>>,
}

/// A failed operation.
struct Fault {
    reason: String,
    at: Instant,
    /// Whether a reader of a bundle could not use the store.
    is_of_reader: bool,
}

/// A failure of the archive.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The store refused an operation or cannot be reached.
    #[error("the archive {url} cannot be used")]
    Store {
        /// URL of the archive.
        url: String,
        /// The error of the store.
        source: Box<Error>,
    },
    /// The store did not answer in time.
    #[error("the archive {url} did not answer within {} ms", .within.as_millis())]
    Slow {
        /// URL of the archive.
        url: String,
        /// The setting `log.archive.timeout`.
        within: Duration,
    },
    /// An operation failed a moment ago.
    #[error("the archive {url} failed a moment ago, and is asked again soon")]
    Away {
        /// URL of the archive.
        url: String,
    },
    /// An object is absent.
    #[error("the archive {url} has no object {object}: is it the archive that this log was written to?")]
    Missing {
        /// URL of the archive.
        url: String,
        /// Name of the object.
        object: Path,
    },
    /// An object has other bytes than were written.
    #[error("the object {object} of the archive {url} has other bytes than the log wrote")]
    Changed {
        /// URL of the archive.
        url: String,
        /// Name of the object.
        object: Path,
    },
    /// Bodies are in an archive, but none is configured.
    #[error("the body of this event is in the archive of the log, and log.archive.url is not set")]
    Unset,
}

impl ArchiveError {
    /// Whether another read would fail, too.
    pub(crate) fn is_lasting(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::Changed { .. } | Self::Unset)
    }
}

/// Weighs a bundle by its size in memory.
#[derive(Debug, Clone)]
struct ByLength;

impl Weighter<Path, Bytes> for ByLength {
    fn weight(&self, name: &Path, bundle: &Bytes) -> u64 {
        (name.as_ref().len() + bundle.len() + ENTRY_BYTES) as u64
    }
}

impl fmt::Debug for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Archive").field(&self.0.url).finish()
    }
}

impl Archive {
    /// The archive of a configuration; `None` if it has none. Does not connect. Fails if the settings are invalid.
    pub fn open(settings: &ArchiveSettings) -> Result<Option<Self>, String> {
        let Some(url) = &settings.url else { return Ok(None) };
        let (store, prefix) = settings.store(url)?;
        let bundles = Cache::with_weighter(1_024, settings.cache_bytes, ByLength);
        let (keep, timeout) = (settings.keep, settings.timeout);
        let room = permits(settings.cache_bytes.max(BUNDLE_BYTES));
        let room = Semaphore::new(usize::try_from(room).unwrap_or(Semaphore::MAX_PERMITS));
        let (url, reads, begun, fault) = (url.clone(), AtomicU64::default(), AtomicU64::default(), Mutex::default());
        Ok(Some(Self(Arc::new(Inner { store, url, prefix, keep, timeout, bundles, room, reads, begun, fault }))))
    }

    /// How long a body stays in the database after its event was received.
    pub(crate) fn keep(&self) -> Duration {
        self.0.keep
    }

    /// Number of bundles that this process has read for readers.
    pub fn reads(&self) -> u64 {
        self.0.reads.load(Ordering::Relaxed)
    }

    /// Why the last operation failed, if it did.
    pub fn fault(&self) -> Option<String> {
        self.lock().as_ref().map(|fault| fault.reason.clone())
    }

    /// Number of operations that were begun.
    pub(crate) fn begun(&self) -> u64 {
        self.0.begun.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Fault>> {
        self.0.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name of a bundle in a folder of the archive.
    pub(crate) fn bundle(&self, folder: &str, number: u64) -> Path {
        // The path without the level.
        let path = TilePath { id: TileId { level: 0, index: number }, partial: None }.to_string();
        self.object(folder, &format!("bodies/{}", path.strip_prefix("0/").unwrap_or(&path)))
    }

    /// The name of a full tile in a folder of the archive.
    pub(crate) fn tile(&self, folder: &str, id: TileId) -> Path {
        self.object(folder, &format!("tile/{}", TilePath { id, partial: None }))
    }

    fn object(&self, folder: &str, name: &str) -> Path {
        self.0.prefix.parts().chain(Path::from(format!("{folder}/{name}")).parts()).collect()
    }

    /// The name of an object below the folder of the configuration.
    pub(crate) fn within_prefix(&self, object: &Path) -> Option<String> {
        let parts: Vec<String> = object.prefix_match(&self.0.prefix)?.map(|part| part.as_ref().to_owned()).collect();
        Some(parts.join("/"))
    }

    /// The bytes of an object; `None` if there is none.
    #[boxed]
    pub async fn read(&self, object: &Path) -> Result<Option<Bytes>, ArchiveError> {
        let found = self.within(async {
            match self.0.store.get(object).await {
                Ok(found) => Ok(Some(found)),
                Err(Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        });
        let Some(found) = found.await? else { return Ok(None) };
        // A larger bundle waits until it is the only one. Fails only when the semaphore is closed, which it never is.
        let _room = self.0.room.acquire_many(permits(found.meta.size.min(BUNDLE_BYTES))).await;
        self.within(found.bytes()).await.map(Some)
    }

    /// Whether there is an object.
    #[boxed]
    pub async fn has(&self, object: &Path) -> Result<bool, ArchiveError> {
        self.within(async {
            match self.0.store.head(object).await {
                Ok(_) => Ok(true),
                Err(Error::NotFound { .. }) => Ok(false),
                Err(error) => Err(error),
            }
        })
        .await
    }

    /// The bytes of a bundle, which are in memory if they were read lately. For a moment after a read that failed, readers do not wait for the store.
    #[boxed]
    pub async fn read_bundle(&self, bundle: &Path) -> Result<Bytes, ArchiveError> {
        let read = async {
            if self.lock().as_ref().is_some_and(|fault| fault.at.elapsed() < PAUSE && fault.is_of_reader) {
                return Err(ArchiveError::Away { url: self.0.url.clone() });
            }
            let bytes = self.read(bundle).await.inspect_err(|_| {
                self.lock().iter_mut().for_each(|fault| fault.is_of_reader = true);
            })?;
            self.0.reads.fetch_add(1, Ordering::Relaxed);
            bytes.ok_or_else(|| self.note(self.missing(bundle)))
        };
        self.0.bundles.get_or_insert_async(bundle, read).await
    }

    /// Writes an object and reads it again.
    #[boxed]
    pub async fn write(&self, object: &Path, content: &Bytes) -> Result<(), ArchiveError> {
        let payload = PutPayload::from(content.clone());
        self.within(async { self.0.store.put(object, payload).await.map(drop) }).await?;
        match self.read(object).await? {
            Some(found) if found == *content => Ok(()),
            Some(_) => Err(self.note(self.changed(object))),
            None => Err(self.note(self.missing(object))),
        }
    }

    /// The names and sizes of all objects in a folder.
    #[boxed]
    pub async fn list(&self, folder: &str) -> Result<Vec<(Path, u64)>, ArchiveError> {
        let prefix = self.object(folder, "");
        let listed = self.0.store.list(Some(&prefix)).map_ok(|object| (object.location, object.size));
        listed.try_collect().await.map_err(|error| self.failed(error))
    }

    pub(crate) fn missing(&self, object: &Path) -> ArchiveError {
        ArchiveError::Missing { url: self.0.url.clone(), object: object.clone() }
    }

    /// An object has other bytes; a later read asks the store again.
    pub(crate) fn changed(&self, object: &Path) -> ArchiveError {
        self.0.bundles.remove(object);
        ArchiveError::Changed { url: self.0.url.clone(), object: object.clone() }
    }

    fn failed(&self, error: Error) -> ArchiveError {
        self.note(ArchiveError::Store { url: self.0.url.clone(), source: Box::new(error) })
    }

    /// Remembers why an operation failed.
    pub(crate) fn note(&self, error: ArchiveError) -> ArchiveError {
        *self.lock() = Some(Fault { reason: domain::reasons(&error), at: Instant::now(), is_of_reader: false });
        error
    }

    async fn within<T>(&self, operation: impl Future<Output = Result<T, Error>>) -> Result<T, ArchiveError> {
        let within = self.0.timeout;
        self.0.begun.fetch_add(1, Ordering::Relaxed);
        match timeout(within, operation).await {
            Ok(Ok(done)) => {
                *self.lock() = None;
                Ok(done)
            }
            Ok(Err(error)) => Err(self.failed(error)),
            Err(_) => Err(self.note(ArchiveError::Slow { url: self.0.url.clone(), within })),
        }
    }
}

/// The permits for so many bytes.
fn permits(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(ROOM_BYTES)).unwrap_or(u32::MAX)
}

/// The bytes of a bundle.
pub(crate) fn bundled<'b>(bodies: impl Iterator<Item = &'b [u8]>) -> Result<Bytes, TooLong> {
    let mut bundle = Vec::new();
    for body in bodies {
        bundle.extend(u32::try_from(body.len()).map_err(|_| TooLong)?.to_be_bytes());
        bundle.extend(body);
    }
    Ok(bundle.into())
}

/// A body has more than 4 GiB.
#[derive(Debug)]
pub(crate) struct TooLong;

/// A body of a bundle, by its index; `None` if the bytes are not a bundle of [`WIDTH`] bodies.
pub(crate) fn body_in(bundle: &[u8], index: usize) -> Option<&[u8]> {
    let (mut rest, mut wanted) = (bundle, None);
    for place in 0..WIDTH {
        let (length, after) = rest.split_first_chunk::<LENGTH_BYTES>()?;
        let (body, after) = after.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
        if place == index {
            wanted = Some(body);
        }
        rest = after;
    }
    wanted.filter(|_| rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_found_in_a_whole_bundle_only() {
        let bodies: Vec<Vec<u8>> = (0..WIDTH).map(|number| vec![b'x'; number % 7]).collect();
        let bundle = bundled(bodies.iter().map(Vec::as_slice)).unwrap();
        for (index, body) in bodies.iter().enumerate() {
            assert_eq!(body_in(&bundle, index), Some(&body[..]));
        }
        assert_eq!(body_in(&bundle, WIDTH), None);
        assert_eq!(body_in(&bundle[..bundle.len() - 1], 0), None);
        assert_eq!(body_in(&[&bundle[..], b"x"].concat(), 0), None);
        assert_eq!(body_in(&bundle[1..], 0), None);
    }
}
