//! The sizes of the model.

/// Numbers of an embedding.
pub const DIMENSIONS: usize = 384;

/// Word pieces of a text that are looked at, the two marks at its ends included; what follows is ignored.
pub const TOKENS_MAX: usize = 256;
