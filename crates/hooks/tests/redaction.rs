//! Secrets are removed from the reports of agents and programs, and harmless lookalikes are not: both are counted over a corpus
//! (`redaction/secrets.tsv`, `redaction/harmless.tsv`), for every route by which text becomes an event.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

#[path = "redaction/corpus.rs"]
mod corpus;

use std::collections::BTreeSet;

use bytes::Bytes;
use corpus::Sample;
use domain::consent::ConsentLevel;
use domain::secret::{Secret, SecretKind};
use domain::{Rng, webhook};
use hooks::otlp::{self, SpanEncoding};
use hooks::redaction::Redactor;
use hooks::{Draft, HookEvent, Payload, Salt, Tool};
use serde_json::{Map, Value, json};

const SALT: Salt = Salt(*b"salt of the test");

/// Seeds of the corpus: several, so that a rule that matches one generated value by chance is detected.
const SEEDS: [u64; 3] = [1, 2, 99];

/// Number of routes by which text becomes an event.
const ROADS: usize = 12;

fn event(nth: usize, text: &str) -> Draft {
    let parsed = || {
        let value: Option<Value> = serde_json::from_str(text).ok();
        value.filter(|value| value.is_object() || value.is_array()).unwrap_or_else(|| json!({ "text": text }))
    };
    let claude = |members: Value| hook(Tool::ClaudeCode, &members);
    match nth % ROADS {
        0 => claude(json!({ "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": { "command": text } })),
        1 => claude(
            json!({ "hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_response": { "stdout": text, "stderr": "" } }),
        ),
        2 => claude(json!({ "hook_event_name": "UserPromptSubmit", "prompt": text })),
        3 => claude(
            json!({ "hook_event_name": "PostToolUse", "tool_name": "Write", "tool_input": { "file_path": "/x/.env", "content": text } }),
        ),
        4 => claude(json!({ "hook_event_name": "PostToolUse", "tool_name": "mcp__x__call", "tool_input": parsed() })),
        5 => claude(
            json!({ "hook_event_name": "PostToolUse", "tool_name": "Edit", "tool_response": { "structuredPatch": [{ "lines": text.lines().collect::<Vec<_>>() }] } }),
        ),
        6 => hook(
            Tool::Codex,
            &json!({ "hook_event_name": "PreToolUse", "tool_name": "shell", "tool_input": { "command": ["bash", "-lc", text] } }),
        ),
        7 => hook(
            Tool::Cursor,
            &json!({ "hook_event_name": "afterMCPExecution", "tool_name": "x", "tool_input": json!({ "body": text }).to_string(), "result_json": "{}" }),
        ),
        8 => hook(
            Tool::GeminiCli,
            &json!({ "hook_event_name": "AfterTool", "tool_name": "run_shell_command", "tool_input": { "command": "x" }, "tool_response": { "llmContent": json!({ "out": json!({ "body": text }).to_string() }).to_string() } }),
        ),
        9 => span(
            "execute_tool",
            "gen_ai.tool.call.arguments",
            &json!({ "arguments": json!({ "body": text }).to_string() }).to_string(),
        ),
        10 => span(
            "chat",
            "gen_ai.input.messages",
            &json!([{ "role": "user", "parts": [{ "type": "text", "content": text }] }]).to_string(),
        ),
        _ => span("execute_tool", "gen_ai.tool.call.result", text),
    }
}

fn at_full(event: HookEvent) -> Draft {
    event.at(ConsentLevel::Full).unwrap()
}

fn hook(tool: Tool, members: &Value) -> Draft {
    let event = hooks::events(tool, None, &Payload::read(members.to_string().as_bytes()), &SALT).into_iter().next();
    at_full(event.unwrap_or_else(|| panic!("{tool:?} reads {members}")))
}

fn span(operation: &str, attribute: &str, text: &str) -> Draft {
    let attributes: Vec<_> = [("gen_ai.operation.name", operation), ("gen_ai.tool.name", "x"), (attribute, text)]
        .map(|(key, value)| json!({ "key": key, "value": { "stringValue": value } }))
        .into();
    let export = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [{
        "traceId": "5b8efff798038103d269b633813fc60c", "spanId": "00000000000000ab", "endTimeUnixNano": "1767225600000000000",
        "attributes": attributes,
    }] }] }] });
    let export = otlp::read(&Bytes::from(export.to_string()), SpanEncoding::Json, Some(Tool::Codex), &SALT).unwrap();
    at_full(export.events.into_iter().next().unwrap().1)
}

