//! Sizes of the model's input and output.

/// Numbers per embedding.
pub const DIMENSIONS: usize = 384;

/// Maximum number of word pieces of a text, including the two marks at its ends; the rest of the text is ignored.
pub const TOKENS_MAX: usize = 256;
