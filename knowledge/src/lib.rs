//! From bytes to meaning: what stands between an address that somebody pasted and the passage that somebody finds.
//!
//! No actors live here. Whoever adds goes through the first six rooms ([`prepare`] walks them in order), whoever searches through the
//! others.
//!
//! | room | what happens there |
//! |---|---|
//! | [`fetch`] | an address becomes bytes, and nothing but the public web is reached |
//! | [`extract`] | bytes become Markdown, in a process that can be killed |
//! | [`filter`] | what an account does not want is left out |
//! | [`chunk`] | Markdown becomes passages |
//! | [`embed`] | passages become vectors |
//! | [`prepare`] | all of this, for one item of a batch |
//! | [`backfill`] | vectors for passages that have none |
//! | [`index`] | vectors in memory, as the store has them |
//! | [`search`] | passages are found again, by meaning and by word |

pub mod backfill;
pub mod chunk;
pub mod embed;
pub mod extract;
pub mod fetch;
pub mod filter;
pub mod index;
pub mod prepare;
pub mod search;

pub use prepare::{Draft, Pipeline, Prepared};
