//! Proofs of the statistics log, which anybody can verify offline.
//!
//! | module | content |
//! |---|---|
//! | [`merkle`], [`leaf`] | RFC 6962 tree, its leaves; [`domain::checkpoint`] has its signed notes |
//! | [`proof`] | the audit proof, and its verification |
//! | [`audit_receipt`] | the audit receipt: many events, one checkpoint, one block of Markdown |

pub mod audit_receipt;
pub mod leaf;
pub mod merkle;
pub mod proof;
