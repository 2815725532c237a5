//! Stored payloads of each tool and their events, at both levels that record something.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use domain::consent::ConsentLevel;
use domain::registry::Registry;
use hooks::{Draft, Payload, Salt, Tool};
use serde_json::{Value, json};

const SALT: Salt = Salt(*b"salt of the test");

fn payloads() -> Vec<(Tool, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/payloads");
    let mut paths = Vec::new();
    for tool in Tool::ALL {
        for version in fs::read_dir(folder.join(tool.as_str())).unwrap() {
            let files = fs::read_dir(version.unwrap().path()).unwrap().map(|file| file.unwrap().path());
            let is_payload = |path: &PathBuf| !path.to_str().unwrap().ends_with(".events.json");
            paths.extend(files.filter(is_payload).map(|path| (tool, path)));
        }
    }
    paths.sort();
    paths
}

fn drafts(tool: Tool, bytes: &[u8], level: ConsentLevel) -> Vec<Draft> {
    let events = hooks::events(tool, None, &Payload::read(bytes), &SALT);
    events.into_iter().filter_map(|event| event.at(level)).collect()
}

#[test]
fn each_payload_becomes_the_kept_events() {
    let is_update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut count = BTreeMap::<Tool, usize>::new();
    for (tool, path) in payloads() {
        let bytes = fs::read(&path).unwrap();
        let events = json!({
            "metadata-only": drafts(tool, &bytes, ConsentLevel::MetadataOnly),
            "full": drafts(tool, &bytes, ConsentLevel::Full),
        });
        let golden = path.with_extension("events.json");
        if is_update {
            fs::write(&golden, serde_json::to_string_pretty(&events).unwrap() + "\n").unwrap();
        }
        let expected: Value = serde_json::from_slice(&fs::read(&golden).unwrap()).unwrap();
        assert_eq!(events, expected, "{}", path.display());
        *count.entry(tool).or_default() += 1;
    }
    assert_eq!(count.len(), Tool::ALL.len());
    assert!(count.values().all(|count| *count >= 7), "{count:?}");
}

#[test]
fn a_second_delivery_of_a_tool_call_has_the_same_id_and_another_call_has_not() {
    let text = include_str!("payloads/claude-code/2.1.330/PostToolUse.Bash.json");
    let id = |text: &str| drafts(Tool::ClaudeCode, text.as_bytes(), ConsentLevel::Full)[0].event_id.unwrap();
    assert_eq!(id(text), id(text));
    assert_ne!(id(text), id(&text.replace("toolu_01AbCdEf", "toolu_07AbCdEf")));
    assert_ne!(id(text), id(&text.replace("PostToolUse", "PreToolUse")));
}

/// The registry accepts each event at its declared level: types, lanes, schemas and content fields.
#[test]
fn the_built_in_registry_accepts_every_event() {
    let described = Registry::built_in().unwrap().describe();
    let types = described["event_types"].as_array().unwrap();
    let mut lanes = BTreeMap::<String, usize>::new();
    for (tool, path) in payloads() {
        for level in [ConsentLevel::MetadataOnly, ConsentLevel::Full] {
            for draft in drafts(tool, &fs::read(&path).unwrap(), level) {
                let kind = types.iter().find(|kind| kind["event_type"] == draft.event_type).unwrap();
                assert_eq!(kind["lane"], json!(draft.lane), "{}", path.display());
                assert!(draft.consent_level <= level, "{}", path.display());
                if draft.consent_level != ConsentLevel::Full {
                    for field in kind["content_fields"].as_array().unwrap() {
                        assert!(!draft.payload.contains_key(field.as_str().unwrap()), "{}: {field}", path.display());
                    }
                }
                let schema = jsonschema::validator_for(&kind["payload_schema"]).unwrap();
                let payload = Value::Object(draft.payload);
                assert!(schema.is_valid(&payload), "{}: {payload}", path.display());
                *lanes.entry(draft.lane.to_string()).or_default() += 1;
            }
        }
    }
    assert_eq!(lanes.keys().collect::<Vec<_>>(), ["llm", "memory", "security", "skill"]);
}
