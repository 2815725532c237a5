//! attache: a self-hosted server that gives software agents and computers a person's account to attach to, that person's consent to act
//! under, and a tamper-evident record of what they did.
//!
//! This crate contains the surfaces of the server and the wiring: [`http`] (the APIs), [`web`] (the pages), [`admin`] (the operator's
//! listener) and [`cli`] (the command line). They present the use cases of [`services`]. [`app`] builds what runs. The crates below (`actors`,
//! `store`, `statistics`, `knowledge`, `domain`) do not depend on this one. `ARCHITECTURE.md` shows the whole.

pub mod admin;
pub mod app;
pub mod cli;
pub mod config;
pub mod http;
pub mod installation;
pub mod phase;
pub mod server;
pub mod services;
pub mod telemetry;
pub mod web;
