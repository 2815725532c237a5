//! Journals of batches that have ended. One that has its end never changes, so those who ask for it at the same time, or soon after one
//! another, share it. Whether the batch is there, and whose it is, is asked of the store every time.

use std::future::Future;

use domain::batch::Journal;
use domain::ids::BatchId;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tokio::sync::watch;

use super::batch::JournalReceiver;

/// A guess at the size of a journal, for a start.
const JOURNAL_BYTES: u64 = 64 * 1024;

/// The journals that were asked for last.
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

    /// The journal of a batch that has ended: the one that is known, or what `read` finds. Others who ask meanwhile wait for it.
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
