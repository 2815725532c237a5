//! Device codes on the real store and real actors: who gets the computer when everybody answers at once, and how polls are paced. And how
//! a claim learns of changes without a notification.

#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is the answer")]

mod answers;
mod claims;
mod node;
mod pacing;
