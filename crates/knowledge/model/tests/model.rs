//! Compares the bundled model with the original one.

#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is the answer")]

use minilm::{DIMENSIONS, Model, Scratch, TOKENS_MAX, TokenizedText};
use sha2::{Digest, Sha256};

#[derive(serde::Deserialize)]
struct Golden {
    text: String,
    pieces: Vec<u16>,
}

/// Texts, their word pieces, and the vectors of the original model with float weights: see `golden/make.py`.
fn golden() -> Vec<(Golden, Vec<f32>)> {
    let texts: Vec<Golden> = serde_json::from_str(include_str!("golden/texts.json")).unwrap();
    let numbers: Vec<f32> = include_bytes!("golden/vectors.i16")
        .as_chunks()
        .0
        .iter()
        .map(|two| f32::from(i16::from_le_bytes(*two)) / 32767.0)
        .collect();
    assert_eq!((texts.len(), numbers.len()), (200, 200 * DIMENSIONS));
    texts.into_iter().zip(numbers.chunks_exact(DIMENSIONS).map(<[f32]>::to_vec)).collect()
}

fn dot(one: &[f32], other: &[f32]) -> f64 {
    one.iter().zip(other).map(|(one, other)| f64::from(*one) * f64::from(*other)).sum()
}

#[test]
fn the_file_is_the_one_that_the_script_makes() {
    let sum = Sha256::digest(include_bytes!("../all-minilm-l6-v2.q8"));
    let named = include_str!("../SHA256SUMS").lines().find_map(|line| line.strip_suffix("  all-minilm-l6-v2.q8"));
    let hex = sum.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    assert_eq!(named, Some(hex.as_str()));
}

#[test]
fn texts_are_cut_like_the_original_cuts_them() {
    let model = Model::bundled().unwrap();
    for (golden, _) in golden() {
        assert_eq!(model.tokens(&golden.text).pieces(), golden.pieces, "{:?}", golden.text);
    }
}

#[test]
fn embeddings_agree_with_the_original_float_model() {
    let model = Model::bundled().unwrap();
    let golden = golden();
    let texts: Vec<TokenizedText> = golden.iter().map(|(golden, _)| model.tokens(&golden.text)).collect();
    let vectors = model.embed(&texts, &mut Scratch::default());
    for ((golden, expected), vector) in golden.iter().zip(&vectors) {
        let cosine = dot(vector, expected) / dot(expected, expected).sqrt();
        assert!(cosine >= 0.999, "{cosine} for {:?}", golden.text);
        assert!((dot(vector, vector) - 1.0).abs() < 1e-5);
    }
}

#[test]
fn neighbours_and_order_do_not_change_a_vector() {
    let model = Model::bundled().unwrap();
    let texts: Vec<TokenizedText> = golden().iter().map(|(golden, _)| model.tokens(&golden.text)).collect();
    let mut scratch = Scratch::default();
    let together = model.embed(&texts, &mut scratch);
    let mut backwards = texts.clone();
    backwards.reverse();
    let backwards = model.embed(&backwards, &mut scratch);
    for ((text, one), other) in texts.iter().zip(&together).zip(backwards.iter().rev()) {
        let alone = &model.embed(std::slice::from_ref(text), &mut scratch)[0];
        for ((one, other), alone) in one.iter().zip(other).zip(alone) {
            assert!((one - other).abs() < 1e-5 && (one - alone).abs() < 1e-5);
        }
    }
}

#[test]
fn meaning_is_nearer_than_words() {
    let model = Model::bundled().unwrap();
    let texts = ["How do I get my money back?", "Refunds are paid within a week.", "How do I get back to the station?"];
    let vectors = model.embed(&texts.map(|text| model.tokens(text)), &mut Scratch::default());
    assert!(dot(&vectors[0], &vectors[1]) > dot(&vectors[0], &vectors[2]));
}

#[test]
fn a_long_text_is_read_up_to_the_last_piece_that_fits() {
    let model = Model::bundled().unwrap();
    let long = "word ".repeat(100_000);
    assert_eq!(model.tokens(&long).len(), TOKENS_MAX);
    assert_eq!(model.tokens(&long), model.tokens(&long[..5 * 254]));
    assert_ne!(model.tokens(&long), model.tokens(&long[..5 * 253]));
}
