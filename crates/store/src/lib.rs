//! SQL of the main database, with one text for SQLite and PostgreSQL (`docs/decisions/0026-store-and-actors.md`).
//!
//! The store is authoritative; an actor's memory is a cache of it. Every transition is a guarded write (`UPDATE … WHERE state =
//! 'live' …`, then a check of the affected rows), so that concurrent actors, processes or nodes cannot repeat it. Every statement
//! names the owner for whom it acts.
//!
//! | module | content |
//! |---|---|
//! | [`act`] | acts of operators |
//! | [`account`] | accounts, people, identities |
//! | [`balance`] | the ledger of purchased balances |
//! | [`machine`] | computers, their secrets, and their attachments |
//! | [`device`] | codes by which computers are attached |
//! | [`consent`] | consent levels |
//! | [`setting`] | overrides of live settings |
//! | [`operator`] | the changes of operators that each node follows |
//! | [`node_order`] | orders of operators to other nodes |
//! | [`service_pause`] | paused parts of the service |
//! | [`signin`] | sign-in codes |
//! | [`outbox`] | events of the service itself that wait to be forwarded |
//! | [`session`] | signed-in browsers |
//! | [`mail`] | queue of outgoing mail |
//! | [`claim`] | registrations of agents, and claim attempts |
//! | [`token`] | access tokens, keys of identity assertions |
//! | [`api_key`] | keys of the knowledge API |
//! | [`space`] | spaces and their members |
//! | [`filter`] | filter settings of accounts, and rejected content |
//! | [`batch`] | batches of the knowledge API |
//! | [`memory`] | pages and notes of the knowledge API |
//! | [`chunk`] | chunks of memories, and their search |
//! | [`key`] | the server's own keys |
//! | [`held`] | events that could not be forwarded |
//! | [`budget`] | quota usage of event senders per day |
//! | [`closing`] | accounts that are being closed |
//! | [`recorder`] | computers and identities that count as an account's usage |
//! | [`usage`] | usage by computer and day |
//! | [`janitor`] | retention |
//! | [`installation`] | the id of the installation, and the remembered checkpoint of its log |
//! | [`inventory`] | row counts |
//! | [`node`] | the nodes on this database |
//! | [`notice`] | notifications of account owners |
//! | [`webhook`] | endpoints of accounts, and the outbox of notifications |
//! | [`feed`] | feeds of accounts, and their entries |
//! | [`audit_link`] | links that show a session or a lane to others |
//! | [`rule`] | rules about recorded events, and the weekly digest |
//! | [`change`] | notifications to other processes about changed rows |
//! | [`pool`] | common interface of both databases |
//! | [`replica`] | a read replica of the database |

#[macro_use(boxed)]
extern crate domain;

pub mod account;
pub mod act;
pub mod api_key;
pub mod audit_link;
pub mod balance;
pub mod batch;
pub mod budget;
pub mod change;
pub mod chunk;
pub mod claim;
pub mod closing;
pub mod consent;
pub mod device;
pub mod error;
pub mod feed;
pub mod filter;
pub mod held;
pub mod installation;
pub mod inventory;
pub mod janitor;
pub mod key;
pub mod log_part;
pub mod machine;
pub mod mail;
pub mod memory;
pub mod node;
pub mod node_order;
pub mod notice;
pub mod operation;
pub mod operator;
pub mod operator_request;
pub mod outbox;
pub mod pool;
pub mod recorder;
pub mod replica;
pub mod rule;
pub mod service_pause;
pub mod session;
pub mod setting;
pub mod signin;
pub mod space;
pub mod token;
pub mod usage;
pub mod webhook;

mod handle;
mod probes;
mod row;

pub use error::{Context, Corrupt, StoreError};
pub use handle::Store;
pub use operation::{During, Operation};
pub use pool::{DatabaseSettings, OldTables, Pool, SchemaPlan};
pub use replica::Replica;
