//! From bytes to meaning: what stands between an address that somebody pasted and the passage that somebody finds.
//!
//! No actors live here. Whoever adds walks down the list, whoever searches uses its last three rooms.
//!
//! | room | what it does |
//! |---|---|
//! | [`backfill`] | vectors for what has none |
//! | [`index`] | vectors in memory, a cache of the store |
//! | [`search`] | finding again, by meaning and by word |

pub mod backfill;
pub mod index;
pub mod search;
