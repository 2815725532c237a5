//! Spans of the semantic conventions for generative AI as observations, in the same terms as hooks.
//!
//! The names are from the conventions in November 2026 and from earlier versions, which many programs still write (1.36 and older). Content
//! used to be in span events and is in attributes now.

use std::borrow::Cow;

use domain::tool::Tool;
use serde_json::{Map, Value, json};

use super::SpanRejection;
use super::message::{SpanMessage, SpanStatus, named};
use crate::event::HookEvent;
use crate::identity::{self, Salt};
use crate::members::{first, label_of, text, unpacked};
use crate::observation::{HookActivity, HookObservation};
use crate::payload::Payload;
use crate::registry;

/// Status of a span with failed work.
const STATUS_ERROR: i32 = 2;

/// Operation of a span that names a model and no operation, as in older programs.
const UNNAMED: &str = "inference";

const MODEL: [&str; 2] = ["gen_ai.response.model", "gen_ai.request.model"];
const PROVIDER: [&str; 2] = ["gen_ai.provider.name", "gen_ai.system"];
const INPUT_TOKENS: [&str; 2] = ["gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"];
const OUTPUT_TOKENS: [&str; 2] = ["gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"];
const PROMPT: [&str; 2] = ["gen_ai.input.messages", "gen_ai.prompt"];
const COMPLETION: [&str; 2] = ["gen_ai.output.messages", "gen_ai.completion"];

/// Numbered attributes over which older programs spread content: `gen_ai.prompt.0.content`.
const NUMBERED: [(&str, &str); 2] = [("gen_ai.prompt.", PROMPT[1]), ("gen_ai.completion.", COMPLETION[1])];

/// Span events of older programs that are a message each.
const MESSAGES: [(&str, &str); 5] = [
    ("gen_ai.system.message", PROMPT[1]),
    ("gen_ai.user.message", PROMPT[1]),
    ("gen_ai.assistant.message", PROMPT[1]),
    ("gen_ai.tool.message", PROMPT[1]),
    ("gen_ai.choice", COMPLETION[1]),
];

/// The event of a span; `None` if the span reports no recorded activity.
pub fn event(
    agent: Option<Tool>,
    mut span: SpanMessage,
    salt: &Salt,
) -> Option<Result<(Tool, HookEvent), SpanRejection>> {
    let members = attributes(&mut span);
    let has_failed = has_failed(&members, span.status.as_ref());
    let (operation, activity) = activity(&members, has_failed)?;
    let Some(agent) = agent else { return Some(Err(SpanRejection::NoAgent)) };
    let ids = hex_id(&span.trace_id, 16).zip(hex_id(&span.span_id, 8));
    let Some((trace, id)) = ids else { return Some(Err(SpanRejection::NoIds)) };
    let observation = observed((&operation, activity), has_failed, &members, &span, &trace);
    let mut event = registry::event(agent, &observation, &Payload::default(), salt);
    event.event_id = Some(identity::span(&trace, &id, observation.at_ms));
    Some(Ok((agent, event)))
}

/// An id as hex digits; `None` if it has another length, or is zero, which means none.
fn hex_id(bytes: &[u8], length: usize) -> Option<String> {
    let is_id = bytes.len() == length && bytes.iter().any(|byte| *byte != 0);
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    is_id.then(|| digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect())
}

/// The attributes of the conventions, including attributes of span events, with messages in lists.
fn attributes(span: &mut SpanMessage) -> Map<String, Value> {
    let is_of_conventions = |name: &str| name.starts_with("gen_ai.") || name == "error.type";
    let own = std::mem::take(&mut span.attributes).into_iter().filter(|own| is_of_conventions(&own.key));
    let mut merged: Map<String, Value> = own.filter_map(named).collect();
    for (begin, whole) in NUMBERED {
        let is_part = |name: &String| name.starts_with(begin);
        let names: Vec<String> = merged.keys().filter(|name| is_part(name)).cloned().collect();
        let parts = names.into_iter().filter_map(|name| merged.remove_entry(&name));
        let parts: Map<_, _> = parts.map(|(name, value)| (name.replacen(begin, "", 1), value)).collect();
        if !parts.is_empty() {
            merged.entry(whole).or_insert(Value::Object(parts));
        }
    }
    for event in std::mem::take(&mut span.events) {
        let members: Map<String, Value> = event.attributes.into_iter().filter_map(named).collect();
        if let Some((name, list)) = MESSAGES.iter().find(|(name, _)| *name == event.name) {
            let role = name.trim_start_matches("gen_ai.").trim_end_matches(".message");
            let message = json!({ "role": role, "members": members });
            if let Value::Array(messages) = merged.entry(*list).or_insert_with(|| json!([])) {
                messages.push(message);
            }
        } else if event.name == "exception" {
            for (name, value) in members {
                merged.entry(name).or_insert(value);
            }
        } else if event.name.starts_with("gen_ai.") {
            for (name, value) in members.into_iter().filter(|(name, _)| is_of_conventions(name)) {
                merged.entry(name).or_insert(value);
            }
        }
    }
    merged
}

