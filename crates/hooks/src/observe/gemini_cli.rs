//! Hooks of Gemini CLI: names in `PascalCase`, members in `snake_case`, and a time in each payload.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::members::{first, text};
use crate::observation::{HookActivity, HookObservation};

/// Reads a payload.
pub fn observe<'p>(hook: &'p str, members: &'p Map<String, Value>) -> Option<HookObservation<'p>> {
    let activity = match hook {
        "SessionStart" => HookActivity::SessionStarted,
        "SessionEnd" => HookActivity::SessionEnded,
        "BeforeAgent" => HookActivity::PromptSubmitted,
        "AfterAgent" => HookActivity::Completed,
        "BeforeTool" => HookActivity::ToolStarted,
        "AfterTool" => HookActivity::ToolFinished,
        "PreCompress" => HookActivity::Compacting,
        "Notification" => HookActivity::PermissionRequested,
        // Requests to the model contain the whole conversation each time, and its answers arrive in pieces.
        "BeforeModel" | "AfterModel" | "BeforeToolSelection" => return None,
        _ => HookActivity::Other,
    };
    let mut observation = HookObservation::common(hook, activity, members);
    if activity == HookActivity::PermissionRequested {
        observation.content.extend(first(members, &["details"]).map(|details| ("input", Cow::Borrowed(details))));
    }
    let output = members.get("tool_response").and_then(|output| text(output.as_object()?, &["llmContent"]));
    if let (Some("run_shell_command"), Some(status)) = (observation.skill.as_deref(), output.and_then(exit_status)) {
        observation.ended(Some(status));
    }
    Some(observation)
}

/// The exit status among the lines that follow the output of a command; success has no such line.
fn exit_status(output: &str) -> Option<i64> {
    const OTHERS: [&str; 4] = ["</untrusted_context>", "Process Group PGID: ", "Background PIDs: ", "Signal: "];
    let line = output.lines().rev().find(|line| !OTHERS.iter().any(|other| line.starts_with(other)))?;
    line.strip_prefix("Exit Code: ")?.parse().ok()
}
