//! attache: a self-hosted server that gives software agents and computers a person's account to attach to, that person's consent to act
//! under, and a tamper-evident record of what they did.
//!
//! This crate is the door: HTTP, the operator's listener, the command line. It knows the floors below (`actors`, `store`, `statistics`,
//! `domain`); none of them knows it. `ARCHITECTURE.md` shows the whole house.

pub mod admin;
pub mod app;
pub mod cli;
pub mod config;
pub mod http;
pub mod installation;
pub mod knowledge;
pub mod server;
pub mod telemetry;
pub mod usage;
pub mod web;
