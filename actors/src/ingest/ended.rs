//! Journals of ended batches. An ended batch never changes, so concurrent and successive readers share its journal. The existence and
//! the owner of the batch are read from the store every time.

use std::future::Future;

use domain::batch::Journal;
use domain::ids::BatchId;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tokio::sync::watch;

use super::batch::JournalReceiver;

/// Initial estimate of the size of a journal.
const JOURNAL_BYTES: u64 = 64 * 1024;

/// The most recently used journals.
#[derive(Debug)]
pub(super) struct Ended(Cache<BatchId, JournalReceiver, Bytes>);

/// Weighs journals by their bytes in memory.
#[derive(Debug, Clone)]
struct Bytes;

impl Ended {
    /// A cache of at most about this many bytes.
    pub(super) fn new(bytes_max: u64) -> Self {
        let journals = usize::try_from(bytes_max / JOURNAL_BYTES).unwrap_or(usize::MAX);
        Self(Cache::with_weighter(journals, bytes_max, Bytes))
    }

    /// The journal of an ended batch: the cached one, or the result of `read`. Concurrent callers wait for the same read.
    pub(super) async fn journal<E>(
        &self,
        id: BatchId,
        read: impl Future<Output = Result<Journal, E>>,
    ) -> Result<JournalReceiver, E> {
        self.0.get_or_insert_async(&id, async { Ok(watch::channel(read.await?).1) }).await
    }
}

impl Weighter<BatchId, JournalReceiver> for Bytes {
    fn weight(&self, _: &BatchId, journal: &JournalReceiver) -> u64 {
        journal.borrow().bytes() as u64
    }
}
