//! Stored vectors: 16-bit floats, little-endian. A cosine differs by less than 0.0001 from its 32-bit value.

use half::f16;
use half::slice::HalfFloatSliceExt;

use crate::error::Corrupt;

/// Model name of a chunk without a vector.
pub(crate) const NOT_EMBEDDED: &str = "";

/// A vector in the form of its row.
pub fn packed(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|value| f16::from_f32(*value).to_le_bytes()).collect()
}

/// The vector of a row.
pub fn unpacked(bytes: &[u8]) -> Result<Vec<f32>, Corrupt> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(Corrupt::new("vectors.vector", "expected two bytes for each number"));
    }
    let halves: Vec<f16> = pairs.iter().map(|pair| f16::from_le_bytes(*pair)).collect();
    let mut vector = vec![0.0; halves.len()];
    halves.convert_to_f32_slice(&mut vector);
    Ok(vector)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_comes_back_nearly_as_it_was() {
        let vector: Vec<f32> = (-50_i16..50).map(|n| f32::from(n) / 500.0).collect();
        let back = unpacked(&packed(&vector)).unwrap();
        assert!(vector.iter().zip(&back).all(|(a, b)| (a - b).abs() < 5e-5), "{back:?}");
        assert!(unpacked(&[1]).is_err());
    }
}
