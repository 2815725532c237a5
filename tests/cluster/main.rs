//! Several nodes on one PostgreSQL, under load, while a node or the database fails (`docs/promises.md`, P1 to P3, P25 and P29).
//!
//! | module | content |
//! |---|---|
//! | [`world`] | nodes with separate folders and addresses, and the database that they share |
//! | [`load`] | senders: each resends the same bytes until they are acknowledged |
//! | [`availability`] | how long an undisturbed node accepted no event |
//! | [`observer`] | reads the checkpoints of all nodes continuously |
//! | [`ledger`], [`judge`] | all acknowledged events, and their comparison with the rows of PostgreSQL |
//! | [`merkle`], [`note`] | RFC 6962 and signed notes, written for these tests and independent of the server |
//!
//! The other modules have a kind of fault each. `ATTACHE_SOAK=1` runs long faults and asserts the availability that is promised; without it
//! faults last seconds, and only a stall far beyond the promise fails. `ATTACHE_SEED` repeats the choices of an earlier run.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod administrator;
mod archive;
mod availability;
mod clocks;
mod connections;
mod deaths;
mod freezes;
mod judge;
mod ledger;
mod load;
mod locks;
mod merkle;
mod note;
mod observer;
mod parts;
mod postgres;
mod rolling;
mod scale;
mod tuning;
mod versions;
mod world;
