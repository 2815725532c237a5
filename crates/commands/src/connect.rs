//! `attache connect`: one command configures a tool, and one approval attaches this computer and creates a key for the memory
//! (`docs/connect.md`, `docs/decisions/0004-device-codes.md`). With `--act-for-me` it also requests an agent of the tool
//! (`docs/decisions/0005-agents.md`).

mod disconnect;
mod edit;
mod first_event;
#[cfg(test)]
mod golden;
mod record;
mod tool_agent;
mod tool_files;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use clap::Args;
use client::Credential;
use domain::api_key::ApiKeyScope;
use domain::tool::Tool;
use serde_json::{Value, json};
use similar::TextDiff;

use self::first_event::FirstEvent;
use self::record::{FileChange, WrittenRecord, record_name};
use self::tool_agent::ClaimState;
use self::tool_files::{Program, Scope, ToolFile, ToolFolders, Wanted};
use crate::approval_prompt::PromptArgs;
use crate::attach::{self, ApprovedComputer, Errand};
use crate::connection::{ProfileConnection, Remote};
use crate::failure::{Done, Failure};
use crate::login;
use crate::machine::RegistrationArgs;
use crate::output;
use crate::profile_folder::PENDING_CODE;
use crate::terminal::{FAINT, GOOD, STRONG, WARNING, styled};

pub use self::disconnect::{Arguments as DisconnectArguments, disconnect};

/// Options of `attache connect`.
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
#[derive(Debug, Args)]
pub struct Arguments {
    /// Tool to configure: claude-code, codex, cursor, gemini-cli, github-copilot or opencode
    #[arg(value_name = "TOOL")]
    tool: Tool,
    /// Where the tool is configured
    #[arg(long, value_enum, default_value_t = Scope::User)]
    scope: Scope,
    /// Print the changes of files and exit; nothing is written or sent
    #[arg(long)]
    dry_run: bool,
    /// Print what belongs into the tool's files and exit
    #[arg(long, conflicts_with = "dry_run")]
    print: bool,
    /// Write no hooks: what the tool does is not recorded
    #[arg(long)]
    no_hooks: bool,
    /// Write no MCP server: the tool cannot use the memory
    #[arg(long, conflicts_with = "no_hooks")]
    no_mcp: bool,
    /// Also register an agent of the tool, and ask for rights to act for you; recording and memory do not need it
    #[arg(long)]
    act_for_me: bool,
    /// Replace an entry named `attache` that another program wrote
    #[arg(long)]
    yes: bool,
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

/// Connects a tool; requests only missing approvals.
pub async fn connect(arguments: Arguments) -> Done {
    let Arguments { tool, scope, dry_run, print, no_hooks, no_mcp, act_for_me, yes, browser, how, .. } = arguments;
    let Arguments { showing, remote, .. } = arguments;
    let mut connection = remote.open()?;
    let folders = ToolFolders::of_environment()?;
    let wanted = Wanted { mcp: !no_mcp, hooks: !no_hooks };
    let files = tool_files::files(tool, scope, &folders, &program(&remote.profile)?, wanted);
    let name = record_name(tool, scope, folders.project());
    let mut record: WrittenRecord = connection.folder.json(&name)?.unwrap_or_default();
    if print {
        return snippets(connection.json, &files);
    }
    // Refuses a file that cannot be changed before it prompts a person.
    let changes = record.changes(&files, &connection.folder, yes)?;
    if dry_run {
        show_changes(connection.json, tool, &changes);
        return Ok(());
    }
    let errand = ToolErrand { tool, act_for_me, browser, how: &how };
    let Some(approved) = errand.approved(&mut connection, showing).await? else { return Ok(()) };
    // The tool may have written its files while the command waited for the person.
    let changes = record.changes(&files, &connection.folder, yes)?;
    record.write(&changes, &connection.folder, &name)?;
    let event = first_event::send(&connection, tool).await?;
    let summary = Summary { tool, scope, wanted, changes: &changes, approved: &approved, event: &event };
    summary.show(&connection).await;
    Ok(())
}

/// Name of the program without the server.
const CLIENT: &str = "attache-client";

/// The command with which the tools start the client: `attache-client` if this computer has it in this version, because it starts faster,
/// and this program otherwise.
fn program(profile: &str) -> Result<Program, Failure> {
    let path = std::env::current_exe()
        .map_err(|error| Failure::refused(format!("the path of this program is unknown: {error}")))?;
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let folders = || std::env::split_paths(&folders);
    let path = client_in(path.parent().map(ToOwned::to_owned).into_iter().chain(folders())).unwrap_or(path);
    let path = lasting(path, folders()).into_os_string().into_string();
    let path = path.map_err(|path| Failure::refused(format!("the path {} is not UTF-8", path.display())))?;
    Ok(Program { path, profile: profile.to_owned() })
}

/// The first `attache-client` of this version in these folders.
fn client_in(mut folders: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    let version = format!("{CLIENT} {}\n", env!("CARGO_PKG_VERSION"));
    let is_it = |path: &PathBuf| {
        let asked = || Command::new(path).arg("--version").stderr(Stdio::null()).output();
        path.is_absolute() && path.is_file() && asked().is_ok_and(|output| output.stdout == version.as_bytes())
    };
    folders.find_map(|folder| Some(folder.join(CLIENT)).filter(is_it))
}

/// The path that still names this program after an upgrade: a link on `PATH` that leads to it. A package manager moves the link to the
/// next version, and removes the folder of this one.
fn lasting(program: PathBuf, mut folders: impl Iterator<Item = PathBuf>) -> PathBuf {
    let Some(name) = program.file_name().map(ToOwned::to_owned) else { return program };
    let Ok(target) = program.canonicalize() else { return program };
    let leads_here = |path: &PathBuf| path.canonicalize().is_ok_and(|found| found == target);
    folders
        .find_map(|folder| Some(folder.join(&name)).filter(|path| path.is_absolute() && leads_here(path)))
        .unwrap_or(program)
}

/// The request to a person.
struct ToolErrand<'e> {
    tool: Tool,
    /// Whether to request an agent of the tool.
    act_for_me: bool,
    browser: bool,
    how: &'e RegistrationArgs,
}

