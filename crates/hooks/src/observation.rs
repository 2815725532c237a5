//! The report of a payload, in the same terms for every tool, and the members that the tools share under different names.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::members::{first, label, label_of, millis, number, text, unpacked};

/// What happened, independent of the tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum HookActivity {
    /// A session started or was resumed.
    SessionStarted,
    /// A session ended.
    SessionEnded,
    /// A person or program gave the agent a prompt.
    PromptSubmitted,
    /// The agent answered.
    Completed,
    /// The agent could not answer.
    Failed,
    /// The agent is about to use a tool.
    ToolStarted,
    /// The agent has used a tool.
    ToolFinished,
    /// The agent has changed a file.
    FileEdited,
    /// The agent requested a permission.
    PermissionRequested,
    /// The agent was denied a permission.
    PermissionDenied,
    /// An agent started another one.
    SubagentStarted,
    /// An agent that another one started has ended.
    SubagentEnded,
    /// The context is about to be summarised.
    Compacting,
    /// The context was summarised.
    Compacted,
    /// Instructions were read into the context.
    InstructionsLoaded,
    /// An agent was called and has ended.
    AgentInvoked,
    /// An agent was made.
    AgentCreated,
    /// Any other hook.
    Other,
}

impl HookActivity {
    /// The name in payloads.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The report of a payload.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookObservation<'p> {
    /// What happened.
    pub activity: Option<HookActivity>,
    /// Name of the hook.
    pub hook: Cow<'p, str>,
    /// Id of the session, as the tool gives it.
    pub session: Option<Cow<'p, str>>,
    /// The working folder.
    pub folder: Option<Cow<'p, str>>,
    /// Time in epoch milliseconds.
    pub at_ms: Option<i64>,
    /// Text that is equal only for repetitions of this event.
    pub key: Option<String>,
    /// Name of the agent's tool.
    pub skill: Option<Cow<'p, str>>,
    /// Further labels, by their name in the payload of the event.
    pub labels: Vec<(&'static str, Cow<'p, str>)>,
    /// Duration in milliseconds.
    pub duration_ms: Option<f64>,
    /// Exit status of a process.
    pub exit_status: Option<i64>,
    /// Whether a tool succeeded.
    pub succeeded: Option<bool>,
    /// Numbers of tokens that the model read and wrote.
    pub tokens: (Option<u64>, Option<u64>),
    /// Content by its name in the payload of the event.
    pub content: Vec<(&'static str, Cow<'p, Value>)>,
    /// A path; the event contains only its digest as metadata.
    pub file: Option<Cow<'p, str>>,
}

/// Names of the members, by the tools that use them.
const SESSION: [&str; 6] = ["session_id", "sessionId", "conversation_id", "sessionID", "thread-id", "thread_id"];
const FOLDER: [&str; 4] = ["cwd", "workingDirectory", "directory", "working_directory"];
const CALL: [&str; 5] = ["tool_use_id", "toolUseId", "toolCallId", "callID", "tool_call_id"];
pub const TURN: [&str; 4] = ["turn_id", "turn-id", "prompt_id", "messageID"];
const TOOL: [&str; 3] = ["tool_name", "toolName", "tool"];
const INPUT: [&str; 6] = ["tool_input", "toolInput", "toolArgs", "tool_args", "args", "input"];
const OUTPUT: [&str; 7] =
    ["tool_response", "tool_output", "tool_result", "toolResult", "result_json", "output", "toolOutput"];
const COMPLETION: [&str; 4] = ["last_assistant_message", "last-assistant-message", "prompt_response", "text"];
const FILE: [&str; 6] = ["file_path", "filePath", "path", "notebook_path", "absolute_path", "file"];

/// Members with further labels of a hook.
const LABELS: [(&str, &[&str]); 9] = [
    ("source", &["source", "load_reason"]),
    ("reason", &["reason", "stop_reason", "stopReason", "status"]),
    ("trigger", &["trigger"]),
    ("mode", &["permission_mode", "composer_mode"]),
    ("model", &["model", "modelID"]),
    ("subagent", &["agent_type", "agentName", "agent_name", "subagent_type"]),
    ("memory_type", &["memory_type"]),
    ("notification", &["notification_type"]),
    ("error_kind", &["error_type", "failure_type", "errorContext", "error_context"]),
];

/// Tools that change files, in any of the agents.
const EDITORS: [&str; 16] = [
    "Edit",
    "Write",
    "MultiEdit",
    "NotebookEdit",
    "apply_patch",
    "write_file",
    "replace",
    "create",
    "edit",
    "write",
    "str_replace_editor",
    "StrReplace",
    "patch",
    "multiedit",
    "search_replace",
    "Delete",
];

/// The name of the hook: from the payload, or the given one.
pub fn named<'p>(hook: Option<&'p str>, members: &'p Map<String, Value>) -> Option<&'p str> {
    label_of(members, &["hook_event_name", "hookEventName", "hookName"]).or_else(|| hook.and_then(label))
}

