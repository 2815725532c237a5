//! `attache key`: the key of the knowledge API. It is kept in the profile, and never shown again.

use std::io::{IsTerminal, stdin};

use clap::Subcommand;
use client::Credential;
use domain::secret::{Secret, SecretKind};
use serde_json::json;

use super::remote::{Connection, Remote, failed};
use super::{Done, Failure, output};

/// What to do with it.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Keep a key, typed at the prompt or given on standard input, if the server knows it
    #[command(
        after_help = "Example:\n  attache admin api-key create --email ada@example.com --name laptop | attache key set"
    )]
    Set(Remote),
    /// Forget the key; the server still knows it
    Forget(Remote),
}

/// Does it.
pub async fn run(command: Command) -> Done {
    match command {
        Command::Set(remote) => {
            let mut connection = remote.open()?;
            let key = read()?;
            judge(&connection, &key).await?;
            connection.change(|profile| profile.api_key = Some(key))?;
            let path = connection.folder.path().display().to_string();
            let known = json!({ "kept": true, "rag_url": connection.client.rag_url() });
            output::show(connection.json, &known, || {
                format!(
                    "the key is kept in {path}\n  next: `attache add` fills the memory, `attache search` finds in it"
                )
            });
        }
        Command::Forget(remote) => {
            let mut connection = remote.open()?;
            let known = json!({ "forgotten": connection.profile.api_key.is_some() });
            connection.change(|profile| profile.api_key = None)?;
            output::show(connection.json, &known, || {
                format!("the key is forgotten here; it is ended at {}/account/access", connection.client.base_url())
            });
        }
    }
    Ok(())
}

/// A key from a prompt that does not show it, or from standard input where nobody types.
pub fn read() -> Result<Secret, Failure> {
    let unreadable = |error: std::io::Error| Failure::refused(format!("the key cannot be read: {error}"));
    let line = if stdin().is_terminal() {
        rpassword::prompt_password("key (not shown): ").map_err(unreadable)?
    } else {
        let mut line = String::new();
        stdin().read_line(&mut line).map_err(unreadable)?;
        line
    };
    let key = Secret::presented(line.trim());
    if key.has_form(SecretKind::ApiKey) {
        Ok(key)
    } else {
        Err(Failure::refused("that has not the form of a key of the knowledge API: they begin with ak_"))
    }
}

/// A key that the server does not know is not worth keeping.
async fn judge(connection: &Connection, key: &Secret) -> Result<(), Failure> {
    connection.is_the_profiles()?;
    match connection.client.with(Credential::Bearer(key.clone())).spaces().await {
        Ok(_) => Ok(()),
        // It is one, for something else.
        Err(error) if error.code() == Some("insufficient_scope") => Ok(()),
        Err(error) if error.code() == Some("unauthorized") => {
            Err(Failure::refused(format!("{} does not know this key", connection.client.rag_url())))
        }
        Err(error) => Err(failed(error)),
    }
}
