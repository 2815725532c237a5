//! Merges the batches of a level into one batch of the next, in slices.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use domain::Rng;
use rusqlite::{Connection, OptionalExtension as _};

use super::entry::{ENTRY_BYTES, Key, Run, Shape, entry};
use super::run::{RunWriter, publish};
use crate::log::error::{DuringSqlite as _, LogError};

const NEXT: &str = "SELECT f.first_id, c.entries FROM id_fences f JOIN id_chunks c ON c.chunk = f.chunk
    WHERE f.run = ?1 AND f.first_id > ?2 ORDER BY f.first_id LIMIT 1";
const IS_BUILDING: &str = "SELECT 1 FROM id_runs WHERE batch = ?1 AND state = 'building'";
const SPEND: &str = "UPDATE id_runs SET state = 'spent' WHERE batch = ?1 AND state = 'whole'";

/// A merge in progress.
pub struct Merge {
    batch: i64,
    level: i64,
    /// Number of entries that are not written yet.
    left: u64,
    inputs: Vec<Input>,
    /// The next entry of each input, smallest first, with the number of the input.
    next: BinaryHeap<Reverse<(Key, i64, usize)>>,
    output: Option<RunWriter>,
    rng: Rng,
    shape: Shape,
}

/// A batch that is read in ascending order of ids.
struct Input {
    batch: i64,
    runs: VecDeque<i64>,
    /// The first id of the last chunk that was read.
    chunk: Option<Key>,
    entries: VecDeque<(Key, i64)>,
}

impl Merge {
    /// Starts a merge of `runs`, all runs of a level.
    pub fn begin<'r>(
        db: &Connection,
        level: i64,
        runs: impl Iterator<Item = &'r Run>,
        rng: &Rng,
        shape: Shape,
    ) -> Result<Self, LogError> {
        let mut batches = BTreeMap::<i64, Vec<&Run>>::new();
        let mut entries = 0;
        for run in runs {
            entries += run.entries;
            batches.entry(run.batch).or_default().push(run);
        }
        let inputs = batches.into_iter().map(|(batch, mut runs)| {
            runs.sort_unstable_by_key(|run| run.first);
            Input { batch, runs: runs.iter().map(|run| run.id).collect(), chunk: None, entries: VecDeque::new() }
        });
        let batch = RunWriter::new_batch(db)?;
        let of_next_level = (0..level).fold(shape.level_entries, |entries, _| entries.saturating_mul(shape.fan as u64));
        let mut merge = Self {
            batch,
            level: if entries >= of_next_level { level + 1 } else { level },
            left: entries,
            inputs: inputs.collect(),
            next: BinaryHeap::new(),
            output: None,
            rng: rng.clone(),
            shape,
        };
        merge.output = Some(merge.new_run(db)?);
        for number in 0..merge.inputs.len() {
            merge.refill(db, number)?;
        }
        Ok(merge)
    }

    /// Merges one slice; `true` when the inputs are replaced, or when another process has stopped the merge.
    pub fn advance(&mut self, db: &Connection) -> Result<bool, LogError> {
        const ASK: &str = "merge runs of ids";
        if !db.prepare_cached(IS_BUILDING).during(ASK)?.exists([self.batch]).during(ASK)? {
            return Ok(true);
        }
        for _ in 0..self.shape.slice_entries {
            let Some(Reverse((key, number, input))) = self.next.pop() else {
                if let Some(output) = self.output.take() {
                    output.end(db)?;
                }
                for input in &self.inputs {
                    db.prepare_cached(SPEND).during(ASK)?.execute([input.batch]).during(ASK)?;
                }
                publish(db, self.batch)?;
                return Ok(true);
            };
            self.refill(db, input)?;
            if self.output.as_ref().is_some_and(|output| output.entries() >= self.shape.run_entries_max)
                && let Some(full) = self.output.take()
            {
                full.end(db)?;
            }
            if self.output.is_none() {
                self.output = Some(self.new_run(db)?);
            }
            if let Some(output) = &mut self.output {
                output.push(db, &key, number)?;
                self.left = self.left.saturating_sub(1);
            }
        }
        Ok(false)
    }

    fn new_run(&self, db: &Connection) -> Result<RunWriter, LogError> {
        let entries = usize::try_from(self.left.min(self.shape.run_entries_max)).unwrap_or(usize::MAX);
        RunWriter::begin(db, self.batch, self.level, entries, &self.rng)
    }

    /// Adds the next entry of an input to the heap.
    fn refill(&mut self, db: &Connection, number: usize) -> Result<(), LogError> {
        if let Some((key, event)) = self.inputs[number].pop(db)? {
            self.next.push(Reverse((key, event, number)));
        }
        Ok(())
    }
}

impl Input {
    fn pop(&mut self, db: &Connection) -> Result<Option<(Key, i64)>, LogError> {
        const ASK: &str = "read a run of ids";
        while self.entries.is_empty() {
            let Some(run) = self.runs.front() else { return Ok(None) };
            // An empty blob sorts before every id.
            let after: &[u8] = self.chunk.as_ref().map_or(&[], |first| &first[..]);
            let chunk: Option<(Key, VecDeque<_>)> = db
                .prepare_cached(NEXT)
                .during(ASK)?
                .query_row((run, after), |row| {
                    let entries = row.get_ref(1)?.as_blob()?.as_chunks::<ENTRY_BYTES>().0.iter();
                    Ok((row.get(0)?, entries.map(entry).collect()))
                })
                .optional()
                .during(ASK)?;
            if let Some((first, entries)) = chunk {
                (self.chunk, self.entries) = (Some(first), entries);
            } else {
                (self.chunk, _) = (None, self.runs.pop_front());
            }
        }
        Ok(self.entries.pop_front())
    }
}
