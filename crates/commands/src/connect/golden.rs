//! Each folder of `golden/TOOL` is a case: a home folder `before` and `after` the tool is connected. The test connects the tool, compares
//! the files, parses them by the documented schema of the tool, and undoes the changes to the byte. `ATTACHE_GOLDEN=write` writes the
//! folders `after`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use domain::tool::Tool;
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::CstRootNode;
use serde::Deserialize;
use serde_json::Value;

use super::edit::Syntax;
use super::record::{Undone, WrittenRecord, record_name};
use super::tool_files::{Program, Scope, ToolFile, ToolFolders, Wanted, files};
use crate::profile_folder::ProfileFolder;

const CASES: [&str; 4] = ["empty", "existing", "foreign", "comments"];

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/connect/golden")
}

/// The files below a folder, by their paths in it; none if there is no such folder.
fn tree(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut files = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_owned();
                files.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    files
}

fn write(root: &Path, tree: &BTreeMap<PathBuf, String>) {
    for (name, text) in tree {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// A home folder with the files of a case, and a profile.
struct Case {
    tool: Tool,
    home: tempfile::TempDir,
    profile: ProfileFolder,
    before: BTreeMap<PathBuf, String>,
}

impl Case {
    fn new(tool: Tool, case: &str) -> Self {
        let (home, before) =
            (tempfile::tempdir().unwrap(), tree(&golden().join(tool.as_str()).join(case).join("before")));
        write(&home.path().join("home"), &before);
        let profile = ProfileFolder::at(home.path().join("profile"));
        Self { tool, home, profile, before }
    }

    fn home(&self) -> PathBuf {
        self.home.path().join("home")
    }

    fn files(&self, binary: &str) -> Vec<ToolFile> {
        let folders = ToolFolders::below(&self.home(), &self.home().join("project"));
        let program = Program { path: binary.to_owned(), profile: "default".to_owned() };
        files(self.tool, Scope::User, &folders, &program, Wanted { mcp: true, hooks: true })
    }

    fn name(&self) -> String {
        record_name(self.tool, Scope::User, &self.home())
    }

    fn record(&self) -> WrittenRecord {
        self.profile.json(&self.name()).unwrap().unwrap_or_default()
    }

    fn connect(&self, binary: &str) {
        let mut record = self.record();
        let changes = record.changes(&self.files(binary), &self.profile, false).unwrap();
        record.write(&changes, &self.profile, &self.name()).unwrap();
    }

    fn disconnect(&self) -> Vec<(PathBuf, Undone)> {
        self.record().undo(&self.profile, &self.name()).unwrap()
    }
}

const BINARY: &str = "/usr/local/bin/attache";

#[test]
fn files_are_changed_as_recorded_and_undone_to_the_byte() {
    for tool in Tool::ALL {
        for name in CASES {
            let case = Case::new(tool, name);
            case.connect(BINARY);
            let after = tree(&case.home());
            let expected = golden().join(tool.as_str()).join(name).join("after");
            if std::env::var("ATTACHE_GOLDEN").is_ok_and(|value| value == "write") {
                let _ = fs::remove_dir_all(&expected);
                write(&expected, &after);
            }
            assert_eq!(after, tree(&expected), "{tool:?} {name}");
            assert!(!after.is_empty());
            for file in case.files(BINARY) {
                let path = file.path.strip_prefix(case.home()).unwrap().to_owned();
                read_back(tool, &path, &after[&path]);
            }
            // A second run changes no file.
            let changes = case.record().changes(&case.files(BINARY), &case.profile, false).unwrap();
            assert!(changes.iter().all(super::record::FileChange::is_done), "{tool:?} {name}");
            let undone = case.disconnect();
            assert_eq!(tree(&case.home()), case.before, "{tool:?} {name}");
            assert!(
                undone.iter().all(|(_, undone)| matches!(undone, Undone::Restored | Undone::Deleted)),
                "{undone:?}"
            );
            assert_eq!(fs::read_dir(case.profile.path()).unwrap().count(), 0, "backups and record are removed");
            if name == "empty" {
                assert_eq!(
                    fs::read_dir(case.home()).into_iter().flatten().count(),
                    0,
                    "folders that were made are removed"
                );
            }
        }
    }
}

#[test]
fn what_others_wrote_since_stays_and_all_of_ours_is_removed() {
    for tool in Tool::ALL {
        for name in CASES {
            let case = Case::new(tool, name);
            case.connect(BINARY);
            let tool_files = case.files(BINARY);
            for file in tool_files.iter().filter(|file| file.syntax != Syntax::Text) {
                let text = fs::read_to_string(&file.path).unwrap();
                let changed = match file.syntax {
                    Syntax::Json => text.replacen('{', "{ \"addedSince\": true,", 1),
                    _ => format!("added_since = true\n{text}"),
                };
                fs::write(&file.path, changed).unwrap();
            }
            let undone = case.disconnect();
            for file in &tool_files {
                let state = undone.iter().find(|(path, _)| *path == file.path).map(|(_, undone)| undone);
                if file.syntax == Syntax::Text {
                    assert_eq!(state, Some(&Undone::Deleted), "{tool:?} {name}");
                    continue;
                }
                assert_eq!(state, Some(&Undone::Edited(Vec::new())), "{tool:?} {name}");
                let left = fs::read_to_string(&file.path).unwrap();
                assert!(left.contains("added") && !left.contains("attache"), "{tool:?} {name}: {left}");
                let key = file.path.strip_prefix(case.home()).unwrap();
                let Some(before) = case.before.get(key).filter(|_| file.syntax == Syntax::Json) else { continue };
                let mut value = parsed(&left);
                value.as_object_mut().unwrap().remove("addedSince");
                assert_eq!(value, parsed(before), "{tool:?} {name}");
                for comment in before.lines().filter_map(|line| line.split_once("// ").map(|(_, comment)| comment)) {
                    assert!(left.contains(comment), "{tool:?} {name}: {comment} in {left}");
                }
            }
        }
    }
}

#[test]
fn a_moved_binary_takes_the_place_of_the_former_one() {
    for tool in Tool::ALL {
        let case = Case::new(tool, "foreign");
        case.connect("/opt/it's/attache");
        case.connect(BINARY);
        let after = tree(&case.home());
        assert_eq!(after, tree(&golden().join(tool.as_str()).join("foreign/after")), "{tool:?}");
        case.disconnect();
        assert_eq!(tree(&case.home()), case.before, "{tool:?}");
    }
}

#[test]
fn an_entry_of_another_program_is_kept_unless_it_may_be_replaced() {
    let case = Case::new(Tool::Cursor, "empty");
    let path = case.home().join(".cursor/mcp.json");
    let foreign = "{ \"mcpServers\": { \"attache\": { \"command\": \"other\" } } }\n";
    write(&case.home(), &BTreeMap::from([(PathBuf::from(".cursor/mcp.json"), foreign.to_owned())]));
    let refused = case.record().changes(&case.files(BINARY), &case.profile, false).unwrap_err();
    assert!(refused.reason().contains("\"mcpServers.attache\" exists already"), "{}", refused.reason());
    let mut record = case.record();
    let changes = record.changes(&case.files(BINARY), &case.profile, true).unwrap();
    record.write(&changes, &case.profile, &case.name()).unwrap();
    assert!(fs::read_to_string(&path).unwrap().contains(BINARY));
    case.disconnect();
    assert_eq!(fs::read_to_string(&path).unwrap(), foreign);
}

#[test]
fn a_file_that_is_no_configuration_is_refused_and_left() {
    for (tool, name, text) in [
        (Tool::Cursor, ".cursor/mcp.json", "{ \"mcpServers\": [] }"),
        (Tool::Cursor, ".cursor/mcp.json", "not json"),
        (Tool::Codex, ".codex/config.toml", "mcp_servers = 3"),
        (Tool::Codex, ".codex/config.toml", "= 3"),
        (Tool::ClaudeCode, ".claude/settings.json", "{ \"hooks\": { \"Stop\": {} } }"),
    ] {
        let case = Case::new(tool, "empty");
        write(&case.home(), &BTreeMap::from([(PathBuf::from(name), text.to_owned())]));
        let refused = case.record().changes(&case.files(BINARY), &case.profile, false).unwrap_err();
        assert!(refused.reason().contains(name), "{}", refused.reason());
        assert_eq!(tree(&case.home()).len(), 1);
    }
}

fn parsed(text: &str) -> Value {
    CstRootNode::parse(text, &ParseOptions::default()).unwrap().to_serde_value().unwrap()
}

/// Reads the parts that were written by the documented schema of the tool.
fn read_back(tool: Tool, path: &Path, text: &str) {
    let has_extension = |extension: &str| path.extension().is_some_and(|it| it == extension);
    if has_extension("js") {
        assert!(
            text.contains("const COMMAND = [\"/usr/local/bin/attache\",\"hook\",\"opencode\"")
                && !text.contains("\"attache\"]")
        );
        return;
    }
    let root: Value = if has_extension("toml") { toml::from_str(text).unwrap() } else { parsed(text) };
    let servers = ["mcpServers", "mcp_servers", "mcp"].into_iter().find_map(|member| root.get(member));
    let ours = servers.and_then(|servers| servers.get("attache"));
    let mut is_read = false;
    if let Some(ours) = ours {
        is_read = true;
        let server: Server = serde_json::from_value(ours.clone()).unwrap();
        let command: Vec<String> = match server.command {
            Command::Words(words) => words,
            Command::Program(program) => [program].into_iter().chain(server.args.unwrap()).collect(),
        };
        assert_eq!(command, [BINARY, "mcp", "--profile", "default"]);
        let kind = match tool {
            Tool::ClaudeCode | Tool::Cursor => Some("stdio"),
            Tool::GithubCopilot | Tool::Opencode => Some("local"),
            Tool::Codex | Tool::GeminiCli => None,
        };
        assert_eq!((server.kind.as_deref(), server.tools.is_some()), (kind, tool == Tool::GithubCopilot));
        assert_eq!(
            (server.env.is_some(), server.enabled),
            (tool == Tool::ClaudeCode, (tool == Tool::Opencode).then_some(true))
        );
    }
    if let Some(hooks) = root.get("hooks") {
        let hooks: BTreeMap<String, Vec<Value>> = serde_json::from_value(hooks.clone()).unwrap();
        let mut events = Vec::new();
        for (event, groups) in &hooks {
            let is_ours = groups.iter().any(|group| group.to_string().contains(BINARY));
            if is_ours {
                events.push(event.as_str());
                let last = groups.last().unwrap().clone();
                assert_eq!(line(tool, last), format!("{BINARY} hook {} --profile default", tool.as_str()));
            }
        }
        is_read |= !events.is_empty();
        assert!(events.iter().all(|event| documented(tool).contains(event)), "{tool:?}: {events:?}");
    }
    assert!(is_read, "{tool:?} {}", path.display());
}

/// The command line of a hook, read by the schema of the tool.
fn line(tool: Tool, hook: Value) -> String {
    match tool {
        Tool::ClaudeCode | Tool::Codex | Tool::GeminiCli => {
            let Group { hooks, matcher } = serde_json::from_value(hook).unwrap();
            assert!(matcher.is_none_or(|matcher| matcher == "*"));
            let [Handler { kind, command, timeout, name }] = <[Handler; 1]>::try_from(hooks).unwrap();
            // Milliseconds in Gemini CLI, seconds in the others.
            let expected = if tool == Tool::GeminiCli { (5000, true) } else { (5, false) };
            assert_eq!((kind.as_str(), timeout, name.is_some()), ("command", expected.0, expected.1));
            command
        }
        Tool::Cursor => {
            let CursorHook { command, timeout } = serde_json::from_value(hook).unwrap();
            assert_eq!(timeout, 5);
            command
        }
        Tool::GithubCopilot => {
            let CopilotHook { kind, bash, timeout_sec } = serde_json::from_value(hook).unwrap();
            assert_eq!((kind.as_str(), timeout_sec), ("command", 5));
            bash
        }
        Tool::Opencode => panic!("opencode has no hooks"),
    }
}

/// The events that the tools document.
fn documented(tool: Tool) -> &'static [&'static str] {
    match tool {
        Tool::ClaudeCode => &[
            "PreToolUse",
            "PostToolUse",
            "PostToolUseFailure",
            "Notification",
            "UserPromptSubmit",
            "SessionStart",
            "SessionEnd",
            "Stop",
            "StopFailure",
            "SubagentStop",
            "PreCompact",
        ],
        Tool::Codex => &["SessionStart", "PreToolUse", "PermissionRequest", "PostToolUse", "UserPromptSubmit", "Stop"],
        Tool::Cursor => &[
            "sessionStart",
            "sessionEnd",
            "beforeSubmitPrompt",
            "beforeShellExecution",
            "afterShellExecution",
            "beforeMCPExecution",
            "afterMCPExecution",
            "beforeReadFile",
            "afterFileEdit",
            "afterAgentResponse",
            "afterAgentThought",
            "stop",
        ],
        Tool::GeminiCli => &[
            "SessionStart",
            "SessionEnd",
            "BeforeAgent",
            "AfterAgent",
            "BeforeModel",
            "AfterModel",
            "BeforeToolSelection",
            "BeforeTool",
            "AfterTool",
            "PreCompress",
            "Notification",
        ],
        Tool::GithubCopilot => &[
            "sessionStart",
            "sessionEnd",
            "userPromptSubmitted",
            "preToolUse",
            "postToolUse",
            "postToolUseFailure",
            "agentStop",
            "errorOccurred",
        ],
        Tool::Opencode => &[],
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Server {
    #[serde(rename = "type")]
    kind: Option<String>,
    command: Command,
    args: Option<Vec<String>>,
    env: Option<BTreeMap<String, String>>,
    tools: Option<Vec<String>>,
    enabled: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Command {
    Program(String),
    Words(Vec<String>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    #[serde(rename = "matcher", default)]
    matcher: Option<String>,
    hooks: Vec<Handler>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Handler {
    #[serde(rename = "type")]
    kind: String,
    command: String,
    timeout: u32,
    name: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CursorHook {
    command: String,
    timeout: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CopilotHook {
    #[serde(rename = "type")]
    kind: String,
    bash: String,
    #[serde(rename = "timeoutSec")]
    timeout_sec: u32,
}

/// The name of the temporary file cannot be foreseen, and no link is followed.
#[test]
fn links_in_the_folder_of_a_file_are_not_followed() {
    let case = Case::new(Tool::ClaudeCode, "empty");
    fs::create_dir_all(case.home()).unwrap();
    let theirs = case.home.path().join("theirs");
    fs::write(&theirs, "theirs").unwrap();
    for name in ["..claude.json.attache-", "..claude.json."] {
        std::os::unix::fs::symlink(&theirs, case.home().join(format!("{name}{}", std::process::id()))).unwrap();
    }
    case.connect(BINARY);
    assert!(case.home().join(".claude.json").exists());
    assert_eq!(fs::read_to_string(theirs).unwrap(), "theirs");
}
