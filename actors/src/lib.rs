//! Everything that lives in attache: supervision first, then one file per actor.
//!
//! ractor gives mailboxes and tells a supervisor who died; it restarts nothing by itself, a restarted actor has a new address, and
//! its mailboxes have no bound. This crate adds what is missing, once, for every actor of the house:
//!
//! * [`Handle`] is an address that stays the same while its actor is restarted. Every message takes a place in a bounded queue, every
//!   question has a deadline, and an actor that stopped answering is killed, so that its supervisor starts it afresh.
//! * [`Directory`] does the same for actors of which there is one per key ([`KeyedActor`]): activated by the first message, bytes rather than
//!   a task while they are idle, passivated when they stay so, quarantined alone when one key keeps panicking.
//! * [`Root`] starts a list of children from top to bottom, restarts those that die inside a budget ([`RestartPolicy`]), and ends
//!   by draining them from bottom to top.
//!
//! Whoever cannot be answered gets an [`Unavailable`] that says why and when to come back.

pub mod anchor;
pub mod append;
pub mod backfill;
pub mod budget;
pub mod claim;
pub mod commit;
mod detached;
pub mod device;
pub mod directory;
mod family;
pub mod handle;
mod infra_error;
pub mod ingest;
pub mod intake;
pub mod janitor;
pub mod keyed;
pub mod lookup;
pub mod mail;
pub mod meter;
pub mod outbox;
pub mod periodic;
pub mod presence;
pub mod restart;
pub mod root;
pub mod sequence;
pub mod settings;
pub mod signin;
pub mod upstream;
pub mod watch;

pub use detached::detached;
pub use directory::{AskError, Directory};
pub use handle::{Handle, Reply, Unavailable};
pub use infra_error::InfraError;
pub use keyed::{ActorError, KeyedActor, SelfRef};
pub use restart::{Decision, RestartPolicy, RestartSettings};
pub use root::{ChildSpec, Node, Root, RootSettings, TreeExit};
pub use settings::ActorSettings;
