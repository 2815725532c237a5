//! Element-wise and row-wise operations. Plain loops, which the compiler vectorises.

use pulp::{Simd, WithSimd};

use crate::shape::DIMENSIONS;

/// Number of partial sums: the lanes of the widest register.
const LANES: usize = 16;

/// `x · Φ(x)`, with the polynomial of Abramowitz and Stegun, 7.1.26, for Φ (error at most 1.5e-7).
pub struct Gelu<'a>(pub &'a mut [f32]);

/// Replaces the first `count` numbers of each row by `e^(scale · x)`, shifted by the row's maximum, and returns the sum
/// of each row, by which the caller divides.
pub struct Softmax<'a> {
    /// The rows, one after the other.
    pub rows: &'a mut [f32],
    /// Distance between rows.
    pub stride: usize,
    /// Numbers per row.
    pub count: usize,
    /// Scale of the exponent.
    pub scale: f32,
    /// Receives the sum of each row.
    pub sums: &'a mut Vec<f32>,
}

/// Adds `more`, then normalises each row to mean 0 and variance 1, and applies weight and bias.
pub struct AddAndNorm<'a> {
    /// Rows of [`DIMENSIONS`] numbers.
    pub rows: &'a mut [f32],
    /// Added to `rows`; of the same length.
    pub more: Option<&'a [f32]>,
    /// Scale of each dimension.
    pub weight: &'a [f32],
    /// Offset of each dimension.
    pub bias: &'a [f32],
}

impl WithSimd for Gelu<'_> {
    type Output = ();

    #[expect(clippy::inline_always, reason = "the instructions of the caller are meant")]
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for value in self.0 {
            *value = gelu_of(*value);
        }
    }
}

impl WithSimd for Softmax<'_> {
    type Output = ();

    #[expect(clippy::inline_always, reason = "the instructions of the caller are meant")]
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.sums.clear();
        for row in self.rows.chunks_exact_mut(self.stride) {
            let row = &mut row[..self.count];
            let largest =
                row.iter().copied().fold(f32::NEG_INFINITY, |one, other| if other > one { other } else { one });
            for value in &mut *row {
                *value = exp((*value - largest) * self.scale);
            }
            self.sums.push(sum(row));
        }
    }
}

impl WithSimd for AddAndNorm<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        const EPSILON: f32 = 1e-12;
        const COUNT: f32 = 384.0;
        for (number, row) in self.rows.chunks_exact_mut(DIMENSIONS).enumerate() {
            if let Some(more) = self.more {
                for (value, more) in row.iter_mut().zip(&more[number * DIMENSIONS..]) {
                    *value += more;
                }
            }
            let mean = sum(row) / COUNT;
            for value in &mut *row {
                *value -= mean;
            }
            let factor = (sum_of_squares(row) / COUNT + EPSILON).sqrt().recip();
            for ((value, weight), bias) in row.iter_mut().zip(self.weight).zip(self.bias) {
                *value = *value * factor * weight + bias;
            }
        }
    }
}

/// The mean of the rows, normalised to length 1.
pub fn unit_mean(rows: &[f32]) -> Vec<f32> {
    let mut mean = vec![0.0; DIMENSIONS];
    for row in rows.chunks_exact(DIMENSIONS) {
        mean.iter_mut().zip(row).for_each(|(mean, value)| *mean += value);
    }
    // Normalisation cancels the number of rows.
    let length = sum_of_squares(&mean).sqrt();
    for value in &mut mean {
        *value /= length;
    }
    mean
}

#[expect(clippy::inline_always, reason = "the instructions of the caller are meant")]
#[inline(always)]
fn sum(values: &[f32]) -> f32 {
    folded(values, |sum, value| sum + value)
}

#[expect(clippy::inline_always, reason = "the instructions of the caller are meant")]
#[inline(always)]
fn sum_of_squares(values: &[f32]) -> f32 {
    folded(values, |sum, value| sum + value * value)
}

#[expect(clippy::inline_always, reason = "the instructions of the caller are meant")]
#[inline(always)]
fn folded(values: &[f32], add: impl Fn(f32, f32) -> f32) -> f32 {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for chunk in chunks {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum = add(*sum, *value);
        }
    }
    let rest = rest.iter().fold(0.0, |sum, value| add(sum, *value));
    sums.iter().fold(rest, |sum, part| sum + part)
}

#[expect(clippy::inline_always, reason = "the instructions of the caller are meant")]
#[inline(always)]
fn gelu_of(x: f32) -> f32 {
    let z = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * z);
    let series = ((((1.061_405_4 * t - 1.453_152_1) * t + 1.421_413_8) * t - 0.284_496_72) * t + 0.254_829_6) * t;
    let erf = (1.0 - series * exp(-z * z)).copysign(x);
    0.5 * x * (1.0 + erf)
}

/// `e^x` for x ≤ 0 with an error of at most 2 ulp: `2^n · e^r` with |r| ≤ ln 2 / 2.
#[inline(always)]
fn exp(x: f32) -> f32 {
    // Adding this constant rounds to the nearest integer, in the lowest bits.
    const ROUNDING: f32 = 12_582_912.0;
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let x = if x < -87.0 { -87.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUNDING;
    let n = shifted - ROUNDING;
    let r = x - n * LN_2_HIGH - n * LN_2_LOW;
    let series =
        ((((1.987_569_1e-4 * r + 1.398_2e-3) * r + 8.333_452e-3) * r + 4.166_579_6e-2) * r + 0.166_666_65) * r + 0.5;
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(1.0_f32.to_bits()));
    (series * r * r + r + 1.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_e_are_right_to_the_last_places() {
        for step in 0..8700_u16 {
            let x = -f32::from(step) / 100.0;
            let expected = f64::from(x).exp();
            assert!((f64::from(exp(x)) - expected).abs() <= 3e-7 * expected, "{x}");
        }
        assert!(exp(f32::NEG_INFINITY) < 1e-37);
    }

    #[test]
    fn gelu_meets_known_values() {
        for (x, expected) in [(0.0, 0.0), (1.0, 0.841_344_8), (-1.0, -0.158_655_25), (3.0, 2.995_950_3), (-9.0, 0.0)] {
            assert!((gelu_of(x) - expected).abs() < 1e-6, "{x}: {}", gelu_of(x));
        }
    }
}
