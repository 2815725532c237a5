//! Hooks of Gemini CLI: names in `PascalCase`, members in `snake_case`, and a time in each payload.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::members::first;
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
    let mut seen = HookObservation::common(hook, activity, members);
    if activity == HookActivity::PermissionRequested {
        seen.content.extend(first(members, &["details"]).map(|details| ("input", Cow::Borrowed(details))));
    }
    Some(seen)
}
