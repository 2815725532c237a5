//! Faults of the ground under the server: a full file system, input and output errors, a locked database, a database server that stops.
//!
//! The law is the same for each. While the fault lasts, requests that need what is broken are refused, `/readyz` answers 503 and names
//! the part, and nothing that was acknowledged is lost. Soon after the cause is gone everything works again in the same process: events,
//! sign-in, registration of computers, batches. The test is the oracle, outside of the server's process.
//!
//! `ATTACHE_SOAK=1` makes the rounds many.

#![expect(clippy::unwrap_used, reason = "what is not as it must be fails the test")]

#[path = "../crash/client.rs"]
#[expect(dead_code, reason = "shared with tests that need more of it")]
mod client;
#[path = "../api/event.rs"]
#[expect(dead_code, reason = "shared with tests that need more of it")]
mod event;
#[path = "../crash/ledger.rs"]
#[expect(dead_code, reason = "shared with tests that need more of it")]
mod ledger;
#[path = "../crash/library.rs"]
#[expect(dead_code, reason = "shared with tests that need more of it")]
mod library;
#[path = "../crash/oracle.rs"]
#[expect(dead_code, reason = "shared with tests that need more of it")]
mod oracle;
#[path = "../crash/process.rs"]
#[expect(dead_code, reason = "shared with tests that need more of it")]
mod process;
#[path = "../crash/sender.rs"]
mod sender;
#[path = "../api/knowledge/stream.rs"]
#[expect(dead_code, reason = "shared with tests that need more of it")]
mod stream;

mod disk;
mod inject;
mod lock;
mod patient;
mod postgres;
