//! Event ids, stored in sorted runs.
//!
//! A unique index would write a random page for each id that does not grow with the clock, within the transaction of the event. Instead,
//! the ids of the newest events are in memory ([`UnindexedEvents`](super::super::recent::UnindexedEvents)), and all others in runs: sorted
//! entries of an id and a number, in chunks of [`CHUNK_ENTRIES`](entry::CHUNK_ENTRIES). An indexing pass writes a run of level 0. Sixteen
//! batches of a level are merged into one of the next, in slices, so an entry is written once per level, together with its neighbours. A
//! lookup checks the range and the Bloom filter of a run before it reads a chunk, so a lookup of a new id reads about one chunk per hundred
//! runs.

mod entry;
mod merge;
mod run;

use domain::Rng;
use domain::ids::EventId;
use fastbloom::BloomFilter;
use rusqlite::{Connection, OptionalExtension as _};

pub use self::entry::{ENTRY_BYTES, Key, number_in};
use self::entry::{Run, Shape};
use self::merge::Merge;
pub use self::run::RunWriter;
use super::transaction::begin;
use crate::log::error::{DuringSqlite as _, LogError};

const SHAPE: Shape =
    Shape { fan: 16, slice_entries: 8_192, slice_chunks: 256, run_entries_max: 524_288, level_entries: 262_144 };

const RUNS: &str =
    "SELECT run, batch, level, first_id, last_id, entries FROM id_runs WHERE state = 'whole' ORDER BY run DESC";
const FILTER: &str = "SELECT seed, hashes, bits FROM id_filters WHERE run = ?1";
const CHUNK: &str = "SELECT entries FROM id_chunks WHERE chunk =
    (SELECT chunk FROM id_fences WHERE run = ?1 AND first_id <= ?2 ORDER BY first_id DESC LIMIT 1)";
const UNFINISHED: &str = "UPDATE id_runs SET state = 'spent' WHERE state = 'building'";
const SPENT: &str = "SELECT run FROM id_runs WHERE state = 'spent' ORDER BY run LIMIT 1";

/// The finished runs that one connection has read.
pub struct Ids {
    /// Runs of ids, the newest first.
    runs: Vec<Run>,
    /// The lowest level with enough batches for a merge.
    crowded: Option<i64>,
    merge: Option<Merge>,
    /// Whether there are runs to delete.
    has_spent: bool,
    /// Maximum memory of filters in bytes. Runs without a filter in memory are always read.
    filters_bytes_max: u64,
    rng: Rng,
    shape: Shape,
}

impl Ids {
    /// Reads the list of runs. Runs that an earlier connection did not finish are marked for deletion.
    pub fn load(db: &mut Connection, filters_bytes_max: u64, rng: &Rng) -> Result<Self, LogError> {
        Self::load_with(db, filters_bytes_max, rng, SHAPE)
    }

    fn load_with(db: &mut Connection, filters_bytes_max: u64, rng: &Rng, shape: Shape) -> Result<Self, LogError> {
        const ASK: &str = "tidy the runs of ids";
        let transaction = begin(db)?;
        let spent = transaction.prepare_cached(UNFINISHED).during(ASK)?.execute([]).during(ASK)?;
        let mut ids = Self {
            runs: Vec::new(),
            crowded: None,
            merge: None,
            has_spent: spent > 0 || transaction.prepare_cached(SPENT).during(ASK)?.exists([]).during(ASK)?,
            filters_bytes_max,
            rng: rng.clone(),
            shape,
        };
        ids.reload(&transaction)?;
        transaction.commit().during(ASK)?;
        Ok(ids)
    }

    /// Drops the unfinished runs of this process.
    pub fn drop_unfinished(&mut self, db: &Connection) -> Result<(), LogError> {
        const ASK: &str = "drop unfinished runs of ids";
        self.merge = None;
        self.has_spent |= db.prepare_cached(UNFINISHED).during(ASK)?.execute([]).during(ASK)? > 0;
        self.reload(db)
    }