/// Approvals of the person, given now or earlier.
struct ApprovedTool {
    /// Whether the tool has an agent that acts for the person; `None` if it has none and none was requested.
    has_agent: Option<bool>,
    has_key: bool,
    is_new: bool,
}

impl ToolErrand<'_> {
    /// Ensures that the computer is attached and has a key, and that the tool has an agent if requested; `None` with `--no-wait`.
    async fn approved(
        &self,
        connection: &mut ProfileConnection,
        showing: PromptArgs,
    ) -> Result<Option<ApprovedTool>, Failure> {
        login::register_if_unknown(connection, self.how).await?;
        let agent = if self.act_for_me { tool_agent::ensure(connection, self.tool).await? } else { None };
        let is_attached = connection.machine()?.user_account_id.is_some();
        let existing = login::working_key(connection).await?;
        let mut has_key = existing.is_some_and(|key| key.scopes.contains(&ApiKeyScope::Search));
        let existing = connection.profile.tools.get(&self.tool).filter(|agent| agent.is_claimed());
        let claimed = existing.map(|agent| agent.registration_id).filter(|_| agent.is_none());
        let mut has_agent = (self.act_for_me || claimed.is_some()).then_some(claimed.is_some());
        if is_attached && agent.is_none() && has_key {
            return Ok(Some(ApprovedTool { has_agent, has_key, is_new: false }));
        }
        let acts = if agent.is_some() { "act for you and " } else { "" };
        let purpose =
            format!("To attach this computer to your account, and let {} {acts}use your memory", self.tool.title());
        let asks_for_agent = agent.is_some();
        let errand = Errand {
            command: "connect",
            purpose: &purpose,
            scopes: if has_key { &[] } else { &ApiKeyScope::COMPUTER },
            agent,
            claimed,
            browser: self.browser,
        };
        let Some(ApprovedComputer { api_key }) = attach::approved(connection, &errand, showing).await? else {
            return Ok(None);
        };
        if let Some(secret) = api_key
            && let Some(key) = login::accepted(connection, Credential::Bearer(secret.clone())).await?
        {
            has_key = key.scopes.contains(&ApiKeyScope::Search);
            connection.change(|profile| profile.set_key(Some((secret, key.scopes))))?;
        }
        if asks_for_agent {
            has_agent = Some(tool_agent::claimed(connection, self.tool).await? == ClaimState::Claimed);
        }
        connection.folder.forget(PENDING_CODE)?;
        Ok(Some(ApprovedTool { has_agent, has_key, is_new: true }))
    }
}

/// Prints the configuration for each file, as the command would write it to an empty file.
fn snippets(json: bool, files: &[ToolFile]) -> Done {
    let mut values = Vec::new();
    let mut lines = Vec::new();
    for file in files {
        let (text, _) = edit::apply(file.syntax, None, &file.edits, false)
            .map_err(|error| Failure::refused(format!("{}: {error}", file.path.display())))?;
        lines.push(format!("{}\n\n{text}", styled(STRONG, format!("# {}", file.path.display()))));
        values.push(json!({ "path": file.path, "text": text }));
    }
    output::show(json, &Value::from(values), || lines.join("\n").trim_end().to_owned());
    Ok(())
}

/// Prints the changes as a unified diff.
fn show_changes(json: bool, tool: Tool, changes: &[FileChange]) {
    let diffs: Vec<(String, String)> = changes
        .iter()
        .map(|change| {
            let path = change.path.display().to_string();
            let now = change.now.as_deref().unwrap_or_default();
            let from = if change.now.is_some() { path.as_str() } else { "/dev/null" };
            let diff = TextDiff::from_lines(now, &change.after);
            (path.clone(), diff.unified_diff().header(from, &path).to_string())
        })
        .collect();
    let values: Vec<Value> = diffs.iter().map(|(path, diff)| json!({ "path": path, "diff": diff })).collect();
    output::show(json, &json!({ "tool": tool, "changes": values }), || {
        let texts: Vec<&str> = diffs.iter().map(|(_, diff)| diff.trim_end()).filter(|diff| !diff.is_empty()).collect();
        if texts.is_empty() { "nothing would change".to_owned() } else { texts.join("\n") }
    });
}

