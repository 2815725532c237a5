//! Device codes on the real store and real actors: concurrent answers and pacing of polls. Also: how a claim finds changes without a
//! hint.

#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is the answer")]

mod answers;
mod claims;
mod node;
mod pacing;
