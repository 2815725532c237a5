//! Black-box tests of the HTTP API: the server on a free port, over real sockets.
//!
//! A file tests one object of the protocol, and a test one row of its tables or one rule. `on_each_database!` runs a test on SQLite and on
//! PostgreSQL, `on_sqlite!` on SQLite only; CONTRIBUTING.md, *Rules*, states which one a test uses. `tests/README.md` lists the tests of
//! each row of the protocol.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod account;
mod activity;
mod activity_pages;
mod agent_auth;
mod agent_sessions;
mod api_keys;
mod audit;
mod audit_links;
mod budgets;
mod clients;
mod consent;
mod console;
mod console_oidc;
mod credentials;
mod device;
mod discovery;
mod erasure;
mod events;
mod feeds;
mod guide;
mod heads;
mod http;
mod identities;
mod kept_alive;
mod knowledge;
mod live;
mod live_limits;
mod log_parts;
mod machines;
mod mail;
mod nodes;
mod oidc;
mod openapi;
mod ops;
mod ops_once;
mod ops_tap;
mod pauses;
mod pressure;
mod published;
mod queues;
mod rights;
mod rules;
mod sessions;
mod signin;
mod story;
mod tenants;
mod unavailable;
mod upstream;
mod usage;
mod webhooks;
