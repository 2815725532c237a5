//! The options of `attache verify`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::connection::{CredentialArgs, Remote};

/// Options of `attache verify`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// File with a proof from `GET /api/v1/audit/verify`, `-` for standard input, or the id of an event whose proof is fetched
    #[arg(value_name = "FILE|EVENT_ID")]
    pub(super) proof: PathBuf,
    /// Trusted log key [default: the one pinned in the profile on first use]
    #[arg(long)]
    pub(super) vkey: Option<String>,
    /// Pin this key in the profile, replacing the pinned one
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
