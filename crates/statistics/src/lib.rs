//! The statistics service of attache: its contract, the client of an external service, and the embedded service.
//!
//! | module | content |
//! |---|---|
//! | [`contract`] | requests to a statistics service, and their responses |
//! | [`client`], [`breaker`] | an external service behind HTTP |
//! | [`archive`] | an object store with the bodies of old events |
//! | [`log`] | the embedded service: append-only, sequenced, signed |
//! | [`parts`] | the logs of several servers as one service |
//! | [`witness`] | the client of a witness, which cosigns checkpoints |
//!
//! The crate `proofs` has the tree, its leaves and the proofs.

#[macro_use(boxed)]
extern crate domain;

pub mod archive;
pub mod breaker;
pub mod client;
pub mod contract;
pub mod log;
pub mod parts;
pub mod trace;
pub mod witness;
