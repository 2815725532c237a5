//! Only SQL: the main database of attache on disk, one text for SQLite and PostgreSQL (`docs/decisions/0026-store-and-actors.md`).
//!
//! The store is the truth: an actor's memory is a cache of it. Every transition is a guarded write (`UPDATE … WHERE state =
//! 'live' …`, then a look at the rows affected), so that a second actor, process or node can never do it twice, and every
//! statement names the owner for whom it acts.
//!
//! | noun | facts |
//! |---|---|
//! | [`account`] | accounts, people, identities |
//! | [`balance`] | the ledger of purchased balances |
//! | [`machine`] | computers, their secrets, whom they are attached to |
//! | [`device`] | codes by which computers are attached |
//! | [`consent`] | levels that people set |
//! | [`signin`] | codes that were mailed to sign people in |
//! | [`outbox`] | reports of changed consent that wait to be forwarded |
//! | [`session`] | signed-in browsers |
//! | [`mail`] | mails that wait to be sent |
//! | [`claim`] | registrations of agents and attempts to claim them |
//! | [`token`] | access tokens, keys of identity assertions |
//! | [`api_key`] | keys of the knowledge API |
//! | [`space`] | spaces, and who may do what there |
//! | [`filter`] | filter settings of accounts, and rejected content |
//! | [`batch`] | batches on their way into the knowledge API |
//! | [`memory`] | pages and notes of the knowledge API |
//! | [`chunk`] | their chunks, and what finds them |
//! | [`key`] | the server's own keys |
//! | [`held`] | events that could not be forwarded |
//! | [`budget`] | what senders without an account sent on a day |
//! | [`closing`] | accounts that are being closed |
//! | [`recorder`] | computers and identities that an account's usage is counted of |
//! | [`usage`] | usage by computer and day |
//! | [`janitor`] | retention |
//! | [`installation`] | the id of the installation, and the remembered checkpoint of its log |
//! | [`inventory`] | how much there is of everything |
//! | [`node`] | the servers on this database |
//! | [`notice`] | notifications of account owners |
//! | [`webhook`] | endpoints of accounts, and the outbox of notifications |
//! | [`feed`] | feeds of accounts, and their entries |
//! | [`change`] | hints to other processes that rows changed |
//! | [`pool`] | one way to either database |
//! | [`replica`] | a copy of the database that answers reads |

pub mod account;
pub mod api_key;
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
pub mod machine;
pub mod mail;
pub mod memory;
pub mod node;
pub mod notice;
pub mod operation;
pub mod outbox;
pub mod pool;
pub mod recorder;
pub mod replica;
pub mod session;
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
pub use pool::{DatabaseSettings, Pool};
pub use replica::Replica;
