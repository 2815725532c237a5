//! The encoder: six transformer layers (Devlin et al., BERT, 2018), over all texts of a call at once.
//!
//! Texts are concatenated without padding. Only attention depends on the boundaries between texts.

use pulp::Arch;

use crate::arithmetic::pointwise::{AddAndNorm, Gelu, Softmax, unit_mean};
use crate::arithmetic::{PackBuffers, Product, RightOperand};
use crate::shape::{DIMENSIONS, TOKENS_MAX};
use crate::weights::{BLOCK, InvalidModel, Matrix, Weights};

const WORDS: usize = 30_522;
const LAYERS: usize = 6;
const HEADS: usize = 12;
const HEAD: usize = DIMENSIONS / HEADS;
const WIDE: usize = 4 * DIMENSIONS;
/// Width of a row with query, key and value of a token.
const TRIPLE: usize = 3 * DIMENSIONS;
/// The widest strip of a product's result.
const STRIP: usize = 32;

/// The weights of the encoder by layer.
#[derive(Debug)]
pub struct Encoder {
    words: Matrix,
    positions: Vec<f32>,
    norm: Norm,
    layers: Vec<Layer>,
}

#[derive(Debug)]
struct Layer {
    triple: Dense,
    attended: Dense,
    attended_norm: Norm,
    wide: Dense,
    narrow: Dense,
    narrow_norm: Norm,
}

#[derive(Debug)]
struct Dense {
    weights: Matrix,
    bias: Vec<f32>,
}

#[derive(Debug)]
struct Norm {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

/// Buffers of a computation, reused between calls.
#[derive(Debug, Default)]
pub struct Scratch {
    tokens: Vec<f32>,
    triples: Vec<f32>,
    attended: Vec<f32>,
    scores: Vec<f32>,
    sums: Vec<f32>,
    wide: Vec<f32>,
    change: Vec<f32>,
    room: PackBuffers,
}

impl Encoder {
    /// Reads all tensors of the model.
    pub fn new(weights: &Weights) -> Result<Self, InvalidModel> {
        Ok(Self {
            words: weights.matrix("words", WORDS, DIMENSIONS)?,
            positions: weights.floats("positions", TOKENS_MAX * DIMENSIONS)?,
            norm: Norm::new(weights, "norm")?,
            layers: (0..LAYERS).map(|number| Layer::new(weights, number)).collect::<Result<_, _>>()?,
        })
    }

    /// Computes one unit vector per text. The caller ensures that pieces are in the vocabulary and that no text has
    /// more than [`TOKENS_MAX`].
    pub fn encode(&self, texts: &[&[u16]], scratch: &mut Scratch) -> Vec<Vec<f32>> {
        let tokens = texts.iter().map(|text| text.len()).sum::<usize>();
        scratch.fit(tokens, texts.iter().map(|text| text.len()).max().unwrap_or(0));
        let places = texts.iter().flat_map(|text| text.iter().zip(self.positions.chunks_exact(DIMENSIONS)));
        for (row, (word, position)) in scratch.tokens.chunks_exact_mut(DIMENSIONS).zip(places) {
            self.look_up(usize::from(*word), position, row);
        }
        self.norm.apply(&mut scratch.tokens, None);
        for layer in &self.layers {
            layer.attend(texts, scratch);
            layer.widen(scratch);
        }
        let mut rest = scratch.tokens.as_slice();
        let vectors = texts.iter().map(|text| {
            let (rows, after) = rest.split_at(text.len() * DIMENSIONS);
            rest = after;
            unit_mean(rows)
        });
        vectors.collect()
    }

    fn look_up(&self, word: usize, position: &[f32], row: &mut [f32]) {
        let integers = &self.words.integers[word * DIMENSIONS..][..DIMENSIONS];
        let scales = self.words.scales[word * DIMENSIONS / BLOCK..].iter().flat_map(|scale| [scale; BLOCK]);
        for (((value, integer), scale), position) in row.iter_mut().zip(integers).zip(scales).zip(position) {
            *value = f32::from(integer.cast_signed()) * scale + position;
        }
    }
}

impl Layer {
    fn new(weights: &Weights, number: usize) -> Result<Self, InvalidModel> {
        let dense = |name, inputs, outputs| Dense::new(weights, &format!("{number}.{name}"), inputs, outputs);
        let norm = |name| Norm::new(weights, &format!("{number}.{name}"));
        Ok(Self {
            triple: dense("triple", DIMENSIONS, TRIPLE)?,
            attended: dense("attended", DIMENSIONS, DIMENSIONS)?,
            attended_norm: norm("attended.norm")?,
            wide: dense("wide", DIMENSIONS, WIDE)?,
            narrow: dense("narrow", WIDE, DIMENSIONS)?,
            narrow_norm: norm("narrow.norm")?,
        })
    }

