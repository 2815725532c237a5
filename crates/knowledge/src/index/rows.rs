//! Vectors of one length in rows of memory: 8 bits a number with one scale per row, and a sketch of one bit a number.

/// Quantised vectors with their sketches.
#[derive(Debug, Clone, Default)]
pub struct VectorRows {
    /// Numbers per row.
    pub dimensions: usize,
    /// The quantised numbers, row after row.
    pub codes: Vec<i8>,
    /// The scale of each row: a code times its scale is the number.
    pub scales: Vec<f32>,
    /// The signs of the numbers, [`Self::sketch_words`] words per row.
    pub sketches: Vec<u64>,
}

/// A row and its similarity to the query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Neighbour {
    /// Number of the row.
    pub row: u32,
    /// Approximate cosine with the query.
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

impl VectorRows {
    /// No rows yet, of this many numbers each.
    pub fn new(dimensions: usize) -> Self {
        Self { dimensions, ..Self::default() }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.scales.len()
    }

    /// Allocated bytes.
    pub fn bytes(&self) -> usize {
        self.codes.capacity() + self.scales.capacity() * size_of::<f32>() + self.sketches.capacity() * size_of::<u64>()
    }

    /// Appends a row of [`Self::dimensions`] numbers.
    pub fn push(&mut self, vector: &[f32]) {
        let scale = quantised(vector, &mut self.codes);
        self.scales.push(scale);
        sketched(vector, &mut self.sketches);
    }

    /// Removes a row; the last row takes its number.
    pub fn swap_remove(&mut self, row: usize) {
        let (last, size) = (self.len() - 1, self.dimensions);
        self.codes.copy_within(last * size..(last + 1) * size, row * size);
        self.codes.truncate(last * size);
        self.scales.swap_remove(row);
        let words = self.sketch_words();
        self.sketches.copy_within(last * words..(last + 1) * words, row * words);
        self.sketches.truncate(last * words);
    }

    /// 64-bit words per sketch.
    pub fn sketch_words(&self) -> usize {
        self.dimensions.div_ceil(64)
    }
}

/// Appends the 8-bit form of a vector, and returns its scale.
#[expect(clippy::cast_possible_truncation, reason = "rounded numbers between -127 and 127")]
pub fn quantised(vector: &[f32], codes: &mut Vec<i8>) -> f32 {
    let largest = vector.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    let scale = if largest > 0.0 && largest.is_finite() { largest / 127.0 } else { 1.0 };
    codes.extend(vector.iter().map(|value| (value / scale).round() as i8));
    scale
}

/// Appends the sketch of a vector: the signs of its numbers.
pub fn sketched(vector: &[f32], sketches: &mut Vec<u64>) {
    let word = |part: &[f32]| part.iter().fold(0_u64, |word, value| word << 1 | u64::from(*value > 0.0));
    sketches.extend(vector.chunks(64).map(word));
}
