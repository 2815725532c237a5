//! `attache profile`: lists, shows, moves and removes profiles; never prints their secrets.

use clap::Subcommand;
use serde_json::{Map, Value, json};

use crate::failure::{Done, Failure};
use crate::profile_folder::{Profile, ProfileFolder};
use crate::{agent, machine, output};

/// Subcommands of `attache profile`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the profiles
    List {
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a profile, without its secrets
    Show {
        /// Name of the profile
        #[arg(env = "ATTACHE_PROFILE", default_value = "default")]
        name: String,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Change the URL of a profile after its server has moved
    Move {
        /// Name of the profile
        #[arg(env = "ATTACHE_PROFILE", default_value = "default")]
        name: String,
        /// New base URL of the server
        #[arg(long)]
        url: String,
        /// New base URL of the knowledge API [default: that of the server]
        #[arg(long, value_name = "URL")]
        rag_url: Option<String>,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a profile with its credentials
    Remove {
        /// Name of the profile
        name: String,
        /// Remove the profile although it holds credentials
        #[arg(long)]
        yes: bool,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Runs the subcommand.
pub fn run(command: Command) -> Done {
    match command {
        Command::List { json } => list(json),
        Command::Show { name, json } => {
            let (folder, profile) = known(&name)?;
            let value = shown(&name, &folder, &profile);
            output::show(json, &value, || text_of(&value));
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
                format!("profile \"{name}\" uses {} now", profile.url.as_deref().unwrap_or_default())
            });
            Ok(())
        }
        Command::Remove { name, yes, json } => {
            // A profile that cannot be read can still be removed.
            let folder = ProfileFolder::of(&name)?;
            if !ProfileFolder::names()?.contains(&name) {
                return Err(no_such(&name));
            }
            if !yes && folder.profile().map_or(true, |profile| profile.is_bound()) {
                return Err(Failure::refused(format!(
                    "profile \"{name}\" holds credentials, which would be lost: confirm with --yes"
                )));
            }
            folder.remove()?;
            output::show(json, &json!({ "removed": name }), || format!("profile \"{name}\" is removed"));
            Ok(())
        }
    }
}

fn list(json: bool) -> Done {
    let mut rows = Vec::new();
    for name in ProfileFolder::names()? {
        let folder = ProfileFolder::of(&name)?;
        rows.push(match folder.profile() {
            Ok(profile) => shown(&name, &folder, &profile),
            Err(failure) => json!({ "profile": name, "error": failure.reason() }),
        });
    }
    if json {
        output::list(true, &rows, &[]);
        return Ok(());
    }
    if rows.is_empty() {
        output::print("no profiles: `attache attach` or `attache agent register` creates one");
        return Ok(());
    }
    let columns = ["profile", "server", "computer", "agent", "key"];
    let cells = rows.iter().map(|row| {
        let text = |pointer: &str| row.pointer(pointer).and_then(Value::as_str).unwrap_or("-").to_owned();
        let server = row.get("error").and_then(Value::as_str).map_or_else(|| text("/url"), str::to_owned);
        let key = if row["api_key"] == true { "stored" } else { "-" };
        vec![text("/profile"), server, text("/machine/machine_uuid"), text("/agent/registration_id"), key.to_owned()]
    });
    output::print(&output::table(&columns, cells));
    Ok(())
}

fn known(name: &str) -> Result<(ProfileFolder, Profile), Failure> {
    let folder = ProfileFolder::of(name)?;
    if !ProfileFolder::names()?.iter().any(|known| known == name) {
        return Err(no_such(name));
    }
    let profile = folder.profile()?;
    Ok((folder, profile))
}

fn no_such(name: &str) -> Failure {
    Failure::not_found(format!("no profile \"{name}\": `attache profile list` shows the existing ones"))
}

/// A profile as JSON, without its secrets.
fn shown(name: &str, folder: &ProfileFolder, profile: &Profile) -> Value {
    json!({
        "profile": name,
        "folder": folder.path(),
        "url": profile.url,
        "rag_url": profile.rag_url,
        "log_key": profile.log_key,
        "further_log_keys": profile.further_log_keys,
        "api_key": profile.api_key.is_some(),
        "machine": profile.machine.as_ref().map(machine::shown),
        "agent": profile.agent.as_ref().map(agent::shown),
        "tools": profile.tools.iter().map(|(tool, of)| (tool.as_str().to_owned(), agent::shown(of))).collect::<Map<_, _>>(),
    })
}

fn text_of(known: &Value) -> String {
    let text = |pointer: &str| known.pointer(pointer).and_then(Value::as_str).unwrap_or("-").to_owned();
    let key = if known["api_key"] == true { "stored" } else { "-" };
    let knowledge = known["rag_url"].as_str().map(|url| format!("\nknowledge  {url}")).unwrap_or_default();
    let tools: Vec<&str> = known["tools"].as_object().into_iter().flat_map(Map::keys).map(String::as_str).collect();
    let further = known["further_log_keys"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let keys: Vec<String> = [text("/log_key")].into_iter().chain(further.map(str::to_owned)).collect();
    let tools = if tools.is_empty() { String::new() } else { format!("\ntools      {}", tools.join(", ")) };
    format!(
        "profile    {}\nfolder     {}\nserver     {}{knowledge}\ncomputer   {}\nattached   {}\nagent      {}\nscope      {}\nlog key    {}\nAPI key    {key}{tools}",
        text("/profile"),
        text("/folder"),
        text("/url"),
        text("/machine/machine_uuid"),
        text("/machine/user_account_id"),
        text("/agent/registration_id"),
        text("/agent/scope"),
        keys.join("\n           "),
    )
}
