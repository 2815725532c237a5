//! `attache admin token`: credentials for the operator's API.

use clap::Subcommand;
use domain::Rng;
use domain::operator::OperatorRole;
use domain::secret::{Secret, SecretKind};
use serde_json::json;

use super::options::OutputFormat;
use commands::output;

/// Subcommands of `attache admin token`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create a token and print it with its lines for the configuration; neither is stored
    ///
    /// The token is in force when the lines are in the file of each server and the servers have read it again (`attache config reload`).
    Create {
        /// Name of the operator in the record of acts
        name: String,
        /// Rights of the operator
        #[arg(long, value_name = "look|operate|admin", default_value = "look")]
        role: OperatorRole,
        #[command(flatten)]
        format: OutputFormat,
    },
}

/// Runs the subcommand.
pub fn run(Command::Create { name, role, format }: &Command) {
    let token = Secret::mint(SecretKind::OperatorToken, &Rng::system());
    let hash = domain::Digest::of(token.expose().as_bytes());
    let value = json!({ "token": token.expose(), "name": name, "role": role, "token_sha256": hash });
    output::show(format.json, &value, || {
        format!(
            "{}\n\nThis token is shown once. Add to the configuration of each server, then `attache config reload`:\n\n\
             [[admin.operator]]\nname = \"{name}\"\nrole = \"{}\"\ntoken_sha256 = \"{hash}\"",
            token.expose(),
            role.as_str()
        )
    });
}
