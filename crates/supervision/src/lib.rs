//! Supervised actors on ractor.
//!
//! ractor has mailboxes and notifies a supervisor of an actor's end. It does not restart actors, a restarted actor has a new address, and
//! its mailboxes are unbounded. This crate adds for every kind of actor:
//!
//! * [`Handle`], an address that stays valid while its actor is restarted. Every message takes a place in a bounded mailbox, every request
//!   has a deadline, and an actor that stopped answering is killed, so that its supervisor restarts it.
//! * [`Directory`], the same for kinds with one actor for each key ([`KeyedActor`]): started by the first message, only a few bytes while
//!   idle, passivated after a time, and quarantined per key after repeated crashes.
//! * [`Root`], which starts a list of children from first to last, restarts those that fail within a budget ([`RestartPolicy`]), and drains
//!   them from last to first.
//! * [`periodic`], an actor for passes that run at intervals, and [`commit`], an actor that groups durable writes.
//!
//! A request that cannot be answered fails with [`Unavailable`], which gives the reason and the delay before a retry. The product names its
//! kinds with an enum that implements [`Kind`]. `examples/ping.rs` shows the smallest tree.

mod address;
mod causes;
pub mod commit;
mod detached;
pub mod directory;
mod family;
pub mod handle;
mod jitter;
pub mod keyed;
mod kind;
mod mailbox;
pub mod periodic;
pub mod restart;
pub mod root;
pub mod settings;
mod times;
mod unavailable;

pub use causes::{current_request, name_requests};
pub use detached::detached;
pub use directory::{AskError, Directory};
pub use handle::Handle;
pub use jitter::Jitter;
pub use keyed::{ActorError, Facts, KeyedActor, SelfRef};
pub use kind::Kind;
pub use mailbox::Reply;
pub use restart::{Decision, RestartPolicy, RestartSettings};
pub use root::{ChildSpec, Node, Root, RootSettings, TreeExit};
pub use settings::ActorSettings;
pub use unavailable::Unavailable;
