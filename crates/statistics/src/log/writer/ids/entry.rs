//! Entries of ids, the runs that contain them, and their sizes.

use fastbloom::BloomFilter;

/// An event id as its 16 bytes, the sort key of runs.
pub type Key = [u8; 16];

/// Number of entries of a chunk: four chunks fill a page of 16 KiB, one a page of 4 KiB.
pub const CHUNK_ENTRIES: usize = 168;
/// Size of an entry in bytes: the id, and the number as a big-endian integer.
pub const ENTRY_BYTES: usize = 24;

/// Sizes of runs and of the work on them.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Number of batches of a level that are merged into one of the next.
    pub fan: usize,
    /// Number of entries that one transaction merges.
    pub slice_entries: usize,
    /// Number of chunks that one transaction deletes.
    pub slice_chunks: i64,
    /// Maximum number of entries of a run; a larger batch consists of several runs, which limits the size of filters.
    pub run_entries_max: u64,
    /// Minimum number of entries for a merged batch of level 0 to get level 1. Each further level needs `fan` times as many: batches of an
    /// idle log are small, and are merged into a batch of the same level.
    pub level_entries: u64,
}

/// A finished run.
pub struct Run {
    pub id: i64,
    pub batch: i64,
    pub level: i64,
    pub first: Key,
    pub last: Key,
    pub entries: u64,
    /// The Bloom filter; `None` beyond the memory limit.
    pub filter: Option<BloomFilter>,
}

/// The number of an id in a sorted chunk.
pub fn number_in(entries: &[u8], key: &Key) -> Option<i64> {
    let (entries, _) = entries.as_chunks::<ENTRY_BYTES>();
    let at = entries.binary_search_by(|entry| entry[..16].cmp(key)).ok()?;
    Some(entry(&entries[at]).1)
}

/// The id and the number of an entry.
pub fn entry(bytes: &[u8; ENTRY_BYTES]) -> (Key, i64) {
    let (mut key, mut number) = ([0; 16], [0; 8]);
    key.copy_from_slice(&bytes[..16]);
    number.copy_from_slice(&bytes[16..]);
    (key, i64::from_be_bytes(number))
}
