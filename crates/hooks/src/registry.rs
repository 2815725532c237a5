//! An observation as an event of the registry (`docs/hooks.md`).
//!
//! Only types of the built-in registry are used: a server without a type holds its events. The member `activity` says what happened.

use domain::lane::Lane;
use domain::tool::Tool;
use serde_json::{Map, Value, json};

use crate::event::HookEvent;
use crate::identity::{self, Salt};
use crate::members::{content, label};
use crate::observation::{HookActivity, HookObservation};
use crate::payload::Payload;

/// The event of an observation.
pub fn event(tool: Tool, seen: &HookObservation<'_>, payload: &Payload, salt: &Salt) -> HookEvent {
    let activity = seen.activity.unwrap_or(HookActivity::Other);
    let (event_type, lane) = kind(activity, seen);
    let session = seen.session.as_deref();
    let key = seen.key.as_deref().zip(session);
    let mut event = HookEvent {
        event_type: event_type.to_owned(),
        lane,
        event_id: key.map(|(key, session)| identity::event(tool, session, &seen.hook, key, seen.at_ms)),
        ts_edge_ms: seen.at_ms,
        project_id: seen.folder.as_deref().map(|folder| salt.name("folder", folder)),
        session_uuid: session.map(|session| identity::session(tool, session)),
        payload: metadata(activity, seen, event_type, salt),
        content: Map::new(),
    };
    let mut is_cut = payload.is_cut;
    for (name, value) in contents(event_type, seen) {
        let (value, is_longer) = content(&value);
        is_cut |= is_longer;
        event.content.insert(name.to_owned(), value);
    }
    if is_cut {
        event.payload.insert("truncated".to_owned(), json!(true));
    }
    event
}

fn kind(activity: HookActivity, seen: &HookObservation<'_>) -> (&'static str, Lane) {
    match activity {
        HookActivity::PromptSubmitted | HookActivity::Completed => ("llm.completed", Lane::Llm),
        HookActivity::Failed => ("llm.failed", Lane::Llm),
        HookActivity::PermissionRequested => ("security.finding", Lane::Security),
        HookActivity::PermissionDenied => ("security.blocked", Lane::Security),
        HookActivity::Compacting | HookActivity::Compacted => ("memory.stored", Lane::Memory),
        HookActivity::InstructionsLoaded => ("memory.recalled", Lane::Memory),
        HookActivity::ToolFinished => match seen.skill.as_deref().and_then(memory_tool) {
            Some(event_type) => (event_type, Lane::Memory),
            None => ("skill.invoked", Lane::Skill),
        },
        _ => ("skill.invoked", Lane::Skill),
    }
}

/// The event type of a tool that works on a memory, such as the tools of `attache mcp`.
fn memory_tool(skill: &str) -> Option<&'static str> {
    // Agents prefix the tool's name with the MCP server's, each in a different way: `mcp__attache__add_memory`, `MCP:attache:add_memory`.
    let is = |name: &&str| skill.strip_suffix(*name).is_some_and(|prefix| !prefix.ends_with(char::is_alphanumeric));
    let of = |names: &[&str], event_type| names.iter().any(is).then_some(event_type);
    of(
        &["add_memory", "create_memory", "save_memory", "store_memory", "update_memory", "upsert_memory"],
        "memory.stored",
    )
    .or_else(|| of(&["search_memory", "recall_memory", "search_memories"], "memory.recalled"))
    .or_else(|| of(&["forget_memory", "delete_memory"], "memory.forgotten"))
}

/// Members that are no content.
fn metadata(activity: HookActivity, seen: &HookObservation<'_>, event_type: &str, salt: &Salt) -> Map<String, Value> {
    let mut members = Map::new();
    let mut put = |name: &str, value: Value| members.insert(name.to_owned(), value);
    put("activity", json!(activity.as_str()));
    // A name that is not a label may contain anything.
    put("hook", json!(label(&seen.hook).unwrap_or("unknown")));
    for (name, value) in &seen.labels {
        put(name, json!(value));
    }
    let skill = seen.skill.as_deref();
    match event_type {
        "skill.invoked" => {
            let own = match activity {
                HookActivity::SessionStarted | HookActivity::SessionEnded => Some("session"),
                HookActivity::SubagentStarted | HookActivity::SubagentEnded => Some("subagent"),
                _ => None,
            };
            put("skill", json!(own.or(skill).unwrap_or("unknown")));
        }
        "security.finding" => {
            put("rule", json!(activity.as_str()));
            put("severity", json!("info"));
        }
        "security.blocked" => {
            put("rule", json!(activity.as_str()));
            put("action", json!("denied"));
        }
        _ => {}
    }
    if event_type != "skill.invoked"
        && let Some(skill) = skill
    {
        put("skill", json!(skill));
    }
    if let Some(duration) = seen.duration_ms {
        put("duration_ms", json!(duration));
    }
    if let Some(status) = seen.exit_status {
        put("exit_status", json!(status));
    }
    if let Some(succeeded) = seen.succeeded {
        put("succeeded", json!(succeeded));
    }
    for (name, count) in [("input_tokens", seen.tokens.0), ("output_tokens", seen.tokens.1)] {
        if let Some(count) = count {
            put(name, json!(count));
        }
    }
    if let Some(file) = seen.file.as_deref() {
        put("file", json!(salt.name("file", file)));
    }
    members
}

/// Content members under the names that the registry checks, with their types.
fn contents(event_type: &str, seen: &HookObservation<'_>) -> Vec<(&'static str, Value)> {
    let mut contents = Vec::new();
    for (name, value) in &seen.content {
        let value = value.as_ref();
        contents.extend(match (event_type, *name) {
            ("llm.completed" | "llm.failed", "prompt") => Some(("prompt", texts(value))),
            ("llm.completed" | "llm.failed", "completion" | "error") => Some((*name, Value::String(plain(value)))),
            ("memory.recalled", "input") => Some(("query", Value::String(plain(value)))),
            ("memory.stored" | "memory.forgotten", "input" | "summary") | ("memory.recalled", "output") => {
                Some(("content", Value::String(plain(value))))
            }
            ("memory.stored" | "memory.forgotten", "output") => None,
            ("security.finding" | "security.blocked", "input") => Some(("excerpt", Value::String(plain(value)))),
            ("skill.invoked", "completion") => Some(("output", value.clone())),
            ("skill.invoked", "prompt") => Some(("input", value.clone())),
            _ => Some((*name, value.clone())),
        });
    }
    if let Some(file) = seen.file.as_deref() {
        contents.push(("file_path", json!(file)));
    }
    if let Some(folder) = seen.folder.as_deref() {
        contents.push(("cwd", json!(folder)));
    }
    contents
}

fn texts(value: &Value) -> Value {
    match value {
        Value::String(_) => value.clone(),
        Value::Array(values) if values.iter().all(Value::is_string) => value.clone(),
        other => Value::String(other.to_string()),
    }
}

/// A text unchanged, and any other value as JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