/// All texts of a value, without the escapes of texts within texts.
fn texts(value: &Value) -> String {
    fn collect(value: &Value, texts: &mut String) {
        match value {
            Value::String(text) => texts.extend([text.as_str(), "\n"]),
            Value::Array(values) => values.iter().for_each(|value| collect(value, texts)),
            Value::Object(members) => members.iter().for_each(|(name, value)| {
                texts.extend([name.as_str(), "\n"]);
                collect(value, texts);
            }),
            other => texts.extend([other.to_string().as_str(), "\n"]),
        }
    }
    let mut all = String::new();
    collect(value, &mut all);
    (0..3).fold(all, |text, _| text.replace("\\\\", "\\").replace("\\\"", "\"").replace("\\n", "\n"))
}

/// The payload of route `nth` without secrets, and whether it contained one.
fn redacted(redactor: &Redactor, nth: usize, text: &str) -> (Map<String, Value>, bool) {
    let mut payload = event(nth, text).payload;
    let written = texts(&Value::Object(payload.clone()));
    let plain = texts(&Value::String(text.to_owned()));
    let longest = plain.split(|letter: char| !letter.is_ascii_alphanumeric()).max_by_key(|run| run.len()).unwrap();
    assert!(written.contains(longest), "road {nth} has lost {text}: {written}");
    let has_secrets = redactor.redact(&mut payload);
    (payload, has_secrets)
}

/// The share of samples with a fault; prints each fault.
fn share(name: &str, samples: &[Sample], mut fault: impl FnMut(usize, &Sample) -> Option<String>) -> f64 {
    let mut count = 0_u32;
    for (nth, sample) in samples.iter().enumerate() {
        if let Some(fault) = fault(nth + nth / ROADS, sample) {
            count += 1;
            println!("{name} {}: {} -> {fault}", sample.kind, sample.text);
        }
    }
    let share = f64::from(count) / f64::from(u32::try_from(samples.len()).unwrap());
    println!("{name}: {count} of {}, {share:.4}", samples.len());
    share
}

#[test]
fn nineteen_of_twenty_secrets_are_removed_whole() {
    let redactor = Redactor::built_in().unwrap();
    for seed in SEEDS {
        let samples = corpus::secrets(seed, 2);
        let kinds: BTreeSet<_> = samples.iter().map(|sample| &sample.kind).collect();
        assert!(samples.len() >= 300 && kinds.len() >= 60, "{} of {} kinds", samples.len(), kinds.len());
        let missed = share("missed", &samples, |nth, sample| {
            let (payload, has_secrets) = redacted(&redactor, nth, &sample.text);
            let written = texts(&Value::Object(payload));
            let rest = sample.rest_in(&written);
            (rest.is_some() || !has_secrets).then_some(written)
        });
        assert!(missed <= 0.05, "{missed}");
    }
}

#[test]
fn one_of_fifty_texts_that_look_like_a_secret_is_changed_at_most() {
    let redactor = Redactor::built_in().unwrap();
    for seed in SEEDS {
        let samples = corpus::harmless(seed, 3);
        assert!(samples.len() >= 300, "{}", samples.len());
        let changed = share("changed", &samples, |nth, sample| {
            let (payload, has_secrets) = redacted(&redactor, nth, &sample.text);
            has_secrets.then(|| texts(&Value::Object(payload)))
        });
        assert!(changed <= 0.02, "{changed}");
    }
}

#[test]
fn every_secret_of_this_server_is_known_by_its_form() {
    let (redactor, rng) = (Redactor::built_in().unwrap(), Rng::seeded(7));
    let minted = SecretKind::ALL.iter().map(|kind| Secret::mint(*kind, &rng).expose().to_owned());
    for secret in minted.chain([webhook::SigningSecret::mint(&rng).expose()]) {
        let mut members = json!({ "output": format!("a {secret} b") }).as_object().unwrap().clone();
        assert!(redactor.redact(&mut members), "{secret}");
        assert_eq!(members["output"], "a [redacted:attache-secret] b");
    }
}

#[test]
fn a_redacted_text_is_not_redacted_again() {
    let redactor = Redactor::built_in().unwrap();
    for sample in corpus::secrets(5, 1) {
        let (mut payload, _) = redacted(&redactor, 0, &sample.text);
        let once = payload.clone();
        redactor.redact(&mut payload);
        assert_eq!(payload, once, "{}", sample.kind);
    }
}