    /// Self-attention within each text.
    fn attend(&self, texts: &[&[u16]], scratch: &mut Scratch) {
        let Scratch { tokens, triples, attended, scores, sums, change, room, .. } = scratch;
        self.triple.apply(tokens, triples, TRIPLE, room);
        let mut start = 0;
        for text in texts {
            for head in 0..HEADS {
                let (triples, at) = (&triples[start * TRIPLE..], head * HEAD);
                let attended = &mut attended[start * DIMENSIONS + at..];
                attend_one(
                    text.len(),
                    [at, DIMENSIONS + at, 2 * DIMENSIONS + at].map(|at| &triples[at..]),
                    attended,
                    scores,
                    sums,
                    room,
                );
            }
            start += text.len();
        }
        self.attended.apply(attended, change, DIMENSIONS, room);
        self.attended_norm.apply(tokens, Some(change));
    }

    /// The feed-forward network of each token.
    fn widen(&self, scratch: &mut Scratch) {
        let Scratch { tokens, wide, change, room, .. } = scratch;
        self.wide.apply(tokens, wide, WIDE, room);
        Arch::new().dispatch(Gelu(wide));
        self.narrow.apply(wide, change, DIMENSIONS, room);
        self.narrow_norm.apply(tokens, Some(change));
    }
}

/// One head on one text: `softmax(query · keyᵀ / √32) · value`
fn attend_one(
    count: usize,
    [query, key, value]: [&[f32]; 3],
    out: &mut [f32],
    scores: &mut [f32],
    sums: &mut Vec<f32>,
    room: &mut PackBuffers,
) {
    let stride = count.next_multiple_of(STRIP);
    let scores = &mut scores[..count * stride];
    let right = RightOperand::Columns(key, TRIPLE);
    let product = Product {
        left: query,
        left_stride: TRIPLE,
        rows: count,
        inner: HEAD,
        right,
        columns: count,
        bias: None,
        out: scores,
        out_stride: stride,
        room,
    };
    product.compute();
    #[expect(clippy::cast_precision_loss, reason = "32 is 32")]
    let scale = (HEAD as f32).sqrt().recip();
    Arch::new().dispatch(Softmax { rows: scores, stride, count, scale, sums });
    let right = RightOperand::Rows(value, TRIPLE);
    let product = Product {
        left: scores,
        left_stride: stride,
        rows: count,
        inner: count,
        right,
        columns: HEAD,
        bias: None,
        out,
        out_stride: DIMENSIONS,
        room,
    };
    product.compute();
    for (row, sum) in out.chunks_mut(DIMENSIONS).zip(sums) {
        for value in &mut row[..HEAD] {
            *value /= *sum;
        }
    }
}

impl Dense {
    fn new(weights: &Weights, name: &str, inputs: usize, outputs: usize) -> Result<Self, InvalidModel> {
        let bias = weights.floats(&format!("{name}.bias"), outputs)?;
        Ok(Self { weights: weights.matrix(&format!("{name}.weight"), inputs, outputs)?, bias })
    }

    fn apply(&self, values: &[f32], out: &mut [f32], out_stride: usize, room: &mut PackBuffers) {
        let columns = self.weights.columns;
        let inner = self.weights.integers.len() / columns;
        let product = Product {
            left: values,
            left_stride: inner,
            rows: values.len() / inner,
            inner,
            right: RightOperand::Weights(&self.weights),
            columns,
            bias: Some(&self.bias),
            out,
            out_stride,
            room,
        };
        product.compute();
    }
}

impl Norm {
    fn new(weights: &Weights, name: &str) -> Result<Self, InvalidModel> {
        let floats = |part| weights.floats(&format!("{name}.{part}"), DIMENSIONS);
        Ok(Self { weight: floats("weight")?, bias: floats("bias")? })
    }

    fn apply(&self, rows: &mut [f32], more: Option<&[f32]>) {
        Arch::new().dispatch(AddAndNorm { rows, more, weight: &self.weight, bias: &self.bias });
    }
}

impl Scratch {
    fn fit(&mut self, tokens: usize, longest: usize) {
        for rows in [&mut self.tokens, &mut self.attended, &mut self.change] {
            rows.resize(tokens * DIMENSIONS, 0.0);
        }
        self.triples.resize(tokens * TRIPLE, 0.0);
        self.wide.resize(tokens * WIDE, 0.0);
        self.scores.resize(longest * longest.next_multiple_of(STRIP), 0.0);
    }
}
