//! The options of `attache verify`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::connection::{CredentialArgs, Remote};

/// Options of `attache verify`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, disable_help_subcommand = true)]
pub struct Arguments {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    #[command(flatten)]
    pub(super) proof: ProofArguments,
}

/// Subcommands of `attache verify`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Verify a receipt in a file offline: every event, every path, the checkpoint, the head and the Markdown
    Receipt(ReceiptArguments),
}

/// Options of `attache verify receipt`.
#[derive(Debug, Args)]
pub struct ReceiptArguments {
    /// File that `attache receipt` wrote, `-` for standard input
    pub(super) file: PathBuf,
    /// Trusted log key [default: the one pinned in the profile]
    #[arg(long, visible_alias = "vkey", value_name = "VKEY")]
    pub(super) key: Option<String>,
    /// Text that must contain the Markdown of the receipt, such as the description of a pull request
    #[arg(long, value_name = "FILE")]
    pub(super) markdown: Option<PathBuf>,
    /// Profile with the pinned key
    #[arg(long, env = "ATTACHE_PROFILE", value_name = "NAME", default_value = "default", help_heading = "Server")]
    pub(super) profile: String,
    /// Print the result as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Options of `attache verify FILE` and `attache verify EVENT_ID`.
#[derive(Debug, Args)]
pub struct ProofArguments {
    /// File with a proof from `GET /api/v1/audit/verify`, `-` for standard input, or the id of an event whose proof is fetched
    #[arg(value_name = "FILE|EVENT_ID", required = true)]
    pub(super) proof: Option<PathBuf>,
    /// Trusted log key [default: the one pinned in the profile on first use]
    #[arg(long, alias = "key")]
    pub(super) vkey: Option<String>,
    /// Pin this key in the profile, replacing the pinned one of the same part, or all keys of another log
    #[arg(long, requires = "vkey")]
    pub(super) pin: bool,
    /// Write the fetched proof to a file, for offline verification
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
    /// Maximum wait until the event is in the signed tree
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(super) wait: u64,
    #[command(flatten)]
    pub(super) whom: CredentialArgs,
    #[command(flatten)]
    pub(super) remote: Remote,
}
