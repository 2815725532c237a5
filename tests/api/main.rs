//! Black box: the real server on a free port, real sockets, one test binary.
//!
//! Every file is a noun of the specification; every test is a row of its tables, named by the law it shows. `both!` runs a law on SQLite
//! and on PostgreSQL.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod browser;
mod contract;
mod event;
mod raw;
mod world;

mod account;
mod activity;
mod agent_auth;
mod api_keys;
mod audit;
mod budgets;
mod clients;
mod consent;
mod credentials;
mod device;
mod discovery;
mod events;
mod guide;
mod heads;
mod http;
mod identities;
mod knowledge;
mod machines;
mod mail;
mod oidc;
mod openapi;
mod pressure;
mod sessions;
mod signin;
mod story;
mod tenants;
mod upstream;
mod usage;
