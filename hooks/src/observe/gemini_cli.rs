//! Hooks of Gemini CLI: names in `PascalCase`, members in `snake_case`, and a time in each payload.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{Activity, Observation};
use crate::members::first;

/// Reads a payload.
pub fn observe<'p>(hook: &'p str, members: &'p Map<String, Value>) -> Option<Observation<'p>> {
    let activity = match hook {
        "SessionStart" => Activity::SessionStarted,
        "SessionEnd" => Activity::SessionEnded,
        "BeforeAgent" => Activity::PromptSubmitted,
        "AfterAgent" => Activity::Completed,
        "BeforeTool" => Activity::ToolStarted,
        "AfterTool" => Activity::ToolFinished,
        "PreCompress" => Activity::Compacting,
        "Notification" => Activity::PermissionRequested,
        // Requests to the model contain the whole conversation each time, and its answers arrive in pieces.
        "BeforeModel" | "AfterModel" | "BeforeToolSelection" => return None,
        _ => Activity::Other,
    };
    let mut seen = Observation::common(hook, activity, members);
    if activity == Activity::PermissionRequested {
        seen.content.extend(first(members, &["details"]).map(|details| ("input", Cow::Borrowed(details))));
    }
    Some(seen)
}
