//! Parsers and verifiers of what strangers send, given kept examples and mutations of them for a second each; with `ATTACHE_SOAK=1` for
//! minutes (see the crate `fuzz`). Those that only their own crate can reach are fuzzed there.

#![expect(clippy::unwrap_used, reason = "what is not as it must be fails the test")]

mod extraction;
mod json;
mod log;
mod stream;
