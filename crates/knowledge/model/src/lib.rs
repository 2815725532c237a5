//! The bundled sentence model all-MiniLM-L6-v2 (`docs/decisions/0023-vectors.md`), from text to 384
//! numbers.
//!
//! ```text
//! text ─ wordpiece ─> numbers of word pieces ─ encoder ─> one vector per piece ─ mean, unit length ─> embedding
//!                                                 │
//!                              arithmetic: products with 8-bit weights, softmax, gelu, layer norm
//! ```
//!
//! The weights are part of the binary and never unpacked as a whole: a strip of a matrix is converted to floats right
//! before it is multiplied, so that all layers (11 MB) stay in the processor's cache. Instruction sets are selected at
//! run time. All functions are synchronous and use one thread; the caller decides how many run concurrently.

mod arithmetic;
mod encoder;
mod shape;
mod weights;
mod wordpiece;

use encoder::Encoder;
use weights::Weights;
use wordpiece::WordPiece;

pub use encoder::Scratch;
pub use shape::{DIMENSIONS, TOKENS_MAX};
pub use weights::InvalidModel;

/// Name of the model.
pub const NAME: &str = "all-MiniLM-L6-v2";

static FILE: &[u8] = include_bytes!("../all-minilm-l6-v2.q8");

/// The loaded model. Immutable, so that threads can share it.
#[derive(Debug)]
pub struct Model {
    pieces: WordPiece,
    encoder: Encoder,
}

/// A tokenised text of 2 to [`TOKENS_MAX`] word pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenizedText(Vec<u16>);

impl TokenizedText {
    /// Number of word pieces, to which the work is proportional.
    #[expect(clippy::len_without_is_empty, reason = "the marks at both ends are always there")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The numbers of the pieces in the model's vocabulary.
    pub fn pieces(&self) -> &[u16] {
        &self.0
    }
}

impl Model {
    /// Loads the bundled model, which takes some milliseconds to index the vocabulary.
    pub fn bundled() -> Result<Self, InvalidModel> {
        Self::read(FILE)
    }

    fn read(file: &'static [u8]) -> Result<Self, InvalidModel> {
        let weights = Weights::read(file)?;
        Ok(Self { pieces: WordPiece::new(weights.text("vocabulary")?)?, encoder: Encoder::new(&weights)? })
    }

    /// Splits a text into word pieces.
    pub fn tokens(&self, text: &str) -> TokenizedText {
        TokenizedText(self.pieces.cut(text, TOKENS_MAX))
    }

    /// Computes one vector of [`DIMENSIONS`] numbers and length 1 for each text, in their order.
    ///
    /// Texts of different lengths can be combined without overhead. Memory grows by about 14 KB per token; `scratch` is
    /// that memory, reused between calls.
    pub fn embed(&self, texts: &[TokenizedText], scratch: &mut Scratch) -> Vec<Vec<f32>> {
        let texts: Vec<&[u16]> = texts.iter().map(|text| text.0.as_slice()).collect();
        self.encoder.encode(&texts, scratch)
    }
}
