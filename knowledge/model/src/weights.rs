//! Reading the file: what lies where is a safetensors header, how numbers are kept says `quantise.py`.

use safetensors::tensor::{Dtype, SafeTensors, TensorView};

/// Weights that share a scale.
pub const BLOCK: usize = 32;

/// A file that is not this model.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// Not a safetensors file, or a tensor is missing.
    #[error("reading the model: {0}")]
    File(#[from] safetensors::SafeTensorError),
    /// A tensor of another kind or size.
    #[error("the model has an unexpected {0}")]
    Tensor(String),
}

/// The opened file.
pub struct Weights(SafeTensors<'static>);

/// A matrix of 8-bit integers with a scale for every [`BLOCK`] of them. The integers stay where the file has them.
#[derive(Debug)]
pub struct Matrix {
    /// Row after row, each byte a signed integer.
    pub integers: &'static [u8],
    /// In the order of the blocks.
    pub scales: Vec<f32>,
    /// Numbers of a row.
    pub columns: usize,
}

impl Weights {
    /// Reads the header and checks that everything it names is there.
    pub fn read(file: &'static [u8]) -> Result<Self, Broken> {
        Ok(Self(SafeTensors::deserialize(file)?))
    }

    /// A text in UTF-8.
    pub fn text(&self, name: &str) -> Result<&'static str, Broken> {
        let bytes = self.tensor(name, Dtype::U8, None)?.data();
        std::str::from_utf8(bytes).map_err(|_| Broken::Tensor(name.to_owned()))
    }

    /// So many floats.
    pub fn floats(&self, name: &str, count: usize) -> Result<Vec<f32>, Broken> {
        let bytes = self.tensor(name, Dtype::F32, Some(count))?.data();
        Ok(bytes.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect())
    }

    /// A matrix of so many rows and columns.
    pub fn matrix(&self, name: &str, rows: usize, columns: usize) -> Result<Matrix, Broken> {
        let integers = self.tensor(name, Dtype::I8, Some(rows * columns))?.data();
        let scales = self.tensor(&format!("{name}.scale"), Dtype::BF16, Some(rows * columns / BLOCK))?.data();
        // A bfloat16 is the upper half of a float.
        let scales = scales.as_chunks().0.iter().map(|two| f32::from_bits(u32::from(u16::from_le_bytes(*two)) << 16));
        Ok(Matrix { integers, scales: scales.collect(), columns })
    }

    fn tensor(&self, name: &str, kind: Dtype, count: Option<usize>) -> Result<TensorView<'static>, Broken> {
        let tensor = self.0.tensor(name)?;
        let right =
            tensor.dtype() == kind && count.is_none_or(|count| tensor.shape().iter().product::<usize>() == count);
        if right { Ok(tensor) } else { Err(Broken::Tensor(name.to_owned())) }
    }
}
