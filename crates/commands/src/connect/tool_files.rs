//! The files that `attache connect` writes for each tool (`docs/connect.md#written-files`).

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use domain::tool::Tool;
use serde_json::{Value, json};

use super::edit::{FileEdit, Syntax};
use crate::failure::Failure;

/// Name of the MCP server in the tools' configurations.
const SERVER: &str = "attache";

/// Timeout of a hook in the tool, in seconds. The hook returns within milliseconds.
const HOOK_SECONDS: u32 = 5;

/// The scope of a tool's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Scope {
    /// For this user, in all projects.
    User,
    /// For the project in the working folder.
    Project,
}

/// The folders in which tools look for their configuration.
#[derive(Debug, Clone)]
pub struct ToolFolders {
    home: PathBuf,
    project: PathBuf,
    /// Values of the environment variables that select another folder.
    claude: Option<PathBuf>,
    codex: Option<PathBuf>,
    gemini: Option<PathBuf>,
    copilot: Option<PathBuf>,
    config: Option<PathBuf>,
}

/// A file to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolFile {
    /// Absolute path.
    pub path: PathBuf,
    /// The project that the file belongs to, which its links must not lead out of; `None` for a file of the user.
    pub project: Option<PathBuf>,
    /// Syntax of the file.
    pub syntax: Syntax,
    /// The additions.
    pub edits: Vec<FileEdit>,
}

/// The command with which the tool starts this program.
#[derive(Debug, Clone)]
pub struct Program {
    /// Absolute path of the binary.
    pub path: String,
    /// Profile that the commands use.
    pub profile: String,
}

/// The parts that are written.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// The MCP server.
    pub mcp: bool,
    /// The hooks.
    pub hooks: bool,
}

impl ToolFolders {
    /// The folders of this process.
    pub fn of_environment() -> Result<Self, Failure> {
        let given = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = given("HOME").ok_or_else(|| Failure::refused("no home folder: set HOME"))?;
        let project = std::env::current_dir().map_err(Failure::caused)?;
        Ok(Self {
            claude: given("CLAUDE_CONFIG_DIR"),
            codex: given("CODEX_HOME"),
            gemini: given("GEMINI_CLI_HOME"),
            copilot: given("COPILOT_HOME"),
            config: given("XDG_CONFIG_HOME"),
            home,
            project,
        })
    }

    /// Folders below `home` and `project`, without variables.
    #[cfg(test)]
    pub fn below(home: &Path, project: &Path) -> Self {
        let (home, project) = (home.to_owned(), project.to_owned());
        Self { home, project, claude: None, codex: None, gemini: None, copilot: None, config: None }
    }

    /// The working folder.
    pub fn project(&self) -> &Path {
        &self.project
    }

    /// The folder `name` below the project, or below the home folder unless a variable overrides it.
    fn of(&self, scope: Scope, variable: Option<&PathBuf>, name: &str) -> PathBuf {
        match (scope, variable) {
            (Scope::Project, _) => self.project.join(name),
            (Scope::User, Some(folder)) => folder.clone(),
            (Scope::User, None) => self.home.join(name),
        }
    }
}

/// The files of a tool.
pub fn files(tool: Tool, scope: Scope, folders: &ToolFolders, program: &Program, wanted: Wanted) -> Vec<ToolFile> {
    let (mcp, hooks) = match tool {
        Tool::ClaudeCode => claude_code(scope, folders, program),
        Tool::Codex => codex(scope, folders, program),
        Tool::Cursor => cursor(scope, folders, program),
        Tool::GeminiCli => gemini_cli(scope, folders, program),
        Tool::GithubCopilot => github_copilot(scope, folders, program),
        Tool::Opencode => opencode(scope, folders, program),
    };
    let project = (scope == Scope::Project).then(|| folders.project.clone());
    let mut files: Vec<ToolFile> = Vec::new();
    for (file, is_wanted) in [(mcp, wanted.mcp), (hooks, wanted.hooks)] {
        if !is_wanted {
            continue;
        }
        match files.iter_mut().find(|known| known.path == file.path) {
            Some(known) => known.edits.extend(file.edits),
            None => files.push(ToolFile { project: project.clone(), ..file }),
        }
    }
    files
}

