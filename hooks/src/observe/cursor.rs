//! Hooks of Cursor: names in `camelCase`, members in `snake_case`. One id for the conversation and one for each prompt.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{Activity, Observation};
use crate::members::text;

/// Reads a payload.
pub fn observe<'p>(hook: &'p str, members: &'p Map<String, Value>) -> Option<Observation<'p>> {
    let activity = match hook {
        "sessionStart" => Activity::SessionStarted,
        "sessionEnd" => Activity::SessionEnded,
        "beforeSubmitPrompt" => Activity::PromptSubmitted,
        "afterAgentResponse" => Activity::Completed,
        "stop" if text(members, &["status"]).is_some_and(|status| status != "completed") => Activity::Failed,
        "stop" => Activity::Completed,
        "preToolUse" | "beforeShellExecution" | "beforeMCPExecution" | "beforeReadFile" | "beforeTabFileRead" => {
            Activity::ToolStarted
        }
        "postToolUse" | "postToolUseFailure" | "afterShellExecution" | "afterMCPExecution" => Activity::ToolFinished,
        "afterFileEdit" | "afterTabFileEdit" => Activity::FileEdited,
        "subagentStart" => Activity::SubagentStarted,
        "subagentStop" => Activity::SubagentEnded,
        "preCompact" => Activity::Compacting,
        // Thoughts are neither a prompt nor an answer.
        "afterAgentThought" => return None,
        _ => Activity::Other,
    };
    let mut seen = Observation::common(hook, activity, members);
    if seen.skill.is_none() {
        seen.skill = match hook {
            "beforeShellExecution" | "afterShellExecution" => Some("Shell"),
            "beforeReadFile" | "beforeTabFileRead" => Some("Read"),
            "afterFileEdit" | "afterTabFileEdit" => Some("Write"),
            _ => None,
        }
        .map(Cow::Borrowed);
    }
    Some(seen)
}