    /// Reads the list of runs again, after another process has written some.
    pub fn reload(&mut self, db: &Connection) -> Result<(), LogError> {
        const ASK: &str = "read the runs of ids";
        let mut previous_runs = std::mem::take(&mut self.runs);
        let mut statement = db.prepare_cached(RUNS).during(ASK)?;
        let mut rows = statement.query([]).during(ASK)?;
        let mut filters_bytes = 0;
        while let Some(row) = rows.next().during(ASK)? {
            let run: i64 = row.get(0).during(ASK)?;
            let at = previous_runs.iter().position(|previous| previous.id == run);
            let mut next_run = match at {
                Some(at) => previous_runs.swap_remove(at),
                None => Run {
                    id: run,
                    batch: row.get(1).during(ASK)?,
                    level: row.get(2).during(ASK)?,
                    first: row.get(3).during(ASK)?,
                    last: row.get(4).during(ASK)?,
                    entries: row.get::<_, i64>(5).during(ASK)?.unsigned_abs(),
                    filter: None,
                },
            };
            if next_run.filter.is_none() && filters_bytes < self.filters_bytes_max {
                next_run.filter = filter(db, run)?;
            }
            filters_bytes += next_run.filter.as_ref().map_or(0, |filter| filter.num_bits() as u64 / 8);
            self.runs.push(next_run);
        }
        self.crowded = self.crowded_level();
        Ok(())
    }

    /// The number of an indexed event, by its id.
    pub fn find(&self, db: &Connection, id: EventId) -> Result<Option<i64>, LogError> {
        const ASK: &str = "look for an id";
        let id = id.as_uuid();
        let key = id.as_bytes();
        for run in &self.runs {
            let may_have = run.first <= *key
                && *key <= run.last
                && run.filter.as_ref().is_none_or(|filter| filter.contains(&key[..]));
            if !may_have {
                continue;
            }
            let mut chunk = db.prepare_cached(CHUNK).during(ASK)?;
            let number = chunk
                .query_row((run.id, key), |row| Ok(number_in(row.get_ref(0)?.as_blob()?, key)))
                .optional()
                .during(ASK)?
                .flatten();
            if number.is_some() {
                return Ok(number);
            }
        }
        Ok(None)
    }

    /// Starts a run of level 0 in a new batch; `entries` determines the size of its filter.
    pub fn new_run(&self, db: &Connection, entries: usize) -> Result<RunWriter, LogError> {
        RunWriter::begin(db, RunWriter::new_batch(db)?, 0, entries, &self.rng)
    }

    /// Finishes the only run of a batch and includes it in searches; `false` if another process has dropped it as unfinished.
    pub fn publish(&mut self, db: &Connection, run: RunWriter) -> Result<bool, LogError> {
        let batch = run.batch();
        run.end(db)?;
        let is_whole = run::publish(db, batch)?;
        self.reload(db)?;
        Ok(is_whole)
    }

    /// Whether there is a merge or a deletion to do.
    pub fn has_work(&self) -> bool {
        self.has_spent || self.merge.is_some() || self.crowded.is_some()
    }

    /// One slice of a merge or deletion, in the transaction of the caller.
    pub fn work(&mut self, db: &Connection) -> Result<(), LogError> {
        if self.has_spent {
            self.has_spent = delete_some(db, self.shape.slice_chunks)?;
            return Ok(());
        }
        if self.merge.is_none()
            && let Some(level) = self.crowded
        {
            self.merge = Some(Merge::begin(
                db,
                level,
                self.runs.iter().filter(|run| run.level == level),
                &self.rng,
                self.shape,
            )?);
        }
        let Some(merge) = &mut self.merge else { return Ok(()) };
        if !merge.advance(db)? {
            return Ok(());
        }
        self.merge = None;
        self.has_spent = true;
        self.reload(db)
    }

    /// The lowest level with enough batches for a merge.
    fn crowded_level(&self) -> Option<i64> {
        let mut batches: Vec<(i64, i64)> = self.runs.iter().map(|run| (run.level, run.batch)).collect();
        batches.sort_unstable();
        batches.dedup();
        batches
            .chunk_by(|one, other| one.0 == other.0)
            .find(|of_level| of_level.len() >= self.shape.fan)
            .map(|of_level| of_level[0].0)
    }
}

