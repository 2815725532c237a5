//! The promises about events, under kill −9 at any moment (`promises.md`, P1 to P3).
//!
//! The test is the oracle: it stands outside of the server's process, remembers every event that it sent and every answer that it got,
//! and compares that in the end with what the server shows. `ATTACHE_SOAK=1` makes the rounds many; `ATTACHE_SEED` repeats the choices
//! of an earlier run (its scheduling it cannot).

#![expect(clippy::unwrap_used, reason = "what is not as it must be fails the test")]

mod batches;
#[expect(dead_code, reason = "shared with tests that need more of it")]
mod client;
#[path = "../api/event.rs"]
#[expect(dead_code, reason = "shared with tests that need more of it")]
mod event;
mod ledger;
mod library;
mod oracle;
#[expect(dead_code, reason = "shared with tests that need more of it")]
mod process;
mod sender;
mod soak;
#[path = "../api/knowledge/stream.rs"]
mod stream;