/// The outcome of the command.
struct Summary<'s> {
    tool: Tool,
    scope: Scope,
    wanted: Wanted,
    changes: &'s [FileChange],
    approved: &'s ApprovedTool,
    event: &'s FirstEvent,
}

impl Summary<'_> {
    async fn show(&self, connection: &ProfileConnection) {
        let Self { tool, scope, wanted, changes, approved, event } = self;
        let owner = attach::owner(connection).await;
        let base = connection.client.base_url();
        let event = event.described(base);
        let agent = connection.profile.tools.get(tool).filter(|_| approved.has_agent == Some(true));
        let files: Vec<Value> =
            changes.iter().map(|change| json!({ "path": change.path, "state": state(change) })).collect();
        let value = json!({
            "tool": tool,
            "server": base,
            "email": owner.contains('@').then_some(&owner),
            "machine_uuid": connection.profile.machine.as_ref().map(|machine| machine.machine_uuid),
            "agent": agent.map(|agent| agent.registration_id),
            "api_key": approved.has_key,
            "files": files,
            "event": event,
        });
        output::show(connection.json, &value, || {
            let (good, bad) = (styled(GOOD, "✓"), styled(WARNING, "!"));
            let already = if approved.is_new { "" } else { "already " };
            let title = tool.title();
            let mut lines =
                vec![format!("{good} this computer is {already}attached to the account of {}", styled(STRONG, &owner))];
            lines.extend(approved.has_agent.map(|acts| {
                if acts {
                    format!("{good} {title} acts for you, as far as {base}/account shows")
                } else {
                    format!("{good} {title} does not act for you: you ticked none of its rights")
                }
            }));
            lines.push(if approved.has_key {
                format!("{good} it can use your memory")
            } else {
                format!("{bad} it has no key for your memory: `attache login` asks for one")
            });
            for change in *changes {
                lines.push(format!("{good} {:9} {}", state(change), change.path.display()));
            }
            lines.push(match event["url"].as_str() {
                Some(url) if event["state"] == "recorded" => format!("{good} the first event arrived: {url}"),
                Some(url) => format!("{bad} the first event is held, see {url}"),
                None => format!("{bad} your consent is off, so nothing is recorded: see {base}/account/consent"),
            });
            if let Some(remark) = tool_files::remark(*tool, *scope, *wanted) {
                lines.push(format!("  next: {remark}"));
            }
            lines.push(format!(
                "  {}",
                styled(FAINT, format!("restart {title} to use it; undo: `attache disconnect {}`", tool.as_str()))
            ));
            lines.join("\n")
        });
    }
}

/// The state of a file after the command.
fn state(change: &FileChange) -> &'static str {
    match &change.now {
        _ if change.is_done() => "unchanged",
        Some(_) => "changed",
        None => "written",
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_client_is_preferred_in_the_version_of_this_program() {
        let dir = tempfile::tempdir().unwrap();
        let program = |folder: &str, prints: &str| {
            std::fs::create_dir(dir.path().join(folder)).unwrap();
            let path = dir.path().join(folder).join(CLIENT);
            std::fs::write(&path, format!("#!/bin/sh\necho {prints}\n")).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
            path
        };
        program("older", "attache-client 0.0.9");
        program("other", "hello");
        let client = program("bin", &format!("attache-client {}", env!("CARGO_PKG_VERSION")));
        let found = |folders: &[&str]| client_in(folders.iter().map(|folder| dir.path().join(folder)));
        assert_eq!(found(&["absent", "older", "other", "bin"]), Some(client));
        assert_eq!(found(&["older", "other"]), None);
        assert_eq!(
            client_in([PathBuf::from("bin")].into_iter()),
            None,
            "a relative folder means another one in another folder"
        );
    }

    #[test]
    fn the_path_of_the_program_is_a_link_that_an_upgrade_keeps() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().canonicalize().unwrap().join(path);
        for folder in ["1.0", "bin", "other"] {
            std::fs::create_dir(at(folder)).unwrap();
        }
        std::fs::write(at("1.0/attache"), "").unwrap();
        std::fs::write(at("other/attache"), "").unwrap();
        std::os::unix::fs::symlink(at("1.0/attache"), at("bin/attache")).unwrap();
        let found = |folders: &[&str]| lasting(at("1.0/attache"), folders.iter().map(|folder| at(folder)));
        assert_eq!(found(&["other", "bin", "1.0"]), at("bin/attache"));
        assert_eq!(found(&["other"]), at("1.0/attache"));
        let relative = lasting(at("1.0/attache"), ["".into()].into_iter());
        assert_eq!(relative, at("1.0/attache"), "a relative folder means another one in another folder");
    }
}
