//! Tests of the embedded log, each on SQLite and on PostgreSQL.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod archive;
mod audit;
mod compare;
mod contended;
mod days;
mod epoch;
mod health;
mod index;
mod log;
mod order;
mod parts;
mod recorded;
mod replica;
mod sessions;
mod summaries;
mod tiles;
mod tree;
mod usage;
mod versions;
mod world;
mod writer;
