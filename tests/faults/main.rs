//! Faults of the environment of the server: a full file system, input and output errors, a locked database, a stopped database server.
//!
//! The expectation is the same for each. During the fault, requests that need the failed part are refused, `/readyz` is 503 and names
//! the part, and no acknowledged data is lost. Soon after the fault all functions work again in the same process: events, sign-in,
//! registration of computers, batches. The test is the oracle, outside of the server's process.
//!
//! `ATTACHE_SOAK=1` runs many rounds.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod connections;
mod disk;
mod inject;
mod lock;
mod patient;
mod postgres;
