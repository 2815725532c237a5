//! Hooks of GitHub Copilot CLI. A hook that is configured in `PascalCase` has a name in its payload and members in `snake_case`; one in
//! `camelCase` has neither, and is recognised by `--hook` or by its members.

use serde_json::{Map, Value};

use super::claude_code;
use crate::members::{first, text};
use crate::observation::{HookActivity, HookObservation, named};

/// Reads a payload.
pub fn observe<'p>(hook: Option<&'p str>, members: &'p Map<String, Value>) -> Option<HookObservation<'p>> {
    let hook = named(hook, members).or_else(|| recognised(members))?;
    let activity = match hook {
        "sessionStart" => HookActivity::SessionStarted,
        "sessionEnd" => HookActivity::SessionEnded,
        "userPromptSubmitted" => HookActivity::PromptSubmitted,
        "preToolUse" => HookActivity::ToolStarted,
        "postToolUse" | "postToolUseFailure" => HookActivity::ToolFinished,
        "permissionRequest" => HookActivity::PermissionRequested,
        "agentStop" => HookActivity::Completed,
        "errorOccurred" | "ErrorOccurred" => HookActivity::Failed,
        "subagentStart" => HookActivity::SubagentStarted,
        "subagentStop" => HookActivity::SubagentEnded,
        "preCompact" => HookActivity::Compacting,
        "notification" => claude_code::activity("Notification", members)?,
        _ => claude_code::activity(hook, members)?,
    };
    let result = first(members, &["toolResult", "tool_result"]).and_then(Value::as_object);
    let outcome = result.and_then(|result| text(result, &["resultType", "result_type"]));
    let output = result.and_then(|result| text(result, &["textResultForLlm", "text_result_for_llm"]));
    let is_denied = activity == HookActivity::ToolFinished && outcome == Some("denied");
    let activity = if is_denied { HookActivity::PermissionDenied } else { activity };
    let mut observation = HookObservation::common(hook, activity, members);
    if let (Some(outcome), Some(_)) = (outcome, observation.succeeded) {
        observation.succeeded = Some(outcome == "success");
        if let (true, Some("bash" | "powershell"), Some(status)) =
            (outcome == "success", observation.skill.as_deref(), output.and_then(exit_status))
        {
            observation.ended(Some(status));
        }
    }
    Some(observation)
}

/// The exit status in the last line of a shell's output. Copilot reports a failed command as a successful call.
fn exit_status(output: &str) -> Option<i64> {
    let line = output.trim_end().lines().last()?.strip_prefix("<shellId: ")?.strip_suffix('>')?;
    line.split_once(" completed with exit code ")?.1.parse().ok()
}

/// The hook with these members.
fn recognised(members: &Map<String, Value>) -> Option<&'static str> {
    let has = |name: &str| members.contains_key(name);
    Some(match () {
        () if has("toolResult") => "postToolUse",
        () if has("toolName") && has("error") => "postToolUseFailure",
        () if has("toolName") => "preToolUse",
        () if has("prompt") => "userPromptSubmitted",
        () if has("error") => "errorOccurred",
        () if has("agentName") && has("stopReason") => "subagentStop",
        () if has("agentName") => "subagentStart",
        () if has("stopReason") => "agentStop",
        () if has("trigger") => "preCompact",
        () if has("reason") => "sessionEnd",
        () if has("source") => "sessionStart",
        () => return None,
    })
}
