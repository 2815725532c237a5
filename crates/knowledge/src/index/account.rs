//! The vector index of one account, as of a certain commit.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use domain::ids::{MemoryId, SpaceId};
use domain::memory::ModelId;
use store::Corrupt;
use store::chunk::follow::{Changes, Followed};
use store::chunk::vector::unpacked;
use store::chunk::{ChunkId, ChunkLimits};

use super::Settings;
use super::flat::Flat;
use super::rows::Neighbour;

/// The vectors of an account by one model.
#[derive(Debug)]
pub struct AccountIndex {
    model: ModelId,
    /// Number of the last applied change.
    upto: i64,
    vectors: Flat,
    /// Chunk and memory of each row of `vectors`.
    rows: Vec<(ChunkId, MemoryId)>,
    memories: HashMap<MemoryId, Entry>,
    spaces: HashMap<SpaceId, HashSet<MemoryId>>,
}

#[derive(Debug, Default)]
struct Entry {
    rows: Vec<u32>,
    spaces: Vec<SpaceId>,
}

impl AccountIndex {
    /// An empty index.
    pub fn new(model: &ModelId) -> Self {
        Self {
            model: model.clone(),
            upto: 0,
            vectors: Flat::new(usize::from(model.dimensions)),
            rows: Vec::new(),
            memories: HashMap::new(),
            spaces: HashMap::new(),
        }
    }

    /// The model of the vectors.
    pub fn model(&self) -> &ModelId {
        &self.model
    }

    /// Number of the last applied change.
    pub fn upto(&self) -> i64 {
        self.upto
    }

    /// Number of vectors.
    pub fn vectors(&self) -> usize {
        self.rows.len()
    }

    /// Approximate size in memory, in bytes.
    pub fn bytes(&self) -> usize {
        const PER_MEMORY: usize = 160;
        self.vectors.bytes()
            + self.rows.capacity() * size_of::<(ChunkId, MemoryId)>()
            + self.memories.len() * PER_MEMORY
    }

    /// Applies changes from the store.
    pub fn apply(&mut self, changes: &Changes) -> Result<(), Corrupt> {
        if changes.anew {
            *self = Self::new(&self.model);
        }
        for followed in &changes.memories {
            self.forget(followed.memory);
            self.take_in(followed)?;
        }
        self.upto = changes.upto;
        Ok(())
    }

    fn take_in(&mut self, followed: &Followed) -> Result<(), Corrupt> {
        let mut rows = Vec::with_capacity(followed.vectors.len());
        for (chunk, vector) in &followed.vectors {
            // An account has fewer than 2^32 chunks; a vector of another length cannot be compared.
            if let Ok(row) = u32::try_from(self.rows.len())
                && self.vectors.push(&unpacked(vector)?)
            {
                self.rows.push((*chunk, followed.memory));
                rows.push(row);
            }
        }
        if rows.is_empty() {
            return Ok(());
        }
        for space in &followed.spaces {
            self.spaces.entry(*space).or_default().insert(followed.memory);
        }
        self.memories.insert(followed.memory, Entry { rows, spaces: followed.spaces.clone() });
        Ok(())
    }

    fn forget(&mut self, memory: MemoryId) {
        let Some(mut entry) = self.memories.remove(&memory) else { return };
        for space in entry.spaces {
            if let Some(memories) = self.spaces.get_mut(&space) {
                memories.remove(&memory);
                if memories.is_empty() {
                    self.spaces.remove(&space);
                }
            }
        }
        // In descending order, so that the row that moves into a gap is never one to be removed.
        entry.rows.sort_unstable();
        for row in entry.rows.into_iter().rev() {
            let at = row as usize;
            self.vectors.swap_remove(at);
            self.rows.swap_remove(at);
            let moved = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
            if let Some((_, owner)) = self.rows.get(at)
                && let Some(owner) = self.memories.get_mut(owner)
                && let Some(place) = owner.rows.iter_mut().find(|place| **place == moved)
            {
                *place = row;
            }
        }
    }

    /// The chunks nearest to a query, with their approximate cosine, nearest first; in `spaces`, or in all spaces.
    pub fn nearest(
        &self,
        query: &[f32],
        wanted: ChunkLimits,
        spaces: Option<&[SpaceId]>,
        settings: &Settings,
    ) -> Vec<(ChunkId, f32)> {
        let near = |count: usize, rows: Option<&[u32]>| {
            let all = rows.map_or(self.vectors(), <[u32]>::len);
            let threads = (all / settings.rows_of_thread.max(1)).clamp(1, settings.threads_max.max(1));
            self.vectors.nearest(query, count, rows, threads, settings.exact_max)
        };
        let hits = match wanted.each_max {
            None => near(wanted.chunks_max, spaces.map(|spaces| self.rows_in(spaces)).as_deref()),
            Some(each_max) => self.spread(spaces, (wanted.chunks_max, each_max), near),
        };
        hits.into_iter()
            .filter_map(|near| self.rows.get(near.row as usize).map(|(chunk, _)| (*chunk, near.cosine)))
            .collect()
    }