/// The operation of a span and its meaning; `None` if it is not recorded.
fn activity(found: &Map<String, Value>, has_failed: bool) -> Option<(String, HookActivity)> {
    let operation = match found.get("gen_ai.operation.name") {
        Some(name) => name.as_str()?,
        None if text(found, &["gen_ai.tool.name"]).is_some() => "execute_tool",
        None if text(found, &MODEL).is_some() => UNNAMED,
        None => return None,
    };
    let activity = match operation {
        "chat" | "text_completion" | "generate_content" | "embeddings" | UNNAMED => {
            if has_failed {
                HookActivity::Failed
            } else {
                HookActivity::Completed
            }
        }
        "execute_tool" | "search_memory" | "create_memory" | "update_memory" | "upsert_memory" | "delete_memory" => {
            HookActivity::ToolFinished
        }
        "invoke_agent" => HookActivity::AgentInvoked,
        "create_agent" => HookActivity::AgentCreated,
        _ => return None,
    };
    Some((operation.to_owned(), activity))
}

fn has_failed(found: &Map<String, Value>, status: Option<&SpanStatus>) -> bool {
    found.contains_key("error.type") || status.is_some_and(|status| status.code == STATUS_ERROR)
}

/// A span in the terms of hooks.
fn observed<'s>(
    (operation, activity): (&str, HookActivity),
    has_failed: bool,
    found: &'s Map<String, Value>,
    span: &'s SpanMessage,
    trace: &'s str,
) -> HookObservation<'s> {
    let is_model = matches!(activity, HookActivity::Completed | HookActivity::Failed);
    let ended = if span.end_time_unix_nano > 0 { span.end_time_unix_nano } else { span.start_time_unix_nano };
    let lasted =
        span.end_time_unix_nano.checked_sub(span.start_time_unix_nano).filter(|_| span.start_time_unix_nano > 0);
    let number = |names: &[&str]| first(found, names).and_then(Value::as_u64);
    let mut observation = HookObservation {
        activity: Some(activity),
        hook: Cow::Owned(format!("otlp:{operation}")),
        session: Some(text(found, &["gen_ai.conversation.id"]).unwrap_or(trace).into()),
        at_ms: i64::try_from(ended / 1_000_000).ok().filter(|millis| (1..1 << 47).contains(millis)),
        skill: skill(operation, activity, found),
        duration_ms: lasted.map(millis),
        succeeded: (!is_model).then_some(!has_failed),
        tokens: (number(&INPUT_TOKENS), number(&OUTPUT_TOKENS)),
        ..HookObservation::default()
    };
    for (name, names) in [
        ("model", &MODEL[..]),
        ("provider", &PROVIDER[..]),
        ("agent", &["gen_ai.agent.name"][..]),
        ("call_id", &["gen_ai.tool.call.id"][..]),
        // A program may have handled an exception.
        ("error_kind", if has_failed { &["error.type", "exception.type"][..] } else { &[] }),
    ] {
        observation.labels.extend(label_of(found, names).map(|value| (name, Cow::Borrowed(value))));
    }
    let reason = found.get("gen_ai.response.finish_reasons").and_then(|reasons| reasons.get(0)?.as_str());
    observation.labels.extend(reason.and_then(crate::members::label).map(|reason| ("reason", Cow::Borrowed(reason))));
    contents(operation, activity, found, &mut observation);
    let described = span.status.as_ref().map(|status| status.message.as_str()).filter(|message| !message.is_empty());
    let error = described.or_else(|| text(found, &["exception.message"])).filter(|_| has_failed);
    observation.content.extend(error.map(|error| ("error", Cow::Owned(error.into()))));
    observation
}

/// Nanoseconds as milliseconds.
fn millis(nanos: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a duration is far below 2^53 microseconds")]
    let micros = (nanos / 1000) as f64;
    micros / 1000.0
}

/// The name of the tool, the agent or the operation on a memory.
fn skill<'s>(operation: &str, activity: HookActivity, found: &'s Map<String, Value>) -> Option<Cow<'s, str>> {
    match activity {
        HookActivity::ToolFinished if operation == "execute_tool" => {
            label_of(found, &["gen_ai.tool.name"]).map(Cow::Borrowed)
        }
        HookActivity::ToolFinished => Some(Cow::Owned(operation.to_owned())),
        HookActivity::AgentInvoked | HookActivity::AgentCreated => {
            Some(label_of(found, &["gen_ai.agent.name"]).unwrap_or("agent").into())
        }
        _ => None,
    }
}

/// Reads the content that belongs to the activity.
fn contents<'s>(
    operation: &str,
    activity: HookActivity,
    found: &'s Map<String, Value>,
    seen: &mut HookObservation<'s>,
) {
    let (input, output): (&[&str], &[&str]) = match (activity, operation) {
        (HookActivity::ToolFinished, "execute_tool") => (&["gen_ai.tool.call.arguments"], &["gen_ai.tool.call.result"]),
        (HookActivity::ToolFinished, "search_memory") => (&["gen_ai.memory.query.text"], &["gen_ai.memory.records"]),
        (HookActivity::ToolFinished, _) => (&["gen_ai.memory.records"], &[]),
        _ => (&PROMPT, &COMPLETION),
    };
    let names = if activity == HookActivity::ToolFinished { ["input", "output"] } else { ["prompt", "completion"] };
    for (name, attributes) in
        [(names[0], input), (names[1], output), ("system_instructions", &["gen_ai.system_instructions"])]
    {
        let value = first(found, attributes).map(|value| match operation {
            // Arguments and results are objects, which many programs write as text.
            "execute_tool" => Cow::Owned(unpacked(value)),
            _ => Cow::Borrowed(value),
        });
        seen.content.extend(value.map(|value| (name, value)));
    }
}
