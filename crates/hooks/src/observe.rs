//! Reads a payload: one file per tool says what its hooks mean and where its members differ. The sources of the formats are listed in
//! `crates/hooks/tests/payloads/README.md`.

mod claude_code;
mod codex;
mod cursor;
mod gemini_cli;
mod github_copilot;
mod opencode;

use domain::Digest;
use domain::tool::Tool;
use serde_json::{Map, Value};

use crate::members::text;
use crate::observation::{HookActivity, HookObservation, TURN, named};
use crate::payload::Payload;

/// Reads a payload; `None` if the hook reports no recorded activity.
pub fn observe<'p>(tool: Tool, hook: Option<&'p str>, payload: &'p Payload) -> Option<HookObservation<'p>> {
    let members = &payload.members;
    let mut observation = match tool {
        Tool::ClaudeCode => claude_code::observe(named(hook, members)?, members),
        Tool::Codex => codex::observe(hook, members),
        Tool::Cursor => cursor::observe(named(hook, members)?, members),
        Tool::GeminiCli => gemini_cli::observe(named(hook, members)?, members),
        Tool::GithubCopilot => github_copilot::observe(hook, members),
        Tool::Opencode => opencode::observe(hook, members),
    }?;
    if observation.key.is_none()
        && (observation.at_ms.is_some() || text(members, &TURN).is_some() && is_once_a_turn(&observation))
    {
        observation.key = Some(digest(members));
    }
    Some(observation)
}

/// Whether a turn cannot have two of these with the same members.
fn is_once_a_turn(seen: &HookObservation<'_>) -> bool {
    matches!(seen.activity, Some(HookActivity::PromptSubmitted | HookActivity::Completed | HookActivity::Failed))
}

fn digest(members: &Map<String, Value>) -> String {
    let written = members.iter().map(|(name, value)| format!("{}:{value}\n", Value::from(name.as_str())));
    Digest::of(written.collect::<String>().as_bytes()).to_string()
}
