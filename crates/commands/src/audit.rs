//! `attache audit`: monitors that the log of a server is append-only.

mod watch;

use clap::{Args, Subcommand};
use serde_json::json;

use crate::failure::Done;
use crate::profile_folder::ProfileFolder;
use crate::{output, witness};

/// Subcommands of `attache audit`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Monitor the server's log until Ctrl-C; exit with 3 if it was rolled back, forked or replaced
    Watch(watch::Arguments),
    /// Delete the stored checkpoint, after the reason for a changed log is known
    Forget(ForgetArguments),
}

/// Options of `attache audit forget`.
#[derive(Debug, Args)]
pub struct ForgetArguments {
    /// Profile whose checkpoint is deleted
    #[arg(long, env = "ATTACHE_PROFILE", value_name = "NAME", default_value = "default")]
    profile: String,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub async fn run(command: Command) -> Done {
    match command {
        Command::Watch(arguments) => watch::run(&arguments).await,
        Command::Forget(ForgetArguments { profile, json }) => {
            let forgotten = witness::forget(&ProfileFolder::of(&profile)?)?;
            output::show(json, &json!({ "forgotten": forgotten }), || {
                if forgotten {
                    "the stored checkpoint is deleted: the next one is trusted".to_owned()
                } else {
                    "no checkpoint is stored".to_owned()
                }
            });
            Ok(())
        }
    }
}
