//! Computes one absolute similarity per chunk, for order, display and threshold.
//!
//! A chunk is first scored by its own words and vector. Then other chunks get a part of the best chunk's similarity: a
//! chunk that is near to the best answer is more likely to be one. The best chunk keeps its score, and no other chunk
//! exceeds it (`docs/decisions/0022-search.md`).

use domain::ids::MemoryId;
use domain::words::counts_of;
use store::chunk::{Chunk, ChunkId};

use super::lexical::LexicalSearch;
use super::stems::QueryStems;

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

/// The shares of a similarity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoreWeights {
    /// Weight of the cosine; the rest is the weight of the words.
    pub meaning: f64,
    /// Share that comes from the best chunk.
    pub neighbour: f64,
}

/// Scores candidates by the weighted sum of the cosine and the normalised BM25; by BM25 only if the chunk or the query has
/// no vector.
pub fn scored(
    chunks: Vec<Chunk>,
    stems: &QueryStems,
    lexical: &LexicalSearch,
    vector: Option<&[f32]>,
    weights: ScoreWeights,
) -> Vec<ScoredChunk> {
    let meaning_weight = weights.meaning;
    let score = |chunk: &Chunk| {
        let by_words = if lexical.weights.is_empty() {
            0.0
        } else {
            let stems = stems.in_language(chunk.language);
            lexical.similarity(&counts_of(stems, &chunk.title, &chunk.content, chunk.language), chunk.words)
        };
        match vector.zip(chunk.vector.as_deref()).and_then(|(query, chunk)| cosine(query, chunk)) {
            // A query without stems is scored by its vector only.
            Some(cosine) if lexical.weights.is_empty() => cosine,
            Some(cosine) => meaning_weight * cosine + (1.0 - meaning_weight) * by_words,
            None => by_words,
        }
    };
    let mut similarities: Vec<f64> = chunks.iter().map(score).collect();
    if vector.is_some() {
        let vectors: Vec<Option<&[f32]>> = chunks.iter().map(|chunk| chunk.vector.as_deref()).collect();
        lend(&mut similarities, &vectors, weights.neighbour);
    }
    let scored = chunks.into_iter().zip(similarities).map(|(chunk, score)| {
        let similarity = (score * 10_000.0).round() / 10_000.0;
        ScoredChunk { chunk: chunk.chunk, memory: chunk.memory, content: chunk.content, similarity }
    });
    // A chunk without any similarity is never a result, even if the threshold is 0.
    scored.filter(|scored| scored.similarity > 0.0).collect()
}

/// Replaces a share of each similarity by the best chunk's similarity times the cosine of both vectors. Chunks without a
/// vector keep their similarity.
fn lend(scores: &mut [f64], vectors: &[Option<&[f32]>], share: f64) {
    let best = scores.iter().copied().zip(vectors).max_by(|a, b| a.0.total_cmp(&b.0));
    let Some((best, Some(of_best))) = best.map(|(score, vector)| (score, *vector)) else { return };
    for (score, vector) in scores.iter_mut().zip(vectors) {
        // The best chunk's score must not change, not even by rounding.
        if *score < best
            && let Some(near) = vector.and_then(|vector| cosine(vector, of_best))
        {
            *score += share * (near * best - *score);
        }
    }
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
    fn the_best_chunk_lends_to_those_near_to_it_and_to_none_more_than_it_has() {
        let (best, near, far) = (vec![1.0, 0.0], vec![0.8, 0.6], vec![0.0, 1.0]);
        let vectors = [Some(&far[..]), Some(&best[..]), Some(&near[..]), None, Some(&best[..])];
        let mut scores = [0.4, 0.5, 0.3, 0.2, 0.1];
        lend(&mut scores, &vectors, 0.5);
        for (score, expected) in scores.into_iter().zip([0.2, 0.5, 0.35, 0.2, 0.3]) {
            assert!((score - expected).abs() < 1e-6, "{scores:?}");
        }
        let mut alone = [0.5, 0.4];
        lend(&mut alone, &[None, Some(&near)], 0.5);
        assert!(alone.iter().zip([0.5, 0.4]).all(|(score, expected)| (score - expected).abs() < 1e-9), "{alone:?}");
        lend(&mut [], &[], 0.5);
    }

    #[test]
    fn a_cosine_is_a_number_between_none_and_all() {
        assert_eq!(cosine(&[3.0, 4.0], &[3.0, 4.0]), Some(1.0));
        assert_eq!(cosine(&[1.0, 0.0], &[-1.0, 0.0]), Some(0.0));
        assert_eq!(cosine(&[1.0], &[1.0, 0.0]), None);
        assert_eq!(cosine(&[0.0], &[0.0]), None);
    }
}
