//! The knowledge pipeline: from URLs and notes to searchable chunks.
//!
//! Contains no actors. Adding an item uses the first six modules, which [`prepare`] calls in order; searching uses the
//! others.
//!
//! | module | task |
//! |---|---|
//! | [`fetch`] | fetches URLs, on the public web only |
//! | [`extract`], a separate crate, | converts pages and files to Markdown, in a separate process |
//! | [`filter`] | drops content that the account does not want |
//! | [`chunk`] | splits Markdown into chunks |
//! | [`embed`] | embeds chunks as vectors |
//! | [`prepare`] | runs these steps for one item of a batch |
//! | [`backfill`] | embeds chunks without a vector |
//! | [`index`] | finds the nearest vectors |
//! | [`search`] | finds chunks by meaning and by words |

#[macro_use(boxed)]
extern crate domain;

pub mod backfill;
mod blocking;
pub mod chunk;
pub mod embed;
pub mod fetch;
pub mod filter;
pub mod index;
pub mod prepare;
pub mod search;

pub use prepare::{ItemPosition, KnownText, MemoryDraft, Pipeline, Prepared, TextFault};
