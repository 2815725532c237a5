//! `attache profile`: what is remembered of servers, without the secrets in it.

use clap::Subcommand;
use serde_json::{Value, json};

use super::profile::{Folder, Profile};
use super::{Done, Failure, agent, machine, output};

/// What to do with them.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the profiles
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what a profile knows, without its secrets
    Show {
        /// Which
        #[arg(env = "ATTACHE_PROFILE", default_value = "default")]
        name: String,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Follow a server that has another address now
    Move {
        /// Which
        #[arg(env = "ATTACHE_PROFILE", default_value = "default")]
        name: String,
        /// Where the server is now
        #[arg(long)]
        url: String,
        /// Where its knowledge API is, if not there
        #[arg(long, value_name = "URL")]
        rag_url: Option<String>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a profile with everything in it
    Remove {
        /// Which
        name: String,
        /// Although what opens the server is lost with it
        #[arg(long)]
        yes: bool,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

/// Does it.
pub fn run(command: Command) -> Done {
    match command {
        Command::List { json } => list(json),
        Command::Show { name, json } => {
            let (folder, profile) = known(&name)?;
            let known = shown(&name, &folder, &profile);
            output::show(json, &known, || told(&known));
            Ok(())
        }
        Command::Move { name, url, rag_url, json } => {
            let (folder, _) = known(&name)?;
            let profile = folder.revise(|profile| {
                profile.url = Some(url);
                profile.rag_url = rag_url;
                Ok(())
            })?;
            output::show(json, &shown(&name, &folder, &profile), || {
                format!("{name} is of {} now", profile.url.as_deref().unwrap_or_default())
            });
            Ok(())
        }
        Command::Remove { name, yes, json } => {
            // One that cannot be read can be removed all the same.
            let folder = Folder::of(&name)?;
            if !Folder::names()?.contains(&name) {
                return Err(no_such(&name));
            }
            if !yes && folder.profile().map_or(true, |profile| profile.is_bound()) {
                return Err(Failure::refused(format!(
                    "{name} knows what opens its server, which is lost with it: --yes says that this is meant"
                )));
            }
            folder.remove()?;
            output::show(json, &json!({ "removed": name }), || format!("{name} is removed"));
            Ok(())
        }
    }
}

fn list(json: bool) -> Done {
    let mut rows = Vec::new();
    for name in Folder::names()? {
        let folder = Folder::of(&name)?;
        rows.push(match folder.profile() {
            Ok(profile) => shown(&name, &folder, &profile),
            Err(Failure::Refused(error)) => json!({ "profile": name, "error": error }),
            Err(failure) => return Err(failure),
        });
    }
    if json {
        output::list(true, &rows, &[]);
        return Ok(());
    }
    if rows.is_empty() {
        output::say("there are no profiles yet: `attache attach` or `attache agent register` makes one");
        return Ok(());
    }
    let columns = ["profile", "server", "computer", "agent", "key"];
    let cells = rows.iter().map(|row| {
        let text = |pointer: &str| row.pointer(pointer).and_then(Value::as_str).unwrap_or("-").to_owned();
        let server = row.get("error").and_then(Value::as_str).map_or_else(|| text("/url"), str::to_owned);
        let key = if row["api_key"] == true { "kept" } else { "-" };
        vec![text("/profile"), server, text("/machine/machine_uuid"), text("/agent/registration_id"), key.to_owned()]
    });
    output::say(&output::table(&columns, cells));
    Ok(())
}

fn known(name: &str) -> Result<(Folder, Profile), Failure> {
    let folder = Folder::of(name)?;
    if !Folder::names()?.iter().any(|known| known == name) {
        return Err(no_such(name));
    }
    let profile = folder.profile()?;
    Ok((folder, profile))
}

fn no_such(name: &str) -> Failure {
    Failure::refused(format!("there is no profile {name}: `attache profile list` shows those that there are"))
}

/// Everything but what opens something.
fn shown(name: &str, folder: &Folder, profile: &Profile) -> Value {
    json!({
        "profile": name,
        "folder": folder.path(),
        "url": profile.url,
        "rag_url": profile.rag_url,
        "log_key": profile.log_key,
        "api_key": profile.api_key.is_some(),
        "machine": profile.machine.as_ref().map(machine::shown),
        "agent": profile.agent.as_ref().map(agent::shown),
    })
}

fn told(known: &Value) -> String {
    let text = |pointer: &str| known.pointer(pointer).and_then(Value::as_str).unwrap_or("-").to_owned();
    let key = if known["api_key"] == true { "kept" } else { "-" };
    let knowledge = known["rag_url"].as_str().map(|url| format!("\nknowledge  {url}")).unwrap_or_default();
    format!(
        "profile    {}\nfolder     {}\nserver     {}{knowledge}\ncomputer   {}\nattached   {}\nagent      {}\nscope      {}\nlog key    {}\nAPI key    {key}",
        text("/profile"),
        text("/folder"),
        text("/url"),
        text("/machine/machine_uuid"),
        text("/machine/user_account_id"),
        text("/agent/registration_id"),
        text("/agent/scope"),
        text("/log_key"),
    )
}
