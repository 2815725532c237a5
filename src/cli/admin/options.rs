//! Options that several subcommands share.

use clap::Args;
use domain::ids::{Email, UserAccountId};

/// Output format of a command.
#[derive(Debug, Clone, Copy, Args)]
pub struct OutputFormat {
    /// Print the result as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Options of listings.
#[derive(Debug, Clone, Copy, Args)]
pub struct Listing {
    /// Maximum number of rows
    #[arg(long, default_value_t = 100)]
    pub(super) limit: usize,
    #[command(flatten)]
    pub(super) format: OutputFormat,
}

/// Limits a list to one account, by its id or by its owner.
#[derive(Debug, Clone, Args)]
#[group(id = "whose", multiple = false)]
pub struct AccountFilter {
    /// Only of this account
    #[arg(long)]
    pub(super) account: Option<UserAccountId>,
    /// Only of the account of this person
    #[arg(long)]
    pub(super) email: Option<Email>,
}

/// Selects an account by its id or by its owner.
#[derive(Debug, Clone, Args)]
#[group(id = "which", required = true, multiple = false)]
pub struct AccountSelector {
    /// Id of the account
    #[arg(long)]
    pub(super) account: Option<UserAccountId>,
    /// E-mail address of the account's owner
    #[arg(long)]
    pub(super) email: Option<Email>,
}
