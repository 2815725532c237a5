//! Matrix products; element-wise operations are in [`self::pointwise`].
//!
//! pulp compiles each kernel for every instruction set (SSE, AVX2, AVX-512, NEON), and selects one at run time.

pub mod pointwise;

use pulp::{Arch, Simd, WithSimd};

use crate::shape::DIMENSIONS;
use crate::weights::{BLOCK, Matrix};

/// The right operand of a product. Sums run along its columns.
#[derive(Clone, Copy)]
pub enum RightOperand<'a> {
    /// Quantised weights.
    Weights(&'a Matrix),
    /// Row-major floats with a row stride.
    Rows(&'a [f32], usize),
    /// Column-major floats with a column stride.
    Columns(&'a [f32], usize),
}

/// `left · right + bias`
///
/// Both operands are packed first: groups of rows of `left`, and strips of `right` two registers wide, so that the
/// innermost loop reads both sequentially and keeps all sums in registers.
pub struct Product<'a> {
    /// The left operand: rows, `left_stride` apart.
    pub left: &'a [f32],
    /// Distance between rows of `left`.
    pub left_stride: usize,
    /// Number of rows.
    pub rows: usize,
    /// Length of each sum.
    pub inner: usize,
    /// The right operand.
    pub right: RightOperand<'a>,
    /// Number of columns of the result. `out` must have room for whole strips of up to 32 columns.
    pub columns: usize,
    /// Added to each row of the result.
    pub bias: Option<&'a [f32]>,
    /// The result: rows, `out_stride` apart.
    pub out: &'a mut [f32],
    /// Distance between rows of `out`.
    pub out_stride: usize,
    /// Buffers for the packed operands.
    pub room: &'a mut PackBuffers,
}

/// Buffers for packed operands, reused between products.
#[derive(Debug, Default)]
pub struct PackBuffers {
    left: Vec<f32>,
    strip: Vec<f32>,
}

impl Product<'_> {
    /// Computes the product with the best available instructions.
    pub fn compute(self) {
        Arch::new().dispatch(self);
    }

    #[expect(clippy::inline_always, reason = "the instructions of the caller are meant")]
    #[inline(always)]
    fn strips<S: Simd, const ROWS: usize>(self, simd: S) {
        let Self { rows, inner, columns, out_stride, .. } = self;
        let PackBuffers { left, strip } = self.room;
        let width = 2 * S::F32_LANES;
        rearrange::<ROWS>(self.left, self.left_stride, rows, inner, left);
        strip.resize(inner * width, 0.0);
        for column in (0..columns).step_by(width) {
            match self.right {
                RightOperand::Weights(matrix) => fill_from_weights(strip, matrix, column, width),
                RightOperand::Rows(values, stride) => fill_from_rows(strip, values, stride, column, width),
                RightOperand::Columns(values, stride) => {
                    fill_from_columns(strip, values, stride, column..columns, width);
                }
            }
            let (strip, _) = S::as_simd_f32s(strip);
            let (pairs, _) = strip.as_chunks::<2>();
            let zero = [simd.splat_f32s(0.0); 2];
            let bias = self.bias.map_or(zero, |bias| pair(S::as_simd_f32s(&bias[column..column + width]).0));
            for (row, left) in (0..rows).step_by(ROWS).zip(left.chunks_exact(inner * ROWS)) {
                let sums = tile::<S, ROWS>(simd, left.as_chunks().0, pairs);
                for (row, sums) in (row..rows).zip(sums) {
                    let at = row * out_stride + column;
                    let (out, _) = S::as_mut_simd_f32s(&mut self.out[at..at + width]);
                    for ((out, sum), bias) in out.iter_mut().zip(sums).zip(bias) {
                        *out = simd.add_f32s(sum, bias);
                    }
                }
            }
        }
    }
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[expect(clippy::inline_always, reason = "the instructions of the caller are meant")]
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // The number of rows per tile: their sums, two registers each, must fit into the registers.
        if S::REGISTER_COUNT >= 32 { self.strips::<S, 12>(simd) } else { self.strips::<S, 6>(simd) }
    }
}

/// The innermost loop: `ROWS` rows by two registers of columns.
#[expect(clippy::inline_always, reason = "the instructions of the caller are meant")]
#[inline(always)]
fn tile<S: Simd, const ROWS: usize>(simd: S, left: &[[f32; ROWS]], right: &[[S::f32s; 2]]) -> [[S::f32s; 2]; ROWS] {
    let mut sums = [[simd.splat_f32s(0.0); 2]; ROWS];
    for (left, right) in left.iter().zip(right) {
        for (sums, left) in sums.iter_mut().zip(left) {
            let left = simd.splat_f32s(*left);
            sums[0] = simd.mul_add_e_f32s(left, right[0], sums[0]);
            sums[1] = simd.mul_add_e_f32s(left, right[1], sums[1]);
        }
    }
    sums
}

#[expect(clippy::inline_always, reason = "the instructions of the caller are meant")]
#[inline(always)]
fn pair<T: Copy>(two: &[T]) -> [T; 2] {
    [two[0], two[1]]
}

/// Packs groups of `ROWS` rows column by column. Pads the last group with zeros.
#[expect(clippy::inline_always, reason = "the instructions of the caller are meant")]
#[inline(always)]
fn rearrange<const ROWS: usize>(values: &[f32], stride: usize, rows: usize, inner: usize, into: &mut Vec<f32>) {
    into.resize(rows.div_ceil(ROWS) * ROWS * inner, 0.0);
    for (group, into) in into.chunks_exact_mut(inner * ROWS).enumerate() {
        let (into, _) = into.as_chunks_mut::<ROWS>();
        let sources: [&[f32]; ROWS] = std::array::from_fn(|place| match group * ROWS + place {
            row if row < rows => &values[row * stride..row * stride + inner],
            _ => &NOTHING[..inner],
        });
        for (column, into) in into.iter_mut().enumerate() {
            for (into, source) in into.iter_mut().zip(sources) {
                *into = source[column];
            }
        }
    }
}

