//! Vectors in contiguous memory, searched exhaustively.
//!
//! Vectors are stored with 8 bits per number and one scale per row. The error of a cosine is below 0.002, which is
//! precise enough for candidates; final similarities are computed from the stored vectors.
//!
//! Above a size, candidates are first selected by sketches: one bit per number, its sign. Vectors with similar
//! directions differ in few bits, so the rows with the nearest sketches contain nearly all nearest vectors. Unlike a
//! graph index, sketches are free to build, update and delete.

use std::cmp::Reverse;

use pulp::Arch;

use super::rows::{Neighbour, VectorRows, quantised, sketched};
use super::scan::{AllRows, SelectedRows, SketchFilter, TopRows, VectorQuery};

/// Vectors of one length, in rows.
#[derive(Debug, Clone, Default)]
pub struct Flat {
    rows: VectorRows,
    arch: Arch,
}

impl Flat {
    /// No rows yet, of this many numbers each.
    pub fn new(dimensions: usize) -> Self {
        Self { rows: VectorRows::new(dimensions), arch: Arch::new() }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Allocated bytes.
    pub fn bytes(&self) -> usize {
        self.rows.bytes()
    }

    /// Appends a row; `false` if the vector has another length.
    pub fn push(&mut self, vector: &[f32]) -> bool {
        let fits = vector.len() == self.rows.dimensions;
        if fits {
            self.rows.push(vector);
        }
        fits
    }

    /// Removes a row; the last row takes its number.
    pub fn swap_remove(&mut self, row: usize) {
        self.rows.swap_remove(row);
    }

    /// The `count` nearest of all rows or of `rows`, nearest first, on up to `threads` threads. If all rows are
    /// searched and there are more than `exact_max`, the result may miss a few.
    pub fn nearest(
        &self,
        query: &[f32],
        count: usize,
        rows: Option<&[u32]>,
        threads: usize,
        exact_max: usize,
    ) -> Vec<Neighbour> {
        if query.len() != self.rows.dimensions || count == 0 || self.rows() == 0 {
            return Vec::new();
        }
        let (mut codes, mut sketch) = (Vec::with_capacity(self.rows.dimensions), Vec::new());
        sketched(query, &mut sketch);
        let query = VectorQuery { scale: quantised(query, &mut codes), codes: &codes, sketch: &sketch, count };
        let all = rows.map_or(self.rows(), <[u32]>::len);
        let part = all.div_ceil(threads.max(1)).max(1);
        let parts: Vec<std::ops::Range<usize>> =
            (0..all).step_by(part).map(|from| from..(from + part).min(all)).collect();
        let scan = |range: &std::ops::Range<usize>| match rows {
            Some(rows) => {
                self.arch.dispatch(SelectedRows { stored: &self.rows, query: &query, rows: &rows[range.clone()] })
            }
            None if all > exact_max => {
                self.arch.dispatch(SketchFilter { stored: &self.rows, query: &query, rows: range.clone() })
            }
            None => self.arch.dispatch(AllRows { stored: &self.rows, query: &query, rows: range.clone() }),
        };
        let mut best = TopRows::new(count);
        match parts.as_slice() {
            [] => {}
            [only] => best = scan(only),
            [first, others @ ..] => std::thread::scope(|scope| {
                let scan = &scan;
                let others: Vec<_> = others.iter().map(|range| scope.spawn(move || scan(range))).collect();
                best = scan(first);
                for other in others {
                    for Reverse(near) in other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).heap {
                        best.offer(near);
                    }
                }
            }),
        }
        let mut hits: Vec<Neighbour> = best.heap.into_iter().map(|Reverse(near)| near).collect();
        hits.sort_unstable_by_key(|near| Reverse(*near));
        hits
    }
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
            let common = truth[..10].iter().filter(|(row, _)| one.iter().any(|near| near.row == *row)).count();
            assert_eq!(common, 10);
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

    /// Clusters of vectors, as texts about some hundred subjects form them.
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
            let candidates = flat.nearest(query, 100, None, 2, 1_000);
            hits += truth.iter().filter(|near| candidates.contains(near)).count();
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