impl<'p> HookObservation<'p> {
    /// Reads the members that the tools share.
    pub fn common(hook: &'p str, activity: HookActivity, members: &'p Map<String, Value>) -> Self {
        let mut observation = Self {
            activity: Some(activity),
            hook: Cow::Borrowed(hook),
            session: text(members, &SESSION).map(Cow::Borrowed),
            folder: text(members, &FOLDER).or_else(|| first_root(members)).map(Cow::Borrowed),
            at_ms: first(members, &["timestamp"]).and_then(millis),
            skill: label_of(members, &TOOL).map(Cow::Borrowed),
            duration_ms: first(members, &["duration_ms", "duration", "durationMs"]).and_then(number),
            ..Self::default()
        };
        for (name, names) in LABELS {
            observation.labels.extend(label_of(members, names).map(|value| (name, Cow::Borrowed(value))));
        }
        observation.key = text(members, &CALL).map(str::to_owned).filter(|_| observation.is_of_a_tool());
        observation.contents(members);
        observation
    }

    /// Whether the hook is about the use of a tool.
    fn is_of_a_tool(&self) -> bool {
        matches!(
            self.activity,
            Some(
                HookActivity::ToolStarted
                    | HookActivity::ToolFinished
                    | HookActivity::FileEdited
                    | HookActivity::PermissionDenied
            )
        )
    }

    /// Reads the content that belongs to the activity.
    fn contents(&mut self, members: &'p Map<String, Value>) {
        match self.activity {
            Some(HookActivity::PromptSubmitted) => self.content("prompt", members, &["prompt"]),
            Some(HookActivity::Completed | HookActivity::SubagentEnded) => {
                self.content("prompt", members, &["prompt"]);
                self.content("completion", members, &COMPLETION);
            }
            Some(HookActivity::Failed) => self.content("error", members, &["error_details", "error"]),
            Some(HookActivity::ToolStarted) => self.input(members),
            Some(HookActivity::ToolFinished | HookActivity::FileEdited) => {
                self.input(members);
                self.output(members);
            }
            Some(HookActivity::PermissionRequested | HookActivity::PermissionDenied) => {
                self.input(members);
                self.content("reason_text", members, &["reason", "message"]);
            }
            Some(HookActivity::Compacted) => self.content("summary", members, &["compact_summary", "summary"]),
            Some(HookActivity::InstructionsLoaded) => {
                self.file = text(members, &FILE).map(Cow::Borrowed);
            }
            _ => {}
        }
    }

    fn input(&mut self, members: &'p Map<String, Value>) {
        let Some(input) = first(members, &INPUT) else {
            // Cursor has a command, a file or edits in addition to the other members.
            for name in ["command", "edits", "content"] {
                self.content(if name == "command" { "input" } else { name }, members, &[name]);
            }
            self.file = self.file.take().or_else(|| text(members, &FILE).map(Cow::Borrowed));
            return;
        };
        let input = unpacked(input);
        if let Some(file) = input.as_object().and_then(|input| text(input, &FILE)) {
            self.file = Some(Cow::Owned(file.to_owned()));
        }
        // Claude Code runs skills by a tool of this name.
        if self.skill.as_deref() == Some("Skill")
            && let Some(skill) = input.as_object().and_then(|input| label_of(input, &["skill", "command"]))
        {
            self.skill = Some(Cow::Owned(skill.to_owned()));
        }
        if self.activity == Some(HookActivity::ToolFinished)
            && self.skill.as_deref().is_some_and(|name| EDITORS.contains(&name))
        {
            self.activity = Some(HookActivity::FileEdited);
        }
        self.content.push(("input", Cow::Owned(input)));
    }

    /// Reads the results of a tool.
    pub fn output(&mut self, members: &'p Map<String, Value>) {
        self.content("error", members, &["error", "error_message"]);
        let has_failed = first(members, &["error", "error_message"]).is_some();
        let output = first(members, &OUTPUT).map(unpacked);
        let results = output.as_ref().and_then(Value::as_object);
        self.exit_status = results.and_then(exit_status).or_else(|| exit_status(members));
        let is_error = results.is_some_and(|results| {
            first(results, &["error"]).is_some()
                || ["is_error", "isError"].iter().any(|name| results.get(*name) == Some(&Value::Bool(true)))
        });
        self.succeeded = Some(!has_failed && !is_error && self.exit_status.is_none_or(|status| status == 0));
        if let Some(output) = output {
            self.content.push(("output", Cow::Owned(output)));
        }
    }

    /// Derives success from the exit status of a process; without one, success is unknown.
    pub fn ended(&mut self, status: Option<i64>) {
        self.exit_status = status;
        self.succeeded = status.map(|status| status == 0);
    }

    /// Reads the state of a call that opencode reports as a part of a message.
    pub fn call(&mut self, state: &'p Map<String, Value>) {
        self.content.clear();
        self.input(state);
        self.output(state);
        let time = |name| state.get("time")?.get(name).and_then(number);
        self.duration_ms = time("end").zip(time("start")).map(|(end, begin)| (end - begin).max(0.0));
        self.at_ms = state.get("time").and_then(|time| time.get("end")).and_then(millis);
    }

    fn content(&mut self, name: &'static str, members: &'p Map<String, Value>, names: &[&str]) {
        self.content.extend(first(members, names).map(|value| (name, Cow::Borrowed(value))));
    }
}

/// The first folder of Cursor's workspace.
fn first_root(members: &Map<String, Value>) -> Option<&str> {
    members.get("workspace_roots")?.get(0)?.as_str()
}

/// An exit status among the results of a tool, or in its metadata.
fn exit_status(results: &Map<String, Value>) -> Option<i64> {
    let of = |results: &Map<String, Value>| first(results, &["exit_code", "exitCode", "exit"]).and_then(Value::as_i64);
    of(results).or_else(|| of(results.get("metadata")?.as_object()?))
}
