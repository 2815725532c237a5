//! The command line: the program as a child process with real files, and a server where a command needs one.
//!
//! Each command is tested with each of its failures; effects of operator commands are checked on the running server.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod account;
mod activity;
mod acts;
mod add;
mod add_folder;
mod admin;
mod agent;
mod archive;
mod attach;
mod audit;
mod backup;
mod client;
mod configuration;
mod connect;
mod demo;
mod doctor;
mod engines;
mod event_again;
mod event_send;
mod event_tail;
mod failure;
mod fork;
mod held;
mod hook;
mod hook_consent;
mod hostile_server;
mod installation;
mod keys;
mod log_parts;
mod login;
mod manual;
mod mcp;
mod memory_database;
mod nodes;
mod objects;
mod ops;
mod otlp;
mod overrides;
mod profile;
mod proof;
mod real_tools;
mod receipt;
#[cfg(target_os = "linux")]
mod sandbox;
mod search;
mod secrets;
mod serve;
mod session;
mod tap;
mod top;
mod verify;
mod witness;
