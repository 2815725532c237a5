//! Hooks of Codex: those of its `hooks`, which are named as in Claude Code, and that of `notify`, whose members have hyphens.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{Activity, Observation, claude_code, named};
use crate::members::{first, label_of};

/// Reads a payload.
pub fn observe<'p>(hook: Option<&'p str>, members: &'p Map<String, Value>) -> Option<Observation<'p>> {
    let Some(notified) = label_of(members, &["type"]).filter(|_| !members.contains_key("hook_event_name")) else {
        return claude_code::observe(named(hook, members)?, members);
    };
    let activity = if notified == "agent-turn-complete" { Activity::Completed } else { Activity::Other };
    let mut seen = Observation::common(notified, activity, members);
    if activity == Activity::Completed {
        seen.content.extend(first(members, &["input-messages"]).map(|prompt| ("prompt", Cow::Borrowed(prompt))));
    }
    Some(seen)
}
