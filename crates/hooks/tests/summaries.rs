//! The sentences of the events of hooks and spans, with the built-in registry.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use domain::consent::ConsentLevel;
use domain::registry::{NoNames, Registry};
use serde_json::Value;

/// The golden events of a folder, each with its file and the level of its list.
fn events(folder: &str) -> Vec<(String, String, Value)> {
    let mut events = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if !name.ends_with(".events.json") {
                continue;
            }
            let file: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            for level in ["full", "metadata-only"] {
                let list = &file[level];
                for event in list.as_array().into_iter().flatten() {
                    // Spans are listed with their agent.
                    let event = event.get("event").unwrap_or(event).clone();
                    events.push((name.clone(), level.to_owned(), event));
                }
            }
        }
    }
    events
}

fn sentence(registry: &Registry, event: &Value) -> String {
    let level: ConsentLevel = serde_json::from_value(event["consent_level"].clone()).unwrap();
    let payload = event["payload"].as_object().unwrap();
    registry.summary(event["event_type"].as_str().unwrap(), level, payload, &NoNames).sentence()
}

#[test]
fn hooks_of_claude_code_read_as_what_they_report() {
    let registry = Registry::built_in().unwrap();
    let events = events("payloads/claude-code/2.1.330");
    let sentences: BTreeMap<(&str, &str), String> = events
        .iter()
        .map(|(file, level, event)| ((file.as_str(), level.as_str()), sentence(&registry, event)))
        .collect();
    for (file, metadata, full) in [
        ("SessionStart", "Session started · claude-opus-4-8", "Session started · claude-opus-4-8"),
        ("UserPromptSubmit", "Prompt", "Prompt · Compute the seventh Bernoulli number and explain it"),
        ("PreToolUse.Bash", "Starting Bash", "Starting Bash · cargo test --package engine"),
        ("PostToolUse.Bash", "Ran Bash · 1.8 s", "Ran Bash · cargo test --package engine · 1.8 s"),
        ("PostToolUse.Edit", "Edited a file · 12 ms", "Edited mill.rs · 12 ms"),
        ("PermissionRequest", "Asked for permission · Bash · waiting", "Asked for permission · Bash · waiting"),
        ("PermissionDenied", "Permission denied · Bash · blocked", "Permission denied · Bash · blocked"),
        ("SubagentStart", "Subagent Explore started", "Subagent Explore started"),
        ("PreCompact", "Summarising the context", "Summarising the context"),
        ("InstructionsLoaded", "Read instructions · Project", "Read instructions · CLAUDE.md · Project"),
        ("Stop", "Answered", "Answered · The seventh Bernoulli number is -1/30."),
        ("SessionEnd", "Session ended · prompt_input_exit", "Session ended · prompt_input_exit"),
    ] {
        let file = format!("{file}.events.json");
        assert_eq!(sentences[&(file.as_str(), "metadata-only")], metadata, "{file}");
        assert_eq!(sentences[&(file.as_str(), "full")], full, "{file}");
    }
    let failed = &sentences[&("PostToolUseFailure.events.json", "metadata-only")];
    assert!(failed.starts_with("Ran Bash") && failed.ends_with(" · failed"), "{failed}");
    let failed = &sentences[&("StopFailure.events.json", "metadata-only")];
    assert_eq!(failed, "Called a model · rate_limit · failed");
}

/// A recorded event of any agent or program has more than the name of its type, and no content below `full`.
#[test]
fn every_golden_event_has_a_sentence_without_content() {
    let registry = Registry::built_in().unwrap();
    let events = [events("payloads"), events("spans")].concat();
    assert!(events.len() > 100, "{}", events.len());
    for (file, level, event) in events {
        let sentence = sentence(&registry, &event);
        assert!(!sentence.starts_with("Ran a tool") && !sentence.starts_with("Hook"), "{file}: {sentence}");
        if level != "full" {
            assert!(!sentence.contains('/') && !sentence.contains('@'), "{file}: {sentence}");
        }
    }
}
