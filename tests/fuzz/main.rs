//! Fuzzes parsers and verifiers of untrusted input with stored examples and their mutations, for a second each; with `ATTACHE_SOAK=1`
//! for minutes (see the crate `fuzz`). Private parsers are fuzzed in their own crate.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod extraction;
mod json;
mod log;
mod stream;