/// Reads the Bloom filter of a run.
fn filter(db: &Connection, run: i64) -> Result<Option<BloomFilter>, LogError> {
    const ASK: &str = "read the filter of a run of ids";
    let result = db.prepare_cached(FILTER).during(ASK)?.query_row([run], |row| {
        let seed = u128::from_le_bytes(row.get(0)?);
        let hashes: u32 = row.get(1)?;
        let bits = row.get_ref(2)?.as_blob()?.chunks_exact(8);
        let bits = bits.map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default())).collect();
        Ok(BloomFilter::from_vec(bits).seed(&seed).hashes(hashes))
    });
    result.optional().during(ASK)
}

/// Deletes some chunks of a merged run, and the run with its last chunk; `false` if there is no such run.
fn delete_some(db: &Connection, chunks_max: i64) -> Result<bool, LogError> {
    const ASK: &str = "delete a merged run of ids";
    const CHUNKS: &str =
        "DELETE FROM id_chunks WHERE chunk IN (SELECT chunk FROM id_fences WHERE run = ?1 ORDER BY first_id LIMIT ?2)";
    const FENCES: &str = "DELETE FROM id_fences WHERE run = ?1
        AND first_id IN (SELECT first_id FROM id_fences WHERE run = ?1 ORDER BY first_id LIMIT ?2)";
    let run: Option<i64> =
        db.prepare_cached(SPENT).during(ASK)?.query_row([], |row| row.get(0)).optional().during(ASK)?;
    let Some(run) = run else { return Ok(false) };
    let execute =
        |sql, parameters: &[&dyn rusqlite::ToSql]| db.prepare_cached(sql).during(ASK)?.execute(parameters).during(ASK);
    execute(CHUNKS, &[&run, &chunks_max])?;
    if execute(FENCES, &[&run, &chunks_max])? == 0 {
        execute("DELETE FROM id_filters WHERE run = ?1", &[&run])?;
        execute("DELETE FROM id_runs WHERE run = ?1", &[&run])?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use domain::Timestamp;
    use uuid::Uuid;

    use super::*;

    const TABLES: &str = include_str!("../../../../../migrations/statistics/sqlite/0001_log.sql");

    /// Small enough for several levels and several runs in a batch.
    const SMALL: Shape = Shape { fan: 3, slice_entries: 50, slice_chunks: 2, run_entries_max: 400, level_entries: 500 };

    fn open() -> (Connection, Ids) {
        let mut db = Connection::open_in_memory().unwrap();
        db.execute_batch(TABLES).unwrap();
        let ids = load(&mut db, u64::MAX, SMALL);
        (db, ids)
    }

    fn load(db: &mut Connection, filters_bytes_max: u64, shape: Shape) -> Ids {
        Ids::load_with(db, filters_bytes_max, &Rng::seeded(1), shape).unwrap()
    }

    fn add(db: &Connection, ids: &mut Ids, mut entries: Vec<(Key, i64)>) {
        entries.sort_unstable();
        let mut run = ids.new_run(db, entries.len()).unwrap();
        for (key, number) in &entries {
            run.push(db, key, *number).unwrap();
        }
        assert!(ids.publish(db, run).unwrap());
    }

    /// Enough batches for a merge.
    fn three_batches(db: &Connection, ids: &mut Ids) -> Vec<(Key, i64)> {
        let rng = Rng::seeded(3);
        let all: Vec<_> = (0..900).map(|number| drawn(&rng, number)).collect();
        for entries in all.chunks(300) {
            add(db, ids, entries.to_vec());
        }
        all
    }

    fn count(db: &Connection, sql: &str) -> i64 {
        db.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    fn drawn(rng: &Rng, number: i64) -> (Key, i64) {
        (*rng.uuid_v7(Timestamp::from_timestamp_millis(rng.below(1 << 40).cast_signed()).unwrap()).as_bytes(), number)
    }

    #[test]
    fn every_id_is_found_at_each_step_of_every_merge_and_no_other_is() {
        let (db, mut ids) = open();
        let rng = Rng::seeded(3);
        let mut expected = BTreeMap::new();
        for batch in 0..40_i64 {
            let entries: Vec<_> = (0..200).map(|number| drawn(&rng, batch * 200 + number)).collect();
            expected.extend(entries.iter().copied());
            add(&db, &mut ids, entries);
            let mut steps = 0;
            while ids.has_work() {
                ids.work(&db).unwrap();
                let sample = expected.iter().skip(steps % 97).step_by(97);
                for (key, number) in sample {
                    let id = Uuid::from_bytes(*key).into();
                    assert_eq!(ids.find(&db, id).unwrap(), Some(*number), "batch {batch}, step {steps}");
                }
                assert_eq!(ids.find(&db, rng.uuid_v7(Timestamp::UNIX_EPOCH).into()).unwrap(), None);
                steps += 1;
            }
        }
        for (key, number) in &expected {
            assert_eq!(ids.find(&db, Uuid::from_bytes(*key).into()).unwrap(), Some(*number));
        }
        let levels = count(&db, "SELECT MAX(level) FROM id_runs");
        let runs = count(&db, "SELECT MAX(runs) FROM (SELECT COUNT(*) AS runs FROM id_runs GROUP BY batch)");
        assert!(levels >= 2 && runs >= 2, "{levels} levels, at most {runs} runs in a batch");
        // All chunks of merged runs are deleted, and every entry exists once.
        assert_eq!(count(&db, "SELECT COUNT(*) FROM id_runs WHERE state <> 'whole'"), 0);
        assert_eq!(count(&db, "SELECT COUNT(*) FROM id_chunks"), count(&db, "SELECT COUNT(*) FROM id_fences"));
        assert_eq!(count(&db, "SELECT SUM(entries) FROM id_runs"), 8_000);
        assert_eq!(count(&db, "SELECT SUM(length(entries)) FROM id_chunks"), 8_000 * 24);
        assert_eq!(count(&db, "SELECT COUNT(*) FROM id_filters"), count(&db, "SELECT COUNT(*) FROM id_runs"));
    }

    #[test]
    fn a_merge_that_was_interrupted_leaves_its_inputs_and_nothing_else() {
        let (mut db, mut ids) = open();
        let entries = three_batches(&db, &mut ids);
        for _ in 0..3 {
            ids.work(&db).unwrap();
        }
        assert_eq!(count(&db, "SELECT COUNT(*) FROM id_runs WHERE state = 'building'"), 1);
        drop(ids);
        // Without filters: every run is read.
        let mut ids = load(&mut db, 0, Shape { fan: 4, ..SMALL });
        for (key, number) in &entries {
            assert_eq!(ids.find(&db, Uuid::from_bytes(*key).into()).unwrap(), Some(*number));
        }
        while ids.has_work() {
            ids.work(&db).unwrap();
        }
        assert_eq!(count(&db, "SELECT COUNT(*) FROM id_runs"), 3);
        assert_eq!(count(&db, "SELECT SUM(length(entries)) FROM id_chunks"), 900 * 24);
    }

    #[test]
    fn another_process_may_drop_a_merge() {
        let (mut db, mut ids) = open();
        let entries = three_batches(&db, &mut ids);
        ids.work(&db).unwrap();
        let mut other = load(&mut db, u64::MAX, SMALL);
        for ids in [&mut ids, &mut other] {
            while ids.has_work() {
                ids.work(&db).unwrap();
            }
            ids.reload(&db).unwrap();
            for (key, number) in &entries {
                assert_eq!(ids.find(&db, Uuid::from_bytes(*key).into()).unwrap(), Some(*number));
            }
        }
        assert_eq!(count(&db, "SELECT SUM(entries) FROM id_runs WHERE state = 'whole'"), 900);
    }

    #[test]
    fn a_filter_answers_nearly_all_questions_about_new_ids() {
        let (db, mut ids) = open();
        let rng = Rng::seeded(3);
        add(&db, &mut ids, (0..5_000).map(|number| drawn(&rng, number)).collect());
        let filter = ids.runs[0].filter.as_ref().unwrap();
        let passed = (0..10_000).filter(|number| filter.contains(&drawn(&rng, *number).0[..])).count();
        assert!(passed < 300, "{passed}");
    }
}
