//! The actors of the server, one file for each.
//!
//! [`ActorKind`] lists the kinds, in the order in which they are started. [`supervision`] has the addresses ([`supervision::Handle`],
//! [`supervision::Directory`]), the restart policy and the root supervisor; `crates/app/src/supervised.rs` of the server builds the actors.

#[macro_use(boxed)]
extern crate domain;

pub mod agent_sessions;
pub mod anchor;
pub mod archive;
pub mod backfill;
pub mod budget;
pub mod claim;
pub mod device;
mod infra_error;
pub mod ingest;
pub mod intake;
pub mod janitor;
pub mod keys;
pub mod kind;
pub mod lookup;
pub mod mail;
pub mod meter;
pub mod node;
pub mod outbox;
pub mod presence;
pub mod rule;
pub mod sequence;
pub mod service_pause;
pub mod signin;
pub mod upstream;
pub mod watch;
pub mod webhook;
pub mod witness;

pub use infra_error::InfraError;
pub use kind::{ActorKind, PartKind, jitter};
pub use supervision::{Unavailable, detached};
