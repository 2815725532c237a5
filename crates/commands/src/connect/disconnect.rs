//! `attache disconnect`: removes the changes of `attache connect`, and revokes the tool's agent.

use clap::Args;
use domain::tool::Tool;
use serde_json::{Value, json};

use super::record::{Undone, WrittenRecord, record_name};
use super::tool_agent;
use super::tool_files::{Scope, ToolFolders};
use crate::connection::Remote;
use crate::failure::{Done, Failure};
use crate::output;
use crate::terminal::{GOOD, WARNING, styled};

/// Options of `attache disconnect`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Tool whose configuration is undone
    #[arg(value_name = "TOOL")]
    tool: Tool,
    /// Where the tool was configured
    #[arg(long, value_enum, default_value_t = Scope::User)]
    scope: Scope,
    /// Leave the agent on the server
    #[arg(long)]
    keep_agent: bool,
    #[command(flatten)]
    remote: Remote,
}

/// Restores the tool's files and ends its agent; the computer stays attached.
pub async fn disconnect(arguments: Arguments) -> Done {
    let Arguments { tool, scope, keep_agent, remote } = arguments;
    let mut connection = remote.open()?;
    let name = record_name(tool, scope, ToolFolders::of_environment()?.project());
    let record: Option<WrittenRecord> = connection.folder.json(&name)?;
    let has_agent = connection.profile.tools.contains_key(&tool);
    if record.is_none() && !has_agent {
        return Err(Failure::not_found(format!("{} is not connected with this profile and scope", tool.title())));
    }
    let undone = match record {
        Some(record) => record.undo(&connection.folder, &name)?,
        None => Vec::new(),
    };
    // The same agent serves other scopes.
    let is_used = connection.folder.has_file(&format!("connect-{}", tool.as_str()), ".json")?;
    let (agent, failure) = if keep_agent || is_used || !has_agent {
        (if has_agent { "kept" } else { "none" }, None)
    } else {
        match tool_agent::end(&mut connection, tool).await {
            Ok(true) => ("ended", None),
            Ok(false) => ("none", None),
            Err(failure) => ("kept", Some(failure)),
        }
    };
    let files: Vec<Value> = undone
        .iter()
        .map(|(path, undone)| {
            let changed = if let Undone::Edited(changed) = undone { changed.as_slice() } else { &[] };
            json!({ "path": path, "state": state(undone), "left": changed })
        })
        .collect();
    output::show(connection.json, &json!({ "tool": tool, "files": files, "agent": agent }), || {
        let good = styled(GOOD, "✓");
        let mut lines: Vec<String> = Vec::new();
        for (path, undone) in &undone {
            let path = path.display();
            lines.push(match undone {
                Undone::Restored => format!("{good} restored  {path}"),
                Undone::Deleted => format!("{good} deleted   {path}"),
                Undone::Absent => format!("{good} absent    {path}"),
                Undone::Edited(left) if left.is_empty() => {
                    format!("{good} edited    {path}: it changed since, so exactly what was added is removed")
                }
                Undone::Edited(left) => {
                    format!("{} edited    {path}: {} changed since and stays", styled(WARNING, "!"), left.join(", "))
                }
            });
        }
        lines.push(match agent {
            "ended" => format!("{good} {} does not act for you any more", tool.title()),
            "kept" => format!("{} the agent of {} stays on the server", styled(WARNING, "!"), tool.title()),
            _ => format!("{good} {} has no agent", tool.title()),
        });
        lines.push("  the computer stays attached; detach it on your account page".to_owned());
        lines.join("\n")
    });
    match failure {
        Some(failure) => Err(failure.advised("the files are undone; run the command again to end the agent")),
        None => Ok(()),
    }
}

fn state(undone: &Undone) -> &'static str {
    match undone {
        Undone::Restored => "restored",
        Undone::Deleted => "deleted",
        Undone::Absent => "absent",
        Undone::Edited(_) => "edited",
    }
}
