//! Vectors in one piece of memory, searched from end to end.
//!
//! Each is kept in 8 bits a number with one scale: a cosine that is computed from them is off by less than 0.002, which finds the
//! same candidates; what is shown is computed from the stored vectors.
//!
//! Where that is too much to walk through, a sketch of each vector comes first: one bit a number, its sign. Sketches that differ
//! in few bits belong to vectors that point the same way, so the rows with the nearest sketches are few and hold nearly all of
//! the nearest vectors. Unlike a graph of neighbours, sketches cost nothing to build, to change and to take away.

use std::cmp::Reverse;

use pulp::Arch;

use super::scan::{Best, Picked, Sketched, VectorQuery, Whole};

/// Vectors of one length, in rows.
#[derive(Debug, Clone, Default)]
pub struct Flat {
    pub(super) dimensions: usize,
    pub(super) codes: Vec<i8>,
    pub(super) scales: Vec<f32>,
    pub(super) sketches: Vec<u64>,
    arch: Arch,
}

/// A row and how near it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Neighbour {
    /// The row.
    pub row: u32,
    /// About its cosine with the query.
    pub cosine: f32,
}

impl Eq for Neighbour {}

impl Ord for Neighbour {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.cosine.total_cmp(&other.cosine).then(other.row.cmp(&self.row))
    }
}

impl PartialOrd for Neighbour {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Flat {
    /// No rows yet, each of which will have so many numbers.
    pub fn new(dimensions: usize) -> Self {
        Self { dimensions, codes: Vec::new(), scales: Vec::new(), sketches: Vec::new(), arch: Arch::new() }
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.scales.len()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.codes.capacity() + self.scales.capacity() * size_of::<f32>() + self.sketches.capacity() * size_of::<u64>()
    }

    /// Adds a row at the end; `false` when it has another length.
    pub fn push(&mut self, vector: &[f32]) -> bool {
        if vector.len() != self.dimensions {
            return false;
        }
        let scale = quantised(vector, &mut self.codes);
        self.scales.push(scale);
        sketched(vector, &mut self.sketches);
        true
    }

    /// Takes a row away; the last row takes its place.
    pub fn swap_remove(&mut self, row: usize) {
        let (last, size) = (self.rows() - 1, self.dimensions);
        self.codes.copy_within(last * size..(last + 1) * size, row * size);
        self.codes.truncate(last * size);
        self.scales.swap_remove(row);
        let words = self.sketch_words();
        self.sketches.copy_within(last * words..(last + 1) * words, row * words);
        self.sketches.truncate(last * words);
    }

    /// Words of a sketch.
    pub(super) fn sketch_words(&self) -> usize {
        self.dimensions.div_ceil(64)
    }

    /// The `count` nearest rows, nearest first; among `rows`, or among all, by so many threads. Of more than `exact_max` rows,
    /// nearly all of the nearest.
    pub fn nearest(
        &self,
        query: &[f32],
        count: usize,
        rows: Option<&[u32]>,
        threads: usize,
        exact_max: usize,
    ) -> Vec<Neighbour> {
        if query.len() != self.dimensions || count == 0 || self.rows() == 0 {
            return Vec::new();
        }
        let (mut codes, mut sketch) = (Vec::with_capacity(self.dimensions), Vec::new());
        sketched(query, &mut sketch);
        let query = VectorQuery { scale: quantised(query, &mut codes), codes: &codes, sketch: &sketch, count };
        let all = rows.map_or(self.rows(), <[u32]>::len);
        let part = all.div_ceil(threads.max(1)).max(1);
        let parts: Vec<std::ops::Range<usize>> =
            (0..all).step_by(part).map(|from| from..(from + part).min(all)).collect();
        let scan = |range: &std::ops::Range<usize>| match rows {
            Some(rows) => self.arch.dispatch(Picked { flat: self, query: &query, rows: &rows[range.clone()] }),
            None if all > exact_max => self.arch.dispatch(Sketched { flat: self, query: &query, rows: range.clone() }),
            None => self.arch.dispatch(Whole { flat: self, query: &query, rows: range.clone() }),
        };
        let mut best = Best::new(count);
        match parts.as_slice() {
            [] => {}
            [only] => best = scan(only),
            [first, others @ ..] => std::thread::scope(|scope| {
                let scan = &scan;
                let others: Vec<_> = others.iter().map(|range| scope.spawn(move || scan(range))).collect();
                best = scan(first);
                for other in others {
                    // A thread of arithmetic has nothing to fail with; if it did, its rows are not found.
                    for Reverse(near) in other.join().map(|best| best.heap).unwrap_or_default() {
                        best.offer(near);
                    }
                }
            }),
        }
        let mut found: Vec<Neighbour> = best.heap.into_iter().map(|Reverse(near)| near).collect();
        found.sort_unstable_by_key(|near| Reverse(*near));
        found
    }
}

/// Appends the 8-bit form of a vector and gives the scale by which it was divided.
#[expect(clippy::cast_possible_truncation, reason = "rounded numbers between -127 and 127")]
fn quantised(vector: &[f32], codes: &mut Vec<i8>) -> f32 {
    let largest = vector.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    let scale = if largest > 0.0 && largest.is_finite() { largest / 127.0 } else { 1.0 };
    codes.extend(vector.iter().map(|value| (value / scale).round() as i8));
    scale
}

/// Appends the signs of a vector.
fn sketched(vector: &[f32], sketches: &mut Vec<u64>) {
    let word = |part: &[f32]| part.iter().fold(0_u64, |word, value| word << 1 | u64::from(*value > 0.0));
    sketches.extend(vector.chunks(64).map(word));
}

#[cfg(test)]
mod tests {
    use domain::Rng;

