//! Hooks of Claude Code: names in `PascalCase`, members in `snake_case`.

use serde_json::{Map, Value};

use super::{Activity, Observation};
use crate::members::text;

/// The activity of a hook; `None` for hooks that report parts of what other hooks report.
pub fn activity(hook: &str, members: &Map<String, Value>) -> Option<Activity> {
    Some(match hook {
        "SessionStart" => Activity::SessionStarted,
        "SessionEnd" => Activity::SessionEnded,
        "UserPromptSubmit" => Activity::PromptSubmitted,
        "PreToolUse" => Activity::ToolStarted,
        "PostToolUse" | "PostToolUseFailure" => Activity::ToolFinished,
        "PermissionRequest" => Activity::PermissionRequested,
        "PermissionDenied" => Activity::PermissionDenied,
        "Stop" => Activity::Completed,
        "StopFailure" => Activity::Failed,
        "SubagentStart" => Activity::SubagentStarted,
        "SubagentStop" => Activity::SubagentEnded,
        "PreCompact" => Activity::Compacting,
        "PostCompact" => Activity::Compacted,
        "InstructionsLoaded" => Activity::InstructionsLoaded,
        "Notification" if text(members, &["notification_type"]).is_some_and(|kind| kind.contains("permission")) => {
            Activity::PermissionRequested
        }
        // A message is reported while it is displayed, and a batch after its calls.
        "MessageDisplay" | "PostToolBatch" | "Notification" => return None,
        _ => Activity::Other,
    })
}

/// Reads a payload.
pub fn observe<'p>(hook: &'p str, members: &'p Map<String, Value>) -> Option<Observation<'p>> {
    activity(hook, members).map(|activity| Observation::common(hook, activity, members))
}
