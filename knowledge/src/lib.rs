//! From bytes to meaning: what stands between an address that somebody pasted and the passage that somebody finds.
//!
//! No actors live here. Whoever adds walks down the list, whoever searches uses its last three rooms.

pub mod chunk;
pub mod embed;
pub mod extract;
pub mod fetch;
pub mod filter;
pub mod index;
pub mod prepare;
pub mod search;

pub use prepare::{Draft, Pipeline, Prepared};