/// The step that the owner has to do in the tool itself.
pub fn remark(tool: Tool, scope: Scope, wanted: Wanted) -> Option<&'static str> {
    match (tool, scope) {
        (Tool::Codex, _) if wanted.hooks => Some("Codex runs new hooks once you have trusted them: type /hooks in it"),
        (Tool::Cursor, _) => Some("Cursor asks you once to enable the server: Settings, Tools & MCP"),
        (Tool::GeminiCli, _) => {
            Some("Gemini CLI uses servers and hooks only in folders that you trust: it asks you once in each")
        }
        (Tool::ClaudeCode, Scope::Project) if wanted.mcp => {
            Some("Claude Code asks you once to approve the server of the project")
        }
        (Tool::GithubCopilot, Scope::Project) => {
            Some("GitHub Copilot CLI reads the files once you trust the folder: it asks you when it starts")
        }
        _ => None,
    }
}

/// `~/.claude.json` and `~/.claude/settings.json`; `.mcp.json` and `.claude/settings.local.json` in a project.
fn claude_code(scope: Scope, folders: &ToolFolders, program: &Program) -> (ToolFile, ToolFile) {
    let folder = folders.of(scope, folders.claude.as_ref(), ".claude");
    let (mcp, settings) = match scope {
        Scope::User => (folders.claude.as_ref().unwrap_or(&folders.home).join(".claude.json"), "settings.json"),
        Scope::Project => (folders.project.join(".mcp.json"), "settings.local.json"),
    };
    let server = json!({ "type": "stdio", "command": program.path, "args": program.mcp(), "env": {} });
    let handler = json!({ "type": "command", "command": program.hook(Tool::ClaudeCode), "timeout": HOOK_SECONDS });
    // PostToolUse does not report a failed call, and Stop does not report a failed answer.
    let events = [
        "SessionStart",
        "UserPromptSubmit",
        "PostToolUse",
        "PostToolUseFailure",
        "Stop",
        "StopFailure",
        "SubagentStop",
        "SessionEnd",
    ];
    let hooks = events.map(|event| element(&["hooks", event], grouped(event.starts_with("PostToolUse"), &handler)));
    (json_file(mcp, vec![member(&["mcpServers", SERVER], server)]), json_file(folder.join(settings), hooks.into()))
}

/// `~/.codex/config.toml` and `~/.codex/hooks.json`, or the same below a project.
///
/// `notify` only reports finished turns and takes one program, so hooks are used.
fn codex(scope: Scope, folders: &ToolFolders, program: &Program) -> (ToolFile, ToolFile) {
    let folder = folders.of(scope, folders.codex.as_ref(), ".codex");
    let server = json!({ "command": program.path, "args": program.mcp() });
    let handler = json!({ "type": "command", "command": program.hook(Tool::Codex), "timeout": HOOK_SECONDS });
    let hooks = ["SessionStart", "UserPromptSubmit", "PostToolUse", "Stop"]
        .map(|event| element(&["hooks", event], grouped(event == "PostToolUse", &handler)));
    let mcp = ToolFile {
        path: folder.join("config.toml"),
        project: None,
        syntax: Syntax::Toml,
        edits: vec![member(&["mcp_servers", SERVER], server)],
    };
    (mcp, json_file(folder.join("hooks.json"), hooks.into()))
}

/// `~/.cursor/mcp.json` and `~/.cursor/hooks.json`, or the same below a project.
fn cursor(scope: Scope, folders: &ToolFolders, program: &Program) -> (ToolFile, ToolFile) {
    let folder = folders.of(scope, None, ".cursor");
    let server = json!({ "type": "stdio", "command": program.path, "args": program.mcp() });
    let handler = json!({ "command": program.hook(Tool::Cursor), "timeout": HOOK_SECONDS });
    let events = [
        "sessionStart",
        "beforeSubmitPrompt",
        "afterShellExecution",
        "afterMCPExecution",
        "afterFileEdit",
        "afterAgentResponse",
        "stop",
        "sessionEnd",
    ];
    let mut hooks = vec![FileEdit::Required(vec!["version".to_owned()], json!(1))];
    hooks.extend(events.map(|event| element(&["hooks", event], handler.clone())));
    let mcp = json_file(folder.join("mcp.json"), vec![member(&["mcpServers", SERVER], server)]);
    (mcp, json_file(folder.join("hooks.json"), hooks))
}

/// `~/.gemini/settings.json`, or the same below a project. Timeouts are in milliseconds there.
fn gemini_cli(scope: Scope, folders: &ToolFolders, program: &Program) -> (ToolFile, ToolFile) {
    let home = folders.gemini.as_ref().map(|home| home.join(".gemini"));
    let path = folders.of(scope, home.as_ref(), ".gemini").join("settings.json");
    let server = json!({ "command": program.path, "args": program.mcp() });
    let handler = json!({
        "type": "command", "command": program.hook(Tool::GeminiCli), "name": SERVER, "timeout": HOOK_SECONDS * 1000,
    });
    let hooks = ["SessionStart", "BeforeAgent", "AfterTool", "AfterAgent", "SessionEnd"]
        .map(|event| element(&["hooks", event], grouped(event == "AfterTool", &handler)));
    let mcp = json_file(path.clone(), vec![member(&["mcpServers", SERVER], server)]);
    (mcp, json_file(path, hooks.into()))
}

