//! Hooks of Codex: its `hooks`, which are named as in Claude Code, and its `notify`, which has members with hyphens.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::claude_code;
use crate::members::{first, label_of};
use crate::observation::{HookActivity, HookObservation, named};

/// Reads a payload.
pub fn observe<'p>(hook: Option<&'p str>, members: &'p Map<String, Value>) -> Option<HookObservation<'p>> {
    let Some(notified) = label_of(members, &["type"]).filter(|_| !members.contains_key("hook_event_name")) else {
        let mut observation = claude_code::observe(named(hook, members)?, members)?;
        if let (Some(output), Some(_)) = (members.get("tool_response").and_then(Value::as_str), observation.succeeded) {
            observation.ended(exit_status(observation.skill.as_deref(), output));
        }
        return Some(observation);
    };
    let activity = if notified == "agent-turn-complete" { HookActivity::Completed } else { HookActivity::Other };
    let mut observation = HookObservation::common(notified, activity, members);
    if activity == HookActivity::Completed {
        observation.content.extend(first(members, &["input-messages"]).map(|prompt| ("prompt", Cow::Borrowed(prompt))));
    }
    Some(observation)
}

/// The exit status in the output of a patch. The output of a shell does not have it.
fn exit_status(skill: Option<&str>, output: &str) -> Option<i64> {
    let line = output.lines().next().filter(|_| skill == Some("apply_patch"))?;
    line.strip_prefix("Exit code: ")?.parse().ok()
}
