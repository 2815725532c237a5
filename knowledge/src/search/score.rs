//! One absolute number per chunk, so that order, number and threshold agree.

use domain::ids::MemoryId;
use domain::words::counts_of;
use store::passage::{Chunk, ChunkId};

use super::lexical::Lexical;

/// A chunk and how similar it is to the query.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// The chunk.
    pub chunk: ChunkId,
    /// Its memory.
    pub memory: MemoryId,
    /// Its text.
    pub content: String,
    /// 0 to 1, four decimals.
    pub similarity: f64,
}

/// Scores candidates: the cosine of the vectors, weighted, and as much of BM25 as was reached of what can be. A chunk without
/// a vector, and a query without one, has its words alone.
pub fn scored(
    passages: Vec<Chunk>,
    stems: &[String],
    lexical: &Lexical,
    vector: Option<&[f32]>,
    meaning_weight: f64,
) -> Vec<Scored> {
    let score = |passage: &Chunk| {
        let by_words = if lexical.weights.is_empty() {
            0.0
        } else {
            lexical.similarity(&counts_of(stems, &passage.title, &passage.content), passage.words)
        };
        match vector.zip(passage.vector.as_deref()).and_then(|(query, chunk)| cosine(query, chunk)) {
            // A query without any word that can be looked for still has a meaning.
            Some(cosine) if lexical.weights.is_empty() => cosine,
            Some(cosine) => meaning_weight * cosine + (1.0 - meaning_weight) * by_words,
            None => by_words,
        }
    };
    let scored = passages.into_iter().map(|passage| {
        let similarity = (score(&passage) * 10_000.0).round() / 10_000.0;
        Scored { chunk: passage.chunk, memory: passage.memory, content: passage.content, similarity }
    });
    // What shares neither a word nor any meaning is no answer, whatever the threshold.
    scored.filter(|scored| scored.similarity > 0.0).collect()
}

/// The cosine of two vectors, 0 when they point away from each other; none when they cannot be compared.
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
