//! `attache space`: creates and lists spaces.

use clap::Subcommand;
use client::Client;
use domain::foreign::visible;
use serde_json::{Value, json};
use uuid::Uuid;
use wire::knowledge::Space;

use crate::connection::{Remote, failed};
use crate::failure::{Done, Failure};
use crate::{output, terminal};

/// Subcommands of `attache space`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create a space
    Create {
        /// Name of the space
        name: String,
        /// Let every holder of an API key of this server read the space
        #[arg(long)]
        public: bool,
        #[command(flatten)]
        remote: Remote,
    },
    /// List the spaces that the API key can access, the default space first
    List {
        #[command(flatten)]
        remote: Remote,
    },
}

/// Runs the subcommand.
pub async fn run(command: Command) -> Done {
    match command {
        Command::Create { name, public, remote } => {
            let space = remote.open()?.with_key()?.space_create(&name, public).await.map_err(failed)?;
            output::show(remote.json, &json!(space), || {
                format!("space {} is created: {}", terminal::styled(terminal::STRONG, visible(&space.name)), space.id)
            });
        }
        Command::List { remote } => {
            let spaces = remote.open()?.with_key()?.spaces().await.map_err(failed)?;
            let row = |space: &Space| {
                let mut row = json!(space);
                if !remote.json {
                    row["name"] = json!(visible(&space.name));
                    row["access"] = row["accessType"].take();
                    row["public"] = json!(if space.is_public { "yes" } else { "no" });
                    row["created"] = row["createdAt"].take();
                }
                row
            };
            let rows: Vec<Value> = spaces.iter().map(row).collect();
            output::list(remote.json, &rows, &["id", "name", "access", "public", "created"]);
        }
    }
    Ok(())
}

/// Resolves names and ids of spaces to ids; `None` if `names` is empty.
pub async fn named(client: &Client, names: &[String]) -> Result<Option<Vec<Uuid>>, Failure> {
    let mut listed: Option<Vec<Space>> = None;
    let mut ids = Vec::new();
    for name in names {
        if let Ok(id) = name.parse() {
            ids.push(id);
            continue;
        }
        let spaces = match &mut listed {
            Some(spaces) => spaces,
            none => none.insert(client.spaces().await.map_err(failed)?),
        };
        let mut matches = spaces.iter().filter(|space| space.name == name.trim());
        match (matches.next(), matches.next()) {
            (Some(space), None) => ids.push(space.id.as_uuid()),
            (None, _) => {
                return Err(Failure::not_found(format!(
                    "no space {name:?}: `attache space create` creates one, `attache space list` shows the existing ones"
                )));
            }
            (Some(_), Some(_)) => {
                return Err(Failure::refused(format!(
                    "several spaces have the name {name:?}: use the id from `attache space list`"
                )));
            }
        }
    }
    Ok((!ids.is_empty()).then_some(ids))
}
