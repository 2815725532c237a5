//! One suite for both databases: every law here runs on SQLite and on PostgreSQL, and every method of the store is in it.
#![expect(clippy::unwrap_used, reason = "the bodies of the tests are outside of the functions that run them")]

mod accounts;
mod agents;
mod api_keys;
mod balance;
mod batches;
mod budgets;
mod changes;
mod closings;
mod common_words;
mod completeness;
mod connections;
mod copies;
mod devices;
mod filters;
mod held;
mod held_beside;
mod installation;
mod janitor;
mod library;
mod machines;
mod mails;
mod memories;
mod near;
mod nodes;
mod outbox;
mod passages;
mod probes;
mod replica;
mod schemas;
mod signin;
mod silence;
mod spaces;
mod tokens;
mod usage;
mod world;
