//! Computes one absolute similarity per chunk, for order, display and threshold.

use domain::ids::MemoryId;
use domain::words::counts_of;
use store::passage::{Chunk, ChunkId};

use super::lexical::LexicalLeg;

/// A chunk with its similarity to the query.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredChunk {
    /// Id of the chunk.
    pub chunk: ChunkId,
    /// The chunk's memory.
    pub memory: MemoryId,
    /// Text of the chunk.
    pub content: String,
    /// Similarity: 0 to 1, with four decimals.
    pub similarity: f64,
}

/// Scores candidates by the weighted sum of the cosine and the normalised BM25. Without a vector of chunk or query,
/// BM25 alone counts.
pub fn scored(
    passages: Vec<Chunk>,
    stems: &[String],
    lexical: &LexicalLeg,
    vector: Option<&[f32]>,
    meaning_weight: f64,
) -> Vec<ScoredChunk> {
    let score = |passage: &Chunk| {
        let by_words = if lexical.weights.is_empty() {
            0.0
        } else {
            lexical.similarity(&counts_of(stems, &passage.title, &passage.content), passage.words)
        };
        match vector.zip(passage.vector.as_deref()).and_then(|(query, chunk)| cosine(query, chunk)) {
            // A query without stems is scored by its vector alone.
            Some(cosine) if lexical.weights.is_empty() => cosine,
            Some(cosine) => meaning_weight * cosine + (1.0 - meaning_weight) * by_words,
            None => by_words,
        }
    };
    let scored = passages.into_iter().map(|passage| {
        let similarity = (score(&passage) * 10_000.0).round() / 10_000.0;
        ScoredChunk { chunk: passage.chunk, memory: passage.memory, content: passage.content, similarity }
    });
    // A chunk without any similarity is never a result, even if the threshold is 0.
    scored.filter(|scored| scored.similarity > 0.0).collect()
}

/// The cosine of two vectors, at least 0; `None` if they are not comparable.
fn cosine(a: &[f32], b: &[f32]) -> Option<f64> {
    if a.len() != b.len() {
        return None;
    }
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    let lengths = (dot(a, a) * dot(b, b)).sqrt();
    let cosine = dot(a, b) / lengths;
    cosine.is_finite().then(|| cosine.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cosine_is_a_number_between_none_and_all() {
        assert_eq!(cosine(&[3.0, 4.0], &[3.0, 4.0]), Some(1.0));
        assert_eq!(cosine(&[1.0, 0.0], &[-1.0, 0.0]), Some(0.0));
        assert_eq!(cosine(&[1.0], &[1.0, 0.0]), None);
        assert_eq!(cosine(&[0.0], &[0.0]), None);
    }
}
