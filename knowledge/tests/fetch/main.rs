//! Fetching, against real sockets that behave well and badly.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod behaviour;
mod hostile;
mod world;
