//! `attache key`: stores and deletes the API key of the profile. A stored key is never printed.

use std::io::{IsTerminal, stdin};

use clap::Subcommand;
use client::Credential;
use domain::secret::{Secret, SecretKind};
use serde_json::json;
use wire::account::Key;

use crate::connection::{ProfileConnection, Remote, failed};
use crate::failure::{Done, Failure};
use crate::output;

/// Subcommands of `attache key`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Store an API key, from a prompt or standard input, after checking it with the server
    Set(Remote),
    /// Delete the API key from the profile; it stays valid on the server
    Forget(Remote),
}

/// Runs the subcommand.
pub async fn run(command: Command) -> Done {
    match command {
        Command::Set(remote) => {
            let mut connection = remote.open()?;
            let key = read()?;
            let known = judge(&connection, &key).await?;
            connection.change(|profile| profile.set_key(Some((key, known.scopes))))?;
            let path = connection.folder.path().display().to_string();
            let value = json!({ "kept": true, "rag_url": connection.client.rag_url() });
            output::show(connection.json, &value, || {
                format!(
                    "the API key is stored in {path}\n  next: `attache add` adds pages and notes, `attache search` finds them"
                )
            });
        }
        Command::Forget(remote) => {
            let mut connection = remote.open()?;
            let outcome = json!({ "forgotten": connection.profile.api_key.is_some() });
            connection.change(|profile| profile.set_key(None))?;
            output::show(connection.json, &outcome, || {
                format!(
                    "the API key is deleted from the profile; revoke it at {}/account/access",
                    connection.client.base_url()
                )
            });
        }
    }
    Ok(())
}

/// Reads an API key: from a prompt without echo in a terminal, else from standard input.
pub fn read() -> Result<Secret, Failure> {
    let unreadable = |error: std::io::Error| Failure::refused(format!("cannot read the API key: {error}"));
    let line = if stdin().is_terminal() {
        rpassword::prompt_password("API key (not shown): ").map_err(unreadable)?
    } else {
        let mut line = String::new();
        stdin().read_line(&mut line).map_err(unreadable)?;
        line
    };
    let key = Secret::presented(line.trim());
    if key.has_form(SecretKind::ApiKey) {
        Ok(key)
    } else {
        Err(Failure::refused("malformed API key: keys begin with \"ak_\""))
    }
}

/// Checks that the server accepts the API key, and returns its description.
async fn judge(connection: &ProfileConnection, key: &Secret) -> Result<Key, Failure> {
    connection.check_server()?;
    match connection.client.with(Credential::Bearer(key.clone())).key().await {
        Ok(known) => Ok(known),
        Err(error) if error.code() == Some("unauthorized") => {
            Err(Failure::unauthorized(format!("{} does not accept this API key", connection.client.rag_url())))
        }
        Err(error) => Err(failed(error)),
    }
}
