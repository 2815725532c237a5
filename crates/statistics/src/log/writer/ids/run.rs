//! Writes a run of ids.

use domain::Rng;
use fastbloom::BloomFilter;
use rusqlite::{Connection, params};

use super::entry::{CHUNK_ENTRIES, ENTRY_BYTES, Key};
use crate::log::error::{DuringSqlite as _, LogError};

/// False positive rate of the filters: the fraction of new ids that a filter does not exclude.
const FALSE_POSITIVES: f64 = 0.01;

const ASK: &str = "write a run of ids";
const BEGIN: &str = "INSERT INTO id_runs (batch, level, state, entries, first_id, last_id)
    VALUES (?1, ?2, 'building', 0, zeroblob(16), zeroblob(16))";
const CHUNK: &str = "INSERT INTO id_chunks (entries) VALUES (?1)";
const FENCE: &str = "INSERT INTO id_fences (run, first_id, chunk) VALUES (?1, ?2, ?3)";
const FILTER: &str = "INSERT INTO id_filters (run, seed, hashes, bits) VALUES (?1, ?2, ?3, ?4)";
const END: &str = "UPDATE id_runs SET entries = ?2, first_id = ?3, last_id = ?4 WHERE run = ?1 AND state = 'building'";
const WHOLE: &str = "UPDATE id_runs SET state = 'whole' WHERE batch = ?1 AND state = 'building'";
const BATCH: &str = "SELECT COALESCE(MAX(batch), 0) + 1 FROM id_runs";

/// A run that is being written, possibly in several transactions. Its entries arrive in ascending order.
pub struct RunWriter {
    run: i64,
    batch: i64,
    chunk: Vec<u8>,
    first: Option<Key>,
    last: Key,
    entries: u64,
    seed: u128,
    filter: BloomFilter,
}

impl RunWriter {
    /// Allocates the number of a new batch.
    pub fn new_batch(db: &Connection) -> Result<i64, LogError> {
        db.prepare_cached(BATCH).during(ASK)?.query_row([], |row| row.get(0)).during(ASK)
    }

    /// Starts a run; `entries` determines the size of its filter.
    pub fn begin(db: &Connection, batch: i64, level: i64, entries: usize, rng: &Rng) -> Result<Self, LogError> {
        db.prepare_cached(BEGIN).during(ASK)?.execute((batch, level)).during(ASK)?;
        // The seed is secret, so that clients cannot choose ids that pass the filter.
        let seed = u128::from_le_bytes(rng.bytes());
        Ok(Self {
            run: db.last_insert_rowid(),
            batch,
            chunk: Vec::with_capacity(CHUNK_ENTRIES * ENTRY_BYTES),
            first: None,
            last: [0; 16],
            entries: 0,
            seed,
            filter: BloomFilter::with_false_pos(FALSE_POSITIVES).seed(&seed).expected_items(entries.max(1)),
        })
    }

    /// Number of the batch of the run.
    pub fn batch(&self) -> i64 {
        self.batch
    }

    /// Number of entries so far.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Appends an entry, whose id must be greater than the last.
    pub fn push(&mut self, db: &Connection, key: &Key, number: i64) -> Result<(), LogError> {
        self.filter.insert(&key[..]);
        self.chunk.extend_from_slice(key);
        self.chunk.extend_from_slice(&number.to_be_bytes());
        self.first.get_or_insert(*key);
        self.last = *key;
        self.entries += 1;
        if self.chunk.len() == CHUNK_ENTRIES * ENTRY_BYTES { self.write_chunk(db) } else { Ok(()) }
    }

    fn write_chunk(&mut self, db: &Connection) -> Result<(), LogError> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        db.prepare_cached(CHUNK).during(ASK)?.execute([&self.chunk[..]]).during(ASK)?;
        let chunk = db.last_insert_rowid();
        db.prepare_cached(FENCE).during(ASK)?.execute((self.run, &self.chunk[..16], chunk)).during(ASK)?;
        self.chunk.clear();
        Ok(())
    }

    /// Writes the last chunk and the filter. Searches do not read the run before [`publish`].
    pub fn end(mut self, db: &Connection) -> Result<(), LogError> {
        self.write_chunk(db)?;
        let bits: Vec<u8> = self.filter.as_slice().iter().flat_map(|word| word.to_le_bytes()).collect();
        let seed = self.seed.to_le_bytes();
        db.prepare_cached(FILTER).during(ASK)?.execute((self.run, seed, self.filter.num_hashes(), bits)).during(ASK)?;
        let entries = i64::try_from(self.entries).unwrap_or(i64::MAX);
        let first = self.first.unwrap_or_default();
        db.prepare_cached(END).during(ASK)?.execute(params![self.run, entries, first, self.last]).during(ASK)?;
        Ok(())
    }
}

/// Includes the runs of a batch in searches; `false` if another process has dropped them as unfinished.
pub fn publish(db: &Connection, batch: i64) -> Result<bool, LogError> {
    Ok(db.prepare_cached(WHOLE).during(ASK)?.execute([batch]).during(ASK)? > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stored filters require that every version of the library hashes and sets bits in the same way.
    #[test]
    fn a_filter_has_the_bits_that_it_always_had() {
        let mut filter = BloomFilter::with_false_pos(FALSE_POSITIVES).seed(&7).expected_items(20);
        for byte in 0..20_u8 {
            filter.insert(&[byte; 16][..]);
        }
        let bits: Vec<u64> = filter.as_slice().to_vec();
        let expected = [10_339_837_715_471_393_949, 2_501_277_803_519_608_424, 5_672_994_783_403_725_299];
        assert_eq!((filter.num_hashes(), &bits[..]), (7, &expected[..]));
        let again = BloomFilter::from_vec(bits).seed(&7).hashes(filter.num_hashes());
        assert!((0..20_u8).all(|byte| again.contains(&[byte; 16][..])));
    }
}
