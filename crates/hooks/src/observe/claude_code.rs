//! Hooks of Claude Code: names in `PascalCase`, members in `snake_case`.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::members::{label_of, text};
use crate::observation::{HookActivity, HookObservation};

/// The activity of a hook; `None` for hooks that report parts of what other hooks report.
pub fn activity(hook: &str, members: &Map<String, Value>) -> Option<HookActivity> {
    Some(match hook {
        "SessionStart" => HookActivity::SessionStarted,
        "SessionEnd" => HookActivity::SessionEnded,
        "UserPromptSubmit" => HookActivity::PromptSubmitted,
        "PreToolUse" => HookActivity::ToolStarted,
        "PostToolUse" | "PostToolUseFailure" => HookActivity::ToolFinished,
        "PermissionRequest" => HookActivity::PermissionRequested,
        "PermissionDenied" => HookActivity::PermissionDenied,
        "Stop" => HookActivity::Completed,
        "StopFailure" => HookActivity::Failed,
        "SubagentStart" => HookActivity::SubagentStarted,
        "SubagentStop" => HookActivity::SubagentEnded,
        "PreCompact" => HookActivity::Compacting,
        "PostCompact" => HookActivity::Compacted,
        "InstructionsLoaded" => HookActivity::InstructionsLoaded,
        "Notification" if text(members, &["notification_type"]).is_some_and(|kind| kind.contains("permission")) => {
            HookActivity::PermissionRequested
        }
        // A message is reported repeatedly while it is displayed, and a batch after its calls.
        "MessageDisplay" | "PostToolBatch" | "Notification" => return None,
        _ => HookActivity::Other,
    })
}

/// Reads a payload.
pub fn observe<'p>(hook: &'p str, members: &'p Map<String, Value>) -> Option<HookObservation<'p>> {
    let mut observation = activity(hook, members).map(|activity| HookObservation::common(hook, activity, members))?;
    if hook == "StopFailure" {
        // A name such as `rate_limit`; the message is in other members.
        observation.labels.extend(label_of(members, &["error"]).map(|kind| ("error_kind", Cow::Borrowed(kind))));
    }
    Some(observation)
}
