//! `attache audit`: watches that the log of a server only grows.

mod watch;

use clap::{Args, Subcommand};
use serde_json::json;

use super::profile::Folder;
use super::{Done, output, witness};

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Watch that the server's log only grows, until Ctrl-C; end with 3 when it was rolled back, forked or replaced
    Watch(watch::Arguments),
    /// Forget which checkpoint of the log was seen last: only once it is known why the log changed
    Forget(ForgetArguments),
}

/// Of which profile.
#[derive(Debug, Args)]
pub struct ForgetArguments {
    /// The profile
    #[arg(long, env = "ATTACHE_PROFILE", value_name = "NAME", default_value = "default")]
    profile: String,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Does it.
pub async fn run(command: Command) -> Done {
    match command {
        Command::Watch(arguments) => watch::run(&arguments).await,
        Command::Forget(ForgetArguments { profile, json }) => {
            let forgotten = witness::forget(&Folder::of(&profile)?)?;
            output::show(json, &json!({ "forgotten": forgotten }), || {
                if forgotten {
                    "the checkpoint that was seen last is forgotten: the next one is believed".to_owned()
                } else {
                    "no checkpoint was seen yet".to_owned()
                }
            });
            Ok(())
        }
    }
}
