//! The statistics service of attache.

pub mod breaker;
pub mod checkpoint;
pub mod contract;
pub mod leaf;
pub mod merkle;
pub mod proof;
