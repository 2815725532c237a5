//! Laws of supervision, tested on real actors with paused time.

#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is the answer")]
#![expect(clippy::needless_pass_by_value, clippy::unused_self, reason = "the form of a message handler")]

mod crowd;
mod directory;
mod drain;
mod handle;
mod log;
mod metrics;
mod periodic;
mod restart;
mod retune;
mod spans;
mod symptoms;
mod world;
