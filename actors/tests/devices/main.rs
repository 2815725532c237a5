//! Device codes on the real store and real actors: who gets the computer when everybody answers at once, and how polls are paced.

#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is the answer")]

mod answers;
mod node;
mod pacing;