    use super::*;

    const EXACT: usize = usize::MAX;

    fn vectors(count: usize, size: usize) -> Vec<Vec<f32>> {
        let rng = Rng::seeded(7);
        (0..count)
            .map(|_| {
                let bytes: Vec<[u8; 32]> = (0..size.div_ceil(32)).map(|_| rng.bytes()).collect();
                let raw: Vec<f32> = bytes.as_flattened()[..size].iter().map(|byte| f32::from(*byte) - 127.5).collect();
                let length = raw.iter().map(|value| value * value).sum::<f32>().sqrt();
                raw.iter().map(|value| value / length).collect()
            })
            .collect()
    }

    fn exact(vectors: &[Vec<f32>], query: &[f32]) -> Vec<(u32, f32)> {
        let mut all: Vec<(u32, f32)> =
            (0..).zip(vectors).map(|(row, vector)| (row, vector.iter().zip(query).map(|(a, b)| a * b).sum())).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all
    }

    #[test]
    fn the_nearest_are_those_of_the_exact_cosine() {
        let vectors = vectors(3_000, 96);
        let mut flat = Flat::new(96);
        assert!(vectors.iter().all(|vector| flat.push(vector)));
        assert!(!flat.push(&[1.0]));
        for query in vectors.iter().step_by(500) {
            let truth = exact(&vectors, query);
            let one = flat.nearest(query, 50, None, 1, EXACT);
            assert_eq!(one, flat.nearest(query, 50, None, 3, EXACT), "threads change nothing");
            assert!(one.is_sorted_by_key(|near| Reverse(*near)));
            let found = truth[..10].iter().filter(|(row, _)| one.iter().any(|near| near.row == *row)).count();
            assert_eq!(found, 10);
            for near in &one {
                let (_, cosine) = truth.iter().find(|(row, _)| *row == near.row).unwrap();
                assert!((near.cosine - cosine).abs() < 0.005, "{near:?} {cosine}");
            }
            let even: Vec<u32> = (0..3_000).step_by(2).collect();
            let some = flat.nearest(query, 20, Some(&even), 2, EXACT);
            let expected: Vec<Neighbour> = flat
                .nearest(query, 3_000, None, 1, EXACT)
                .into_iter()
                .filter(|near| near.row % 2 == 0)
                .take(20)
                .collect();
            assert_eq!(some, expected);
        }
    }

    /// Neighbours of a few hundred places, as texts of a few hundred subjects are.
    #[test]
    fn sketches_lose_few_of_the_nearest() {
        let (places, noise) = (vectors(300, 96), vectors(30_000, 96));
        let mut flat = Flat::new(96);
        let near: Vec<Vec<f32>> = noise
            .iter()
            .zip(places.iter().cycle())
            .map(|(a, b)| a.iter().zip(b).map(|(a, b)| a + b).collect())
            .collect();
        assert!(near.iter().all(|vector| flat.push(vector)));
        let mut hits = 0;
        for query in near.iter().step_by(1_000) {
            let truth = flat.nearest(query, 10, None, 1, EXACT);
            let found = flat.nearest(query, 100, None, 2, 1_000);
            hits += truth.iter().filter(|near| found.contains(near)).count();
        }
        assert!(hits >= 285, "recall@10 is {hits} of 300");
    }

    #[test]
    fn the_last_row_takes_the_place_of_one_that_is_taken_away() {
        let vectors = vectors(3, 32);
        let mut flat = Flat::new(32);
        for vector in &vectors {
            flat.push(vector);
        }
        flat.swap_remove(0);
        assert_eq!(flat.rows(), 2);
        assert_eq!(flat.nearest(&vectors[2], 1, None, 1, EXACT)[0].row, 0);
        flat.swap_remove(1);
        flat.swap_remove(0);
        assert!(flat.nearest(&vectors[0], 1, None, 1, EXACT).is_empty());
    }
}
