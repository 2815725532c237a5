//! Search on both databases, with a model simple enough to compute its vectors by hand.
#![expect(clippy::unwrap_used, reason = "the bodies of the tests are outside of the functions that run them")]

mod agreement;
mod common;
mod cranfield;
mod crowd;
mod languages;
mod laws;
mod remembered;
mod world;
