//! Hooks of opencode, which are functions of a plugin. The plugin passes `{"hook", "input", "output", "directory"}` for a hook, and
//! `{"event": {"type", "properties"}}` for an event of the event bus; `event` may be left out, and `directory` may be added.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::members::{first, label, label_of, millis, number, text};
use crate::observation::{HookActivity, HookObservation};

/// Reads a payload.
pub fn observe<'p>(hook: Option<&'p str>, members: &'p Map<String, Value>) -> Option<HookObservation<'p>> {
    let outer = members;
    let object = |members: &'p Map<String, Value>, name: &str| members.get(name).and_then(Value::as_object);
    let members = object(members, "event").unwrap_or(members);
    let hook = label_of(members, &["hook", "type", "hook_event_name"]).or_else(|| hook.and_then(label))?;
    let inner = ["properties", "input"].iter().find_map(|name| object(members, name)).unwrap_or(members);
    let info = object(inner, "info").or_else(|| object(inner, "part")).unwrap_or(inner);
    let output = object(members, "output");
    let activity = match hook {
        "session.created" => HookActivity::SessionStarted,
        "session.deleted" => HookActivity::SessionEnded,
        "chat.message" => HookActivity::PromptSubmitted,
        "message.updated" if text(info, &["role"]) == Some("user") => HookActivity::PromptSubmitted,
        "message.part.updated" if is_finished_call(info) => HookActivity::ToolFinished,
        "message.updated" if is_completed(info) => HookActivity::Completed,
        "session.error" => HookActivity::Failed,
        "tool.execute.before" => HookActivity::ToolStarted,
        "tool.execute.after" => HookActivity::ToolFinished,
        "file.edited" => HookActivity::FileEdited,
        "permission.ask" | "permission.updated" | "permission.asked" => HookActivity::PermissionRequested,
        "permission.replied" if text(inner, &["response", "reply"]) == Some("reject") => HookActivity::PermissionDenied,
        "session.compacted" => HookActivity::Compacted,
        // Other events of the bus report steps and states of the events above.
        _ => return None,
    };
    let mut observation = HookObservation::common(hook, activity, info);
    observation.session = observation.session.or_else(|| text(inner, &["sessionID"]).map(Cow::Borrowed));
    if matches!(activity, HookActivity::SessionStarted | HookActivity::SessionEnded) {
        observation.session = text(info, &["id"]).map(Cow::Borrowed).or(observation.session);
    }
    let around = text(outer, &["directory"]).map(Cow::Borrowed);
    observation.folder = around.or_else(|| path_of(info).map(Cow::Borrowed)).or(observation.folder);
    observation.at_ms =
        info.get("time").and_then(|time| first(time.as_object()?, &["completed", "created"])).and_then(millis);
    match activity {
        HookActivity::PromptSubmitted => {
            let texts = output.and_then(|output| output.get("parts")).and_then(texts);
            observation.content.extend(texts.map(|prompt| ("prompt", Cow::Owned(prompt))));
            let message = output.and_then(|output| object(output, "message")).unwrap_or(info);
            observation.key = text(inner, &["messageID"]).or_else(|| text(message, &["id"])).map(str::to_owned);
        }
        HookActivity::Completed => {
            observation.key = text(info, &["id"]).map(str::to_owned);
            let tokens = |name| info.get("tokens")?.get(name)?.as_u64();
            observation.tokens = tokens("input").zip(tokens("output")).unzip();
            let time = |name| info.get("time")?.get(name).and_then(number);
            observation.duration_ms = time("completed").zip(time("created")).map(|(end, begin)| (end - begin).max(0.0));
        }
        HookActivity::ToolStarted => {
            let input = output.and_then(|output| output.get("args"));
            observation.content.extend(input.map(|input| ("input", Cow::Borrowed(input))));
        }
        HookActivity::ToolFinished if hook == "message.part.updated" => {
            if let Some(state) = object(info, "state") {
                observation.call(state);
            }
        }
        HookActivity::ToolFinished | HookActivity::FileEdited => {
            if let Some(output) = output {
                observation.output(output);
            }
        }
        _ => {}
    }
    Some(observation)
}

/// Whether a message of the agent is complete; a message is reported each time it grows.
fn is_completed(message: &Map<String, Value>) -> bool {
    text(message, &["role"]) == Some("assistant")
        && message.get("time").and_then(|time| time.get("completed")).is_some_and(Value::is_number)
}

/// Whether a part of a message is a call of a tool that has ended.
fn is_finished_call(part: &Map<String, Value>) -> bool {
    let status = part.get("state").and_then(|state| state.get("status")).and_then(Value::as_str);
    text(part, &["type"]) == Some("tool") && matches!(status, Some("completed" | "error"))
}

fn path_of(info: &Map<String, Value>) -> Option<&str> {
    info.get("path")?.get("cwd")?.as_str()
}

fn texts(parts: &Value) -> Option<Value> {
    let texts: Vec<&str> = parts.as_array()?.iter().filter_map(|part| part.get("text")?.as_str()).collect();
    (!texts.is_empty()).then(|| Value::String(texts.join("\n")))
}
