//! The statistics service of attache: its contract, the client of an external service, and the embedded service.
//!
//! | module | content |
//! |---|---|
//! | [`contract`] | requests to a statistics service, and their responses |
//! | [`client`], [`breaker`] | an external service behind HTTP |
//! | [`log`] | the embedded service: append-only, sequenced, signed |
//! | [`witness`] | the client of a witness, which cosigns checkpoints |
//! | [`merkle`], [`leaf`], [`checkpoint`] | RFC 6962 tree, its leaves, C2SP signed notes |
//! | [`proof`] | the audit proof, and its offline verification |
//! | [`audit_receipt`] | the audit receipt: many events, one checkpoint, one block of Markdown |

#[macro_use(boxed)]
extern crate domain;

pub mod audit_receipt;
pub mod breaker;
pub mod client;
pub mod contract;
pub mod leaf;
pub mod log;
pub mod merkle;
pub mod proof;
pub mod trace;
pub mod witness;

pub use domain::checkpoint;
