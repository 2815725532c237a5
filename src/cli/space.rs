//! `attache space`: where memories are put.

use clap::Subcommand;
use client::Client;
use domain::foreign::visible;
use serde_json::{Value, json};
use uuid::Uuid;
use wire::knowledge::Space;

use super::remote::{Remote, failed};
use super::{Done, Failure, output, terminal};

/// What to do with them.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a space
    Create {
        /// What it is called
        name: String,
        /// Let everybody who has a key of this server read it
        #[arg(long)]
        public: bool,
        #[command(flatten)]
        remote: Remote,
    },
    /// List the spaces that the key reaches, the default one first
    List {
        #[command(flatten)]
        remote: Remote,
    },
}

/// Does it.
pub async fn run(command: Command) -> Done {
    match command {
        Command::Create { name, public, remote } => {
            let space = remote.open()?.with_key()?.space_create(&name, public).await.map_err(failed)?;
            output::show(remote.json, &json!(space), || {
                format!("space {} is made: {}", terminal::styled(terminal::STRONG, visible(&space.name)), space.id)
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

/// The spaces that a person means, each by its id or its name; `None` when they mean none in particular.
pub async fn named(client: &Client, names: &[String]) -> Result<Option<Vec<Uuid>>, Failure> {
    let mut known: Option<Vec<Space>> = None;
    let mut ids = Vec::new();
    for name in names {
        if let Ok(id) = name.parse() {
            ids.push(id);
            continue;
        }
        let spaces = match &mut known {
            Some(spaces) => spaces,
            none => none.insert(client.spaces().await.map_err(failed)?),
        };
        let mut found = spaces.iter().filter(|space| space.name == name.trim());
        match (found.next(), found.next()) {
            (Some(space), None) => ids.push(space.id.as_uuid()),
            (None, _) => {
                return Err(Failure::refused(format!(
                    "there is no space called {name:?}: `attache space create` makes one, `attache space list` shows those there are"
                )));
            }
            (Some(_), Some(_)) => {
                return Err(Failure::refused(format!(
                    "several spaces are called {name:?}: name one by its id, which `attache space list` shows"
                )));
            }
        }
    }
    Ok((!ids.is_empty()).then_some(ids))
}
