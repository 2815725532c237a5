//! The innermost loops. pulp compiles them for each instruction set, and selects one at run time.
#![expect(clippy::inline_always, reason = "only inlined functions are compiled for the detected processor")]

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pulp::{Simd, WithSimd};

use super::rows::{Neighbour, VectorRows};

/// Rows that are scored before they are compared: their scores fit into the first-level cache.
const BLOCK_ROWS: usize = 512;
/// One row in this many is compared exactly after the comparison of sketches,
const SKETCHES_PER_ROW: usize = 200;
/// and at least this many rows.
const SKETCHED_MIN: usize = 1_000;

/// The query in the form of the stored rows.
pub struct VectorQuery<'a> {
    /// Quantised numbers.
    pub codes: &'a [i8],
    /// Scale of the numbers.
    pub scale: f32,
    /// Signs of the numbers.
    pub sketch: &'a [u64],
    /// Number of rows to find.
    pub count: usize,
}

/// The best rows so far, in a heap with the worst on top.
pub struct TopRows {
    /// At most `count` rows.
    pub heap: BinaryHeap<Reverse<Neighbour>>,
    count: usize,
    worst: f32,
}

impl TopRows {
    /// An empty heap for `count` rows.
    pub fn new(count: usize) -> Self {
        Self { heap: BinaryHeap::with_capacity(count + 1), count, worst: f32::NEG_INFINITY }
    }

    /// Adds a row if it is among the best.
    pub fn offer(&mut self, near: Neighbour) {
        if self.heap.len() == self.count {
            if self.heap.peek().is_some_and(|Reverse(worst)| near <= *worst) {
                return;
            }
            self.heap.pop();
        }
        self.heap.push(Reverse(near));
        if self.heap.len() == self.count {
            self.worst = self.heap.peek().map_or(f32::NEG_INFINITY, |Reverse(worst)| worst.cosine);
        }
    }
}

/// Compares every row of a range.
pub struct AllRows<'a> {
    /// The stored rows.
    pub stored: &'a VectorRows,
    /// The quantised query.
    pub query: &'a VectorQuery<'a>,
    /// The range to search.
    pub rows: std::ops::Range<usize>,
}

impl WithSimd for AllRows<'_> {
    type Output = TopRows;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> TopRows {
        let (stored, query, size) = (self.stored, self.query, self.stored.dimensions);
        let mut best = TopRows::new(query.count);
        let mut scores = [0.0_f32; BLOCK_ROWS];
        let mut from = self.rows.start;
        while from < self.rows.end {
            let to = (from + BLOCK_ROWS).min(self.rows.end);
            let codes = stored.codes[from * size..to * size].chunks_exact(size);
            for ((score, codes), scale) in scores.iter_mut().zip(codes).zip(&stored.scales[from..to]) {
                *score = dot(codes, query.codes) * scale * query.scale;
            }
            for (row, score) in (from..to).zip(scores) {
                if score >= best.worst {
                    best.offer(near(row, score));
                }
            }
            from = to;
        }
        best
    }
}

/// Compares the rows of a range with the sketches nearest to the query's.
pub struct SketchFilter<'a> {
    /// The stored rows.
    pub stored: &'a VectorRows,
    /// The quantised query.
    pub query: &'a VectorQuery<'a>,
    /// The range to search.
    pub rows: std::ops::Range<usize>,
}

impl WithSimd for SketchFilter<'_> {
    type Output = TopRows;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> TopRows {
        let words = self.stored.sketch_words();
        let sketches = &self.stored.sketches[self.rows.start * words..self.rows.end * words];
        let mut distances: Vec<u16> = Vec::with_capacity(self.rows.len());
        // Specialised for the usual length, so that the compiler can vectorise it.
        if let (6, Ok(query)) = (words, <&[u64; 6]>::try_from(self.query.sketch)) {
            distances.extend(sketches.as_chunks::<6>().0.iter().map(|sketch| differing(sketch, query)));
        } else {
            distances.extend(sketches.chunks_exact(words).map(|sketch| differing(sketch, self.query.sketch)));
        }
        let wanted = (distances.len() / SKETCHES_PER_ROW).max(SKETCHED_MIN).max(self.query.count);
        let mut having = vec![0_usize; self.stored.dimensions + 1];
        for distance in &distances {
            having[usize::from(*distance)] += 1;
        }
        let mut sum = 0;
        let last = having.iter().position(|count| {
            sum += count;
            sum >= wanted
        });
        let last = last.unwrap_or(self.stored.dimensions);
        let near = (self.rows.start..).zip(&distances).filter(|(_, distance)| usize::from(**distance) <= last);
        let rows: Vec<u32> = near.filter_map(|(row, _)| u32::try_from(row).ok()).collect();
        SelectedRows { stored: self.stored, query: self.query, rows: &rows }.with_simd(simd)
    }
}

/// Hamming distance of two sketches.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "no vector has 65,536 numbers")]
fn differing(a: &[u64], b: &[u64]) -> u16 {
    a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>() as u16
}

/// Compares some rows.
pub struct SelectedRows<'a> {
    /// The stored rows.
    pub stored: &'a VectorRows,
    /// The quantised query.
    pub query: &'a VectorQuery<'a>,
    /// The rows to search.
    pub rows: &'a [u32],
}

impl WithSimd for SelectedRows<'_> {
    type Output = TopRows;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> TopRows {
        let (stored, query, size) = (self.stored, self.query, self.stored.dimensions);
        let mut best = TopRows::new(query.count);
        for row in self.rows.iter().map(|row| *row as usize).filter(|row| *row < stored.len()) {
            let score =
                dot(&stored.codes[row * size..(row + 1) * size], query.codes) * stored.scales[row] * query.scale;
            if score >= best.worst {
                best.offer(near(row, score));
            }
        }
        best
    }
}

/// Dot product in integers, which the compiler may reorder.
#[inline(always)]
#[expect(clippy::cast_precision_loss, reason = "the sum is off by less than the rounding of the numbers was")]
fn dot(a: &[i8], b: &[i8]) -> f32 {
    a.iter().zip(b).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum::<i32>() as f32
}

fn near(row: usize, cosine: f32) -> Neighbour {
    Neighbour { row: u32::try_from(row).unwrap_or(u32::MAX), cosine }
}
