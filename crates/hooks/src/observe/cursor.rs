//! Hooks of Cursor: names in `camelCase`, members in `snake_case`. One id for the conversation and one for each prompt.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::members::text;
use crate::observation::{HookActivity, HookObservation};

/// Reads a payload.
pub fn observe<'p>(hook: &'p str, members: &'p Map<String, Value>) -> Option<HookObservation<'p>> {
    let activity = match hook {
        "sessionStart" => HookActivity::SessionStarted,
        "sessionEnd" => HookActivity::SessionEnded,
        "beforeSubmitPrompt" => HookActivity::PromptSubmitted,
        "stop" if text(members, &["status"]).is_some_and(|status| status != "completed") => HookActivity::Failed,
        "afterAgentResponse" | "stop" => HookActivity::Completed,
        "preToolUse" | "beforeShellExecution" | "beforeMCPExecution" | "beforeReadFile" | "beforeTabFileRead" => {
            HookActivity::ToolStarted
        }
        "postToolUse" | "postToolUseFailure" | "afterShellExecution" | "afterMCPExecution" => {
            HookActivity::ToolFinished
        }
        "afterFileEdit" | "afterTabFileEdit" => HookActivity::FileEdited,
        "subagentStart" => HookActivity::SubagentStarted,
        "subagentStop" => HookActivity::SubagentEnded,
        "preCompact" => HookActivity::Compacting,
        // Thoughts are neither a prompt nor an answer.
        "afterAgentThought" => return None,
        _ => HookActivity::Other,
    };
    let mut observation = HookObservation::common(hook, activity, members);
    if observation.skill.is_none() {
        observation.skill = match hook {
            "beforeShellExecution" | "afterShellExecution" => Some("Shell"),
            "beforeReadFile" | "beforeTabFileRead" => Some("Read"),
            "afterFileEdit" | "afterTabFileEdit" => Some("Write"),
            _ => None,
        }
        .map(Cow::Borrowed);
    }
    Some(observation)
}
