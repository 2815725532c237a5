//! `attache login`: one approval attaches this computer and gives it a key for the memory
//! (`docs/decisions/0004-device-codes.md`).
//!
//! The command creates the key and sends its hash with the request for a device code. The key is valid after a person has approved it on
//! the page; the key itself is not transmitted, and detaching the computer revokes it.

use clap::Args;
use client::{Credential, Error};
use domain::api_key::{ApiKeyScope, scopes_of};
use serde_json::{Value, json};
use wire::account::Key;

use crate::approval_prompt::PromptArgs;
use crate::attach::{self, ApprovedComputer, Errand};
use crate::connection::{ProfileConnection, Remote, failed};
use crate::failure::{Done, Failure};
use crate::machine::{self, RegistrationArgs};
use crate::output;
use crate::profile_folder::PENDING_CODE;
use crate::terminal::{GOOD, STRONG, WARNING, styled};

/// Options of `attache login`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The same as --url
    #[arg(value_name = "URL", hide = true)]
    server: Option<String>,
    /// Scope of the key: search, write, settings or account; may be repeated [default: search, write and account]
    #[arg(long)]
    scope: Vec<ApiKeyScope>,
    /// Open the page in the browser of this computer
    #[arg(long)]
    browser: bool,
    #[command(flatten)]
    how: RegistrationArgs,
    #[command(flatten)]
    showing: PromptArgs,
    #[command(flatten)]
    remote: Remote,
}

/// Attaches this computer and stores its key; no effect if both are valid.
pub async fn login(arguments: Arguments) -> Done {
    let Arguments { server, scope, browser, how, showing, remote } = arguments;
    let mut connection = remote.with_server(server)?.open()?;
    let scopes = if scope.is_empty() { ApiKeyScope::COMPUTER.to_vec() } else { scopes_of(&scope) };
    register_if_unknown(&mut connection, &how).await?;
    if connection.machine()?.user_account_id.is_some()
        && let Some(key) = working_key(&connection).await?
        && scopes.iter().all(|scope| key.scopes.contains(scope))
    {
        return say(&connection, Some(&key), false).await;
    }
    let errand = Errand {
        command: "login",
        purpose: "To attach this computer to your account, with a key for your memory and your account",
        scopes: &scopes,
        agent: None,
        claimed: None,
        browser,
    };
    let Some(ApprovedComputer { api_key }) = attach::approved(&mut connection, &errand, showing).await? else {
        return Ok(());
    };
    let mut key = None;
    if let Some(secret) = api_key {
        key = accepted(&connection, Credential::Bearer(secret.clone())).await?;
        if let Some(key) = &key {
            connection.change(|profile| profile.set_key(Some((secret, key.scopes.clone()))))?;
        }
    }
    connection.folder.forget(PENDING_CODE)?;
    say(&connection, key.as_ref(), true).await?;
    if key.is_some() {
        return Ok(());
    }
    Err(Failure::unauthorized(format!(
        "the computer is attached, but it got no key: the page was approved without it, by an agent, or by a server that makes none\n  \
         `attache login` asks again; or create a key at {}/account/access and run `attache key set`",
        connection.client.base_url()
    )))
}

/// Registers this computer if it is not registered, or if the server has removed it.
pub async fn register_if_unknown(connection: &mut ProfileConnection, how: &RegistrationArgs) -> Result<(), Failure> {
    if connection.profile.machine.is_some() {
        match connection.as_machine()?.usage_bar().await {
            Err(error) if error.code() == Some("machine_unknown") => {
                let words = "the server no longer has this computer; it is registered as a new one";
                output::print_progress(connection.json, words);
            }
            Err(error) => return Err(failed(error)),
            Ok(_) => return Ok(()),
        }
    }
    machine::register(connection, how).await.map(drop)
}

/// The key of the profile or the environment, if the server accepts it.
pub async fn working_key(connection: &ProfileConnection) -> Result<Option<Key>, Failure> {
    match connection.with_key() {
        Ok(client) => accepted(connection, client.credential().clone()).await,
        Err(_) => Ok(None),
    }
}

/// A key as the server describes it; `None` if the server does not accept it.
pub async fn accepted(connection: &ProfileConnection, credential: Credential) -> Result<Option<Key>, Failure> {
    match connection.client.with(credential).key().await {
        Ok(key) => Ok(Some(key)),
        Err(Error::Refused(refusal)) if matches!(refusal.status, 401 | 404 | 405) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

async fn say(connection: &ProfileConnection, key: Option<&Key>, is_new: bool) -> Done {
    let owner = attach::owner(connection).await;
    let mut value = machine::shown(connection.machine()?);
    value["email"] = json!(owner.contains('@').then_some(&owner));
    value["api_key"] = key.map_or(Value::Null, |key| json!({ "id": key.id, "scopes": key.scopes }));
    let base = connection.client.base_url();
    output::show(connection.json, &value, || {
        let (good, already) = (styled(GOOD, "✓"), if is_new { "" } else { "already " });
        let attached =
            format!("{good} this computer is {already}attached to the account of {}", styled(STRONG, &owner));
        let mut lines = vec![attached];
        let scopes = key.map(|key| key.scopes.as_slice()).unwrap_or_default();
        let of_memory = scopes.iter().filter(|scope| ApiKeyScope::KNOWLEDGE.contains(scope));
        let of_memory: Vec<&str> = of_memory.map(|scope| scope.as_str()).collect();
        lines.push(if of_memory.is_empty() {
            format!("{} it has no key for the memory", styled(WARNING, "!"))
        } else {
            format!("{good} it has a key for the memory: {}", of_memory.join(", "))
        });
        if scopes.contains(&ApiKeyScope::Account) {
            lines.push(format!("{good} it shows your account: `attache account`, `activity`, `usage`"));
        }
        if key.is_some() {
            lines.push(
                "  next: `attache connect TOOL` records a coding agent; `attache search WORDS`, `attache add FILE`"
                    .to_owned(),
            );
        }
        lines.push(format!("  undo: detach it at {base}/account; its key ends with it"));
        lines.join("\n")
    });
    Ok(())
}
