//! The innermost loops: written plainly, and compiled once for each kind of processor; which of them runs is found out when the
//! program starts.
#![expect(clippy::inline_always, reason = "only what is inlined is compiled for the processor that was found")]

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pulp::{Simd, WithSimd};

use super::rows::{Neighbour, Rows};

/// Rows whose scores are computed before any is looked at: they stay in the processor's nearest memory.
const BLOCK_ROWS: usize = 512;
/// Of so many rows, one whose sketch is near is looked at more closely.
const SKETCHES_PER_ROW: usize = 200;
/// And no fewer than these.
const SKETCHED_MIN: usize = 1_000;

/// What is looked for, in the form in which rows are kept.
pub struct VectorQuery<'a> {
    /// Its numbers, in 8 bits.
    pub codes: &'a [i8],
    /// By what they were divided.
    pub scale: f32,
    /// Its signs.
    pub sketch: &'a [u64],
    /// How many rows are wanted.
    pub count: usize,
}

/// The best so far, the worst of them on top.
pub struct Best {
    /// The rows.
    pub heap: BinaryHeap<Reverse<Neighbour>>,
    count: usize,
    worst: f32,
}

impl Best {
    /// None yet, and at most so many.
    pub fn new(count: usize) -> Self {
        Self { heap: BinaryHeap::with_capacity(count + 1), count, worst: f32::NEG_INFINITY }
    }

    /// Takes one in, if it is among the best.
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

/// Everything from one row to another.
pub struct Whole<'a> {
    /// Where.
    pub stored: &'a Rows,
    /// What.
    pub query: &'a VectorQuery<'a>,
    /// The rows.
    pub rows: std::ops::Range<usize>,
}

impl WithSimd for Whole<'_> {
    type Output = Best;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Best {
        let (stored, query, size) = (self.stored, self.query, self.stored.dimensions);
        let mut best = Best::new(query.count);
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

/// Of everything from one row to another, what has a near sketch.
pub struct Sketched<'a> {
    /// Where.
    pub stored: &'a Rows,
    /// What.
    pub query: &'a VectorQuery<'a>,
    /// The rows.
    pub rows: std::ops::Range<usize>,
}

impl WithSimd for Sketched<'_> {
    type Output = Best;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Best {
        let words = self.stored.sketch_words();
        let sketches = &self.stored.sketches[self.rows.start * words..self.rows.end * words];
        let mut distances: Vec<u16> = Vec::with_capacity(self.rows.len());
        // The usual length is written out, so that the compiler can count whole sketches at once.
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
        Picked { stored: self.stored, query: self.query, rows: &rows }.with_simd(simd)
    }
}

/// In how many bits two sketches differ.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "no vector has 65,536 numbers")]
fn differing(a: &[u64], b: &[u64]) -> u16 {
    a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>() as u16
}

/// Some rows.
pub struct Picked<'a> {
    /// Where.
    pub stored: &'a Rows,
    /// What.
    pub query: &'a VectorQuery<'a>,
    /// The rows.
    pub rows: &'a [u32],
}

impl WithSimd for Picked<'_> {
    type Output = Best;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Best {
        let (stored, query, size) = (self.stored, self.query, self.stored.dimensions);
        let mut best = Best::new(query.count);
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

/// In whole numbers, which the compiler may add in any order.
#[inline(always)]
#[expect(clippy::cast_precision_loss, reason = "the sum is off by less than the rounding of the numbers was")]
fn dot(a: &[i8], b: &[i8]) -> f32 {
    a.iter().zip(b).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum::<i32>() as f32
}

fn near(row: usize, cosine: f32) -> Neighbour {
    Neighbour { row: u32::try_from(row).unwrap_or(u32::MAX), cosine }
}
