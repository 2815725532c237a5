//! The promises about events under `kill -9` at any time (`docs/promises.md`, P1 to P3 and P13), and about nodes that stop orderly (P29).
//!
//! The first test is the oracle: outside of the server's process, it records every event that it sent and every response that it received,
//! and compares them at the end with the state of the server. `ATTACHE_SOAK=1` runs many rounds; `ATTACHE_SEED` repeats the choices
//! of an earlier run, but not its scheduling.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod batches;
mod handover;
mod memory;
mod mixed;
mod soak;
mod tuning;