/// `~/.copilot/mcp-config.json` and a file in `~/.copilot/hooks`; `.github/mcp.json` and a file in
/// `.github/hooks` in a project.
fn github_copilot(scope: Scope, folders: &ToolFolders, program: &Program) -> (ToolFile, ToolFile) {
    let (mcp, hooks) = match scope {
        Scope::User => {
            let folder = folders.of(scope, folders.copilot.as_ref(), ".copilot");
            (folder.join("mcp-config.json"), folder.join("hooks"))
        }
        Scope::Project => (folders.project.join(".github/mcp.json"), folders.project.join(".github/hooks")),
    };
    let server = json!({ "type": "local", "command": program.path, "args": program.mcp(), "tools": ["*"] });
    let handler = json!({ "type": "command", "bash": program.hook(Tool::GithubCopilot), "timeoutSec": HOOK_SECONDS });
    let mut edits = vec![FileEdit::Required(vec!["version".to_owned()], json!(1))];
    let events = [
        "sessionStart",
        "userPromptSubmitted",
        "postToolUse",
        "postToolUseFailure",
        "agentStop",
        "errorOccurred",
        "sessionEnd",
    ];
    edits.extend(events.map(|event| element(&["hooks", event], handler.clone())));
    let mcp = json_file(mcp, vec![member(&["mcpServers", SERVER], server)]);
    (mcp, json_file(hooks.join("attache.json"), edits))
}

/// `~/.config/opencode/opencode.json` and a plugin next to it, or `opencode.json` and `.opencode/plugins` in a project. An existing
/// `opencode.jsonc` is used instead. opencode has no hooks; a plugin passes its events on.
fn opencode(scope: Scope, folders: &ToolFolders, program: &Program) -> (ToolFile, ToolFile) {
    let (folder, plugins) = match scope {
        Scope::User => {
            let config = folders.config.clone().unwrap_or_else(|| folders.home.join(".config")).join("opencode");
            (config.clone(), config.join("plugins"))
        }
        Scope::Project => (folders.project.clone(), folders.project.join(".opencode/plugins")),
    };
    let commented = folder.join("opencode.jsonc");
    let path = if commented.exists() { commented } else { folder.join("opencode.json") };
    let command: Vec<String> = std::iter::once(program.path.clone()).chain(program.mcp()).collect();
    let server = json!({ "type": "local", "command": command, "enabled": true });
    let plugin = ToolFile {
        path: plugins.join("attache.js"),
        project: None,
        syntax: Syntax::Text,
        edits: vec![FileEdit::Whole(plugin(program))],
    };
    // opencode adds the member to a file without it, which would then differ from the recorded content.
    let schema = FileEdit::Required(vec!["$schema".to_owned()], json!("https://opencode.ai/config.json"));
    (json_file(path, vec![schema, member(&["mcp", SERVER], server)]), plugin)
}

/// The plugin: it starts the hook for each recorded event and does not wait for it.
fn plugin(program: &Program) -> String {
    let command = json!([program.path, "hook", Tool::Opencode.as_str(), "--profile", program.profile]);
    include_str!("opencode_plugin.js").replace("[\"attache\"]", &command.to_string())
}

impl Program {
    /// The arguments of the MCP server.
    fn mcp(&self) -> Vec<String> {
        ["mcp", "--profile", &self.profile].map(str::to_owned).into()
    }

    /// The command line of the hook, for a shell.
    fn hook(&self, tool: Tool) -> String {
        format!("{} hook {} --profile {}", quoted(&self.path), tool.as_str(), self.profile)
    }
}

/// A word quoted for a POSIX shell.
fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+@:".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// A group of one handler, with a matcher of tools if the event has one.
fn grouped(has_matcher: bool, handler: &Value) -> Value {
    if has_matcher { json!({ "matcher": "*", "hooks": [handler] }) } else { json!({ "hooks": [handler] }) }
}

fn json_file(path: PathBuf, edits: Vec<FileEdit>) -> ToolFile {
    ToolFile { path, project: None, syntax: Syntax::Json, edits }
}

fn member(path: &[&str], value: Value) -> FileEdit {
    FileEdit::Member(path.iter().map(|name| (*name).to_owned()).collect(), value)
}

fn element(path: &[&str], value: Value) -> FileEdit {
    FileEdit::Element(path.iter().map(|name| (*name).to_owned()).collect(), value)
}