    /// The nearest chunks, with a limit per memory. The few memories with more chunks than the limit are searched one
    /// by one.
    fn spread(
        &self,
        spaces: Option<&[SpaceId]>,
        (count, each_max): (usize, usize),
        near: impl Fn(usize, Option<&[u32]>) -> Vec<Neighbour>,
    ) -> Vec<Neighbour> {
        let mut memories: Vec<&MemoryId> = match spaces {
            None => self.memories.keys().collect(),
            Some(spaces) => spaces.iter().filter_map(|space| self.spaces.get(space)).flatten().collect(),
        };
        memories.sort_unstable();
        memories.dedup();
        let entries = memories.into_iter().filter_map(|memory| self.memories.get(memory));
        let (long, short): (Vec<&Entry>, Vec<&Entry>) = entries.partition(|entry| entry.rows.len() > each_max);
        let short: Vec<u32> = short.into_iter().flat_map(|entry| entry.rows.iter().copied()).collect();
        let mut hits = near(count, Some(&short));
        hits.extend(long.into_iter().flat_map(|entry| near(each_max, Some(&entry.rows))));
        hits.sort_unstable_by_key(|near| Reverse(*near));
        hits.truncate(count);
        hits
    }

    /// Rows of all memories in these spaces, without duplicates.
    fn rows_in(&self, spaces: &[SpaceId]) -> Vec<u32> {
        let memories = spaces.iter().filter_map(|space| self.spaces.get(space)).flatten();
        let entries = memories.filter_map(|memory| self.memories.get(memory));
        let mut rows: Vec<u32> = entries.flat_map(|entry| entry.rows.iter().copied()).collect();
        rows.sort_unstable();
        rows.dedup();
        rows
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use domain::Rng;
    use proptest::prelude::*;
    use store::chunk::vector::packed;

    use super::*;

    proptest! {
        /// After any sequence of changes, the index reflects the last change of each memory.
        #[test]
        fn the_index_holds_the_latest_version_of_each_memory(
            steps in proptest::collection::vec((0_usize..12, 0_usize..5, 0_usize..3), 1..80)
        ) {
            let rng = Rng::seeded(3);
            let at = domain::Timestamp::UNIX_EPOCH;
            let memories: Vec<MemoryId> = (0..12).map(|_| rng.uuid_v7(at).into()).collect();
            let spaces: Vec<SpaceId> = (0..2).map(|_| rng.uuid_v7(at).into()).collect();
            let mut index = AccountIndex::new(&ModelId { name: "m".into(), dimensions: 32 });
            let mut truth: BTreeMap<MemoryId, (Vec<ChunkId>, Vec<SpaceId>)> = BTreeMap::new();
            let mut chunk = 0;
            for (step, (memory, chunks, linked)) in (1..).zip(steps) {
                let chunks: Vec<ChunkId> = (0..chunks).map(|_| { chunk += 1; chunk }).collect();
                let vectors = chunks.iter().map(|chunk| (*chunk, packed(&vector(*chunk)))).collect();
                let followed = Followed { memory: memories[memory], spaces: spaces[..linked].to_vec(), vectors };
                index.apply(&Changes { upto: step, anew: false, memories: vec![followed] }).unwrap();
                truth.insert(memories[memory], (chunks, spaces[..linked].to_vec()));
                prop_assert_eq!(index.upto(), step);
            }
            let divided = Settings { rows_of_thread: 8, threads_max: 3, ..Settings::default() };
            let names = |hits: Vec<(ChunkId, f32)>| hits.into_iter().map(|(chunk, _)| chunk).collect::<Vec<_>>();
            let sorted = |mut chunks: Vec<ChunkId>| { chunks.sort_unstable(); chunks };
            let all = sorted(truth.values().flat_map(|(chunks, _)| chunks.clone()).collect());
            prop_assert_eq!(index.vectors(), all.len());
            prop_assert_eq!(sorted(names(index.nearest(&vector(1), ChunkLimits::any(1_000), None, &divided))), all.clone());
            for chunk in &all {
                prop_assert_eq!(names(index.nearest(&vector(*chunk), ChunkLimits::any(1), None, &Settings::default())), vec![*chunk]);
            }
            for each_max in 1..4 {
                let of_each = ChunkLimits { chunks_max: 1_000, each_max: Some(each_max) };
                let hits = names(index.nearest(&vector(1), of_each, None, &divided));
                // Compares with the order of an exhaustive search.
                let order = names(index.nearest(&vector(1), ChunkLimits::any(1_000), None, &divided));
                let first = |chunks: &[ChunkId]| {
                    let of_it = order.iter().copied().filter(|chunk| chunks.contains(chunk));
                    of_it.take(each_max).collect::<Vec<_>>()
                };
                let expected = truth.values().flat_map(|(chunks, _)| first(chunks)).collect();
                prop_assert_eq!(sorted(hits.clone()), sorted(expected));
                prop_assert!(order.iter().filter(|chunk| hits.contains(chunk)).eq(&hits));
                let few = ChunkLimits { chunks_max: 3, ..of_each };
                prop_assert_eq!(&names(index.nearest(&vector(1), few, None, &divided)), &hits[..hits.len().min(3)]);
            }
            for space in &spaces {
                let inside = truth.values().filter(|(_, linked)| linked.contains(space));
                let inside = sorted(inside.flat_map(|(chunks, _)| chunks.clone()).collect());
                prop_assert_eq!(sorted(names(index.nearest(&vector(1), ChunkLimits::any(1_000), Some(&[*space]), &divided))), inside);
            }
        }
    }

    /// A vector that is orthogonal to all others.
    fn vector(chunk: ChunkId) -> Vec<f32> {
        let bytes = domain::Digest::of(&chunk.to_be_bytes());
        bytes.as_bytes().iter().map(|byte| (f32::from(*byte) - 127.5) / 500.0).collect()
    }
}