/// Zeros for padding rows, as long as the longest sum.
static NOTHING: [f32; 4 * DIMENSIONS] = [0.0; 4 * DIMENSIONS];

#[expect(clippy::inline_always, reason = "the instructions of the caller are meant")]
#[inline(always)]
fn fill_from_weights(strip: &mut [f32], matrix: &Matrix, column: usize, width: usize) {
    let blocks = strip.chunks_mut(width * BLOCK).zip(matrix.integers.chunks(matrix.columns * BLOCK));
    for ((strip, integers), scales) in blocks.zip(matrix.scales.chunks(matrix.columns)) {
        let scales = &scales[column..column + width];
        for (strip, integers) in strip.chunks_exact_mut(width).zip(integers.chunks_exact(matrix.columns)) {
            let integers = &integers[column..column + width];
            // The width is a compile-time constant, so only one branch remains.
            if width.is_multiple_of(16) {
                scaled::<16>(strip, integers, scales);
            } else {
                scaled::<2>(strip, integers, scales);
            }
        }
    }
}

/// Converts `LANES` numbers at a time, to fill a register.
#[expect(clippy::inline_always, reason = "the instructions of the caller are meant")]
#[inline(always)]
fn scaled<const LANES: usize>(values: &mut [f32], integers: &[u8], scales: &[f32]) {
    let sources = integers.as_chunks::<LANES>().0.iter().zip(scales.as_chunks::<LANES>().0);
    for (values, (integers, scales)) in values.as_chunks_mut::<LANES>().0.iter_mut().zip(sources) {
        *values = std::array::from_fn(|lane| f32::from(integers[lane].cast_signed()) * scales[lane]);
    }
}

#[expect(clippy::inline_always, reason = "the instructions of the caller are meant")]
#[inline(always)]
fn fill_from_rows(strip: &mut [f32], values: &[f32], stride: usize, column: usize, width: usize) {
    for (strip, values) in strip.chunks_exact_mut(width).zip(values.chunks(stride)) {
        strip.copy_from_slice(&values[column..column + width]);
    }
}

#[expect(clippy::inline_always, reason = "the instructions of the caller are meant")]
#[inline(always)]
fn fill_from_columns(strip: &mut [f32], values: &[f32], stride: usize, columns: std::ops::Range<usize>, width: usize) {
    for place in 0..width {
        let column = columns.start + place;
        let strip = strip.chunks_exact_mut(width);
        if column < columns.end {
            strip.zip(&values[column * stride..]).for_each(|(strip, value)| strip[place] = *value);
        } else {
            strip.for_each(|strip| strip[place] = 0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers between -1 and 1 without a pattern that could hide a mistake.
    fn numbers(count: usize) -> Vec<f32> {
        (0..count)
            .scan(7_u32, |state, _| {
                *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                Some(*state)
            })
            .map(|state| f32::from((state >> 16) as u16) / 32_768.0 - 1.0)
            .collect()
    }

    fn with_every_instruction_set(mut check: impl FnMut(&dyn Fn(Product))) {
        check(&|product| product.with_simd(pulp::Scalar::new()));
        check(&|product| Arch::new().dispatch(product));
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = pulp::x86::V3::try_new() {
            check(&|product| Simd::vectorize(avx2, product));
        }
    }

    #[test]
    fn a_product_is_the_sum_of_products_with_any_instructions() {
        let (left, values, bias) = (numbers(25 * 64), numbers(64 * 64), numbers(64));
        let integers: Vec<u8> = (0..64 * 64).map(|number: u32| (number * 37 % 251) as u8).collect();
        let matrix = Matrix { integers: integers.leak(), scales: numbers(2 * 64), columns: 64 };
        let weight =
            |k: usize, n: usize| f32::from(matrix.integers[k * 64 + n].cast_signed()) * matrix.scales[k / 32 * 64 + n];
        with_every_instruction_set(|compute| {
            for rows in [1, 6, 12, 25] {
                for (right, columns) in [
                    (RightOperand::Weights(&matrix), 64),
                    (RightOperand::Rows(&values, 64), 32),
                    (RightOperand::Columns(&values, 64), 37),
                ] {
                    let mut out = vec![0.0; rows * 64];
                    let bias = (columns == 64).then_some(bias.as_slice());
                    compute(Product {
                        left: &left,
                        left_stride: 64,
                        rows,
                        inner: 64,
                        right,
                        columns,
                        bias,
                        out: &mut out,
                        out_stride: 64,
                        room: &mut PackBuffers::default(),
                    });
                    for (at, value) in out.iter().enumerate().filter(|(at, _)| at % 64 < columns) {
                        let (row, n) = (at / 64, at % 64);
                        let right = |k: usize| match right {
                            RightOperand::Weights(_) => weight(k, n),
                            RightOperand::Rows(values, stride) => values[k * stride + n],
                            RightOperand::Columns(values, stride) => values[n * stride + k],
                        };
                        let sum: f64 = (0..64).map(|k| f64::from(left[row * 64 + k]) * f64::from(right(k))).sum();
                        let expected = sum + f64::from(bias.map_or(0.0, |bias| bias[n]));
                        assert!(
                            (f64::from(*value) - expected).abs() < 1e-3,
                            "{value} {expected} in row {row}, column {n}"
                        );
                    }
                }
            }
        });
    }
}
