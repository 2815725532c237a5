//! F5: exact cosine similarity with every vector.

#![expect(clippy::inline_always, reason = "a function that is not inlined is compiled without the chosen instructions")]

use std::time::{Duration, Instant};

use pulp::{Arch, Simd, WithSimd};

use crate::options::Result;
use crate::outcome::{Answers, Outcome, nanoseconds};
use crate::usage::usage;

const SIZE: usize = minilm::DIMENSIONS;
/// Number of partial sums, so that the compiler can use wide registers.
const LANES: usize = 32;
/// Results per scan, as many as a search requests.
const BEST: usize = 50;

/// A deterministic unit vector per row, near one of a few hundred cluster centres.
pub fn vector(row: usize, seed: u64) -> Vec<f32> {
    const PLACES: u64 = 300;
    let numbers = |stream: u64| {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(stream);
        (0..SIZE / 8).flat_map(move |_| next(&mut state).to_le_bytes()).map(|byte| f32::from(byte) - 127.5)
    };
    let place = numbers((row as u64 % PLACES) << 40);
    let raw: Vec<f32> = place.zip(numbers(row as u64 + 1)).map(|(place, noise)| place + noise).collect();
    let length = raw.iter().map(|value| value * value).sum::<f32>().sqrt();
    raw.into_iter().map(|value| value / length).collect()
}

/// Next number of the generator `SplitMix64`.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Scans repeatedly, and prints the outcome with the latencies of whole scans.
pub fn measure(rows: usize, seed: u64, length: Duration) -> Result<()> {
    let vectors: Vec<f32> = (0..rows).flat_map(|row| vector(row, seed)).collect();
    let arch = Arch::new();
    let mut latencies = Vec::new();
    let usage_before = usage(std::process::id())?;
    let begin = Instant::now();
    for nth in 0.. {
        let query = vector(rows + nth, seed);
        let start = Instant::now();
        std::hint::black_box(arch.dispatch(Scan { vectors: &vectors, query: &query }));
        latencies.push(nanoseconds(start.elapsed()));
        if begin.elapsed() > length {
            break;
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    let cost = usage(std::process::id())?.since(usage_before);
    Outcome::of(0, Answers::of(latencies, String::new()), seconds, cost).print()
}

struct Scan<'a> {
    vectors: &'a [f32],
    query: &'a [f32],
}

impl WithSimd for Scan<'_> {
    /// The nearest rows with their cosines, in descending order of the cosine.
    type Output = Vec<(f32, usize)>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Self::Output {
        let mut best: Vec<(f32, usize)> = Vec::with_capacity(BEST + 1);
        let mut worst = f32::NEG_INFINITY;
        for (row, vector) in self.vectors.chunks_exact(SIZE).enumerate() {
            let cosine = dot(vector, self.query);
            if cosine > worst {
                let place = best.partition_point(|(other, _)| *other >= cosine);
                best.insert(place, (cosine, row));
                best.truncate(BEST);
                if best.len() == BEST {
                    worst = best[BEST - 1].0;
                }
            }
        }
        best
    }
}

#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0_f32; LANES];
    for (a, b) in a.as_chunks::<LANES>().0.iter().zip(b.as_chunks::<LANES>().0) {
        for lane in 0..LANES {
            sums[lane] = a[lane].mul_add(b[lane], sums[lane]);
        }
    }
    sums.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_rows_are_found_in_their_order() {
        let rows: Vec<Vec<f32>> = (0..2_000).map(|row| vector(row, 1)).collect();
        let (flat, query) = (rows.concat(), vector(9_999, 1));
        let mut expected: Vec<(f32, usize)> = rows
            .iter()
            .enumerate()
            .map(|(row, vector)| (vector.iter().zip(&query).map(|(a, b)| a * b).sum(), row))
            .collect();
        expected.sort_by(|a, b| b.0.total_cmp(&a.0));
        let found = Arch::new().dispatch(Scan { vectors: &flat, query: &query });
        assert_eq!(found.len(), BEST);
        for ((found, _), (expected, _)) in found.iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        }
        assert!((rows[7].iter().map(|value| value * value).sum::<f32>() - 1.0).abs() < 1e-4);
    }
}
