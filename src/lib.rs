//! attache: a self-hosted server that gives software agents and computers a person's account to attach to, that person's consent to act
//! under, and a tamper-evident record of what they did.
//!
//! This crate contains the process: [`server`] (the listeners), [`admin`] (the operator's listener) and [`cli`] (the command line). The
//! surfaces are separate crates: `api` (the APIs) and `web` (the pages). They present the use cases of `app`, which also builds the running
//! components. The crates below (`actors`, `store`, `statistics`, `knowledge`, `domain`) depend on none of these. `ARCHITECTURE.md` shows
//! all crates.

pub mod admin;
pub mod cli;
pub mod server;
