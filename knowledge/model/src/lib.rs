//! The sentence model that attache brings along: all-MiniLM-L6-v2 (`docs/decisions/0039-bundled-embedding-model.md`), from text to 384 numbers.
//!
//! ```text
//! text ─ wordpiece ─> numbers of word pieces ─ encoder ─> one vector per piece ─ mean, unit length ─> embedding
//!                                                 │
//!                              arithmetic: products with 8-bit weights, softmax, gelu, layer norm
//! ```
//!
//! The weights lie in the program itself and are never unpacked as a whole: a strip of a matrix becomes floats when it is about to
//! be multiplied, which keeps all layers (11 MB) inside a processor's cache. Instructions are chosen when the program runs.
//! Everything here is synchronous and uses one thread: whoever calls decides how many run side by side.

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
pub use weights::Broken;

/// What the model is called.
pub const NAME: &str = "all-MiniLM-L6-v2";

static FILE: &[u8] = include_bytes!("../all-minilm-l6-v2.q8");

/// The model, ready to run. Never changes: share it between threads.
#[derive(Debug)]
pub struct Model {
    pieces: WordPiece,
    encoder: Encoder,
}

/// A text as the model reads it: 2 to [`TOKENS_MAX`] word pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokens(Vec<u16>);

impl Tokens {
    /// How many word pieces: what the work grows with.
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
    /// The model inside this program. Takes some milliseconds: the vocabulary is indexed.
    pub fn bundled() -> Result<Self, Broken> {
        Self::read(FILE)
    }

    fn read(file: &'static [u8]) -> Result<Self, Broken> {
        let weights = Weights::read(file)?;
        Ok(Self { pieces: WordPiece::new(weights.text("vocabulary")?)?, encoder: Encoder::new(&weights)? })
    }

    /// Cuts a text into word pieces.
    pub fn tokens(&self, text: &str) -> Tokens {
        Tokens(self.pieces.cut(text, TOKENS_MAX))
    }

    /// One vector of [`DIMENSIONS`] numbers and length 1 for each text, in their order.
    ///
    /// Texts of any lengths go together without loss. Memory grows with the tokens of all texts: about 14 KB each. `scratch` is that
    /// memory, kept from call to call.
    pub fn embed(&self, texts: &[Tokens], scratch: &mut Scratch) -> Vec<Vec<f32>> {
        let texts: Vec<&[u16]> = texts.iter().map(|text| text.0.as_slice()).collect();
        self.encoder.encode(&texts, scratch)
    }
}
