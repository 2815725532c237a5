//! Reads the model's file: a safetensors file with numbers as `quantise.py` writes them.

use safetensors::tensor::{Dtype, SafeTensors, TensorView};

/// Number of weights that share a scale.
pub const BLOCK: usize = 32;

/// Why a file is not this model.
#[derive(Debug, thiserror::Error)]
pub enum InvalidModel {
    /// Not a safetensors file, or a tensor is missing.
    #[error("cannot read the model")]
    File(#[from] safetensors::SafeTensorError),
    /// A tensor has another type or size.
    #[error("the model has an unexpected {0}")]
    Tensor(String),
}

/// The opened file.
pub struct Weights(SafeTensors<'static>);

/// A matrix of 8-bit integers with one scale per [`BLOCK`]. The integers are borrowed from the file.
#[derive(Debug)]
pub struct Matrix {
    /// Row-major, each byte a signed integer.
    pub integers: &'static [u8],
    /// One scale per block, in the same order.
    pub scales: Vec<f32>,
    /// Numbers per row.
    pub columns: usize,
}

impl Weights {
    /// Reads the header and checks the offsets of all tensors.
    pub fn read(file: &'static [u8]) -> Result<Self, InvalidModel> {
        Ok(Self(SafeTensors::deserialize(file)?))
    }

    /// Reads a UTF-8 text.
    pub fn text(&self, name: &str) -> Result<&'static str, InvalidModel> {
        let bytes = self.tensor(name, Dtype::U8, None)?.data();
        std::str::from_utf8(bytes).map_err(|_| InvalidModel::Tensor(name.to_owned()))
    }

    /// Reads `count` floats.
    pub fn floats(&self, name: &str, count: usize) -> Result<Vec<f32>, InvalidModel> {
        let bytes = self.tensor(name, Dtype::F32, Some(count))?.data();
        Ok(bytes.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect())
    }

    /// Reads a quantised matrix.
    pub fn matrix(&self, name: &str, rows: usize, columns: usize) -> Result<Matrix, InvalidModel> {
        let integers = self.tensor(name, Dtype::I8, Some(rows * columns))?.data();
        let scales = self.tensor(&format!("{name}.scale"), Dtype::BF16, Some(rows * columns / BLOCK))?.data();
        // A bfloat16 is the upper half of a float.
        let scales = scales.as_chunks().0.iter().map(|two| f32::from_bits(u32::from(u16::from_le_bytes(*two)) << 16));
        Ok(Matrix { integers, scales: scales.collect(), columns })
    }

    fn tensor(&self, name: &str, kind: Dtype, count: Option<usize>) -> Result<TensorView<'static>, InvalidModel> {
        let tensor = self.0.tensor(name)?;
        let right =
            tensor.dtype() == kind && count.is_none_or(|count| tensor.shape().iter().product::<usize>() == count);
        if right { Ok(tensor) } else { Err(InvalidModel::Tensor(name.to_owned())) }
    }
}
