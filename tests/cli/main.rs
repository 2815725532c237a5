//! The command line: the real program, real files, and where it matters a real server beside it.
//!
//! Every command is here with every way in which it can fail; what an operator does is looked at from the living server.

#![expect(clippy::unwrap_used, reason = "what is not as it must be fails the test")]

#[path = "../crash/client.rs"]
mod client;
#[path = "../api/event.rs"]
#[expect(dead_code, reason = "shared with tests that need more of it")]
mod event;
#[path = "../crash/process.rs"]
#[expect(dead_code, reason = "shared with tests that need more of it")]
mod process;
#[path = "../api/knowledge/site.rs"]
mod site;

mod account;
mod activity;
mod add;
mod admin;
mod agent;
mod attach;
mod audit;
mod backup;
mod configuration;
mod demo;
mod doctor;
mod event_again;
mod event_send;
mod event_tail;
mod flow;
mod held;
mod installation;
mod keys;
mod manual;
mod profile;
mod proof;
#[cfg(target_os = "linux")]
mod sandbox;
mod search;
mod secrets;
mod serve;
mod verify;
