//! The client's commands, and what both programs share: `attache`, which contains the server too, and `attache-client`.
//!
//! [`client`] lists the commands, which have a file each. [`failure::FailureKind`] lists the exit codes. Results are printed to standard
//! output, progress and errors to standard error.

mod account;
mod activity;
pub mod add;
pub mod agent;
pub mod api_key;
mod approval_prompt;
mod attach;
mod audit;
pub mod client;
mod connect;
pub mod connection;
mod consent;
mod costs;
pub mod ending;
pub mod event;
pub mod examples;
pub mod failure;
pub mod help;
pub mod hook;
mod import;
mod login;
pub mod machine;
mod manual;
mod mcp;
pub mod moment;
mod open;
mod otlp;
pub mod output;
mod pause;
mod profile;
pub mod profile_folder;
pub mod program;
mod receipt;
pub mod replacement;
mod search;
mod session;
mod space;
mod status;
pub mod terminal;
mod usage;
mod verify;
mod whoami;
mod witness;
