//! The mapping on payloads that no tool sends: it never panics, and never puts content into metadata.

use domain::consent::ConsentLevel;
use hooks::{HookEvent, Payload, Salt, Tool};
use proptest::prelude::*;
use serde_json::{Map, Value};

const SALT: Salt = Salt(*b"salt of the test");

/// A sentence: it must not become a label.
const SENTENCE: &str = "canary in a sentence";
/// A path: it must not become a label.
const PATH: &str = "/canary/in/a/path";
/// A word, which could be a label.
const WORD: &str = "canaryword";

/// Members with labels. They are sent at every level, so a word in them is not a leak.
const LABELS: [&str; 26] = [
    "hook_event_name",
    "hookEventName",
    "hook",
    "type",
    "tool_name",
    "toolName",
    "tool",
    "source",
    "load_reason",
    "reason",
    "stop_reason",
    "stopReason",
    "status",
    "trigger",
    "permission_mode",
    "composer_mode",
    "model",
    "modelID",
    "agent_type",
    "agentName",
    "agent_name",
    "subagent_type",
    "memory_type",
    "notification_type",
    "error_type",
    "failure_type",
];

/// Members that any of the tools has.
const NAMES: [&str; 40] = [
    "session_id",
    "sessionId",
    "conversation_id",
    "sessionID",
    "thread-id",
    "turn_id",
    "cwd",
    "directory",
    "workspace_roots",
    "transcript_path",
    "timestamp",
    "tool_use_id",
    "callID",
    "tool_input",
    "toolArgs",
    "args",
    "tool_response",
    "toolResult",
    "output",
    "result_json",
    "prompt",
    "last_assistant_message",
    "text",
    "command",
    "content",
    "edits",
    "error",
    "error_details",
    "message",
    "details",
    "compact_summary",
    "custom_instructions",
    "file_path",
    "file",
    "input",
    "properties",
    "info",
    "event",
    "parts",
    "metadata",
];

const HOOKS: [&str; 34] = [
    "SessionStart",
    "SessionEnd",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PermissionRequest",
    "PermissionDenied",
    "Stop",
    "StopFailure",
    "SubagentStop",
    "PostCompact",
    "InstructionsLoaded",
    "Notification",
    "agent-turn-complete",
    "beforeSubmitPrompt",
    "afterShellExecution",
    "afterFileEdit",
    "beforeReadFile",
    "stop",
    "BeforeAgent",
    "AfterAgent",
    "AfterTool",
    "BeforeTool",
    "postToolUse",
    "errorOccurred",
    "chat.message",
    "message.updated",
    "tool.execute.before",
    "tool.execute.after",
    "permission.ask",
    "session.created",
    "file.edited",
    "SomethingNew",
];

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::String(SENTENCE.into())),
        Just(Value::String(PATH.into())),
        Just(Value::String(WORD.into())),
        Just(Value::String(format!("{{\"command\":\"{SENTENCE}\",\"file_path\":\"{PATH}\"}}"))),
        any::<i64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
        ".{0,8}".prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(&NAMES[..]).prop_map(str::to_owned),
        1 => Just(SENTENCE.to_owned()),
        1 => "[a-z_]{1,8}",
    ]
}

fn payload() -> impl Strategy<Value = Map<String, Value>> {
    let members = prop::collection::vec((name(), value()), 0..14);
    let labels =
        prop::collection::vec((prop::sample::select(&LABELS[..]), prop::sample::select(&[SENTENCE, PATH][..])), 0..4);
    let hook = prop::sample::select(&HOOKS[..]);
    (members, labels, hook, prop::sample::select(&["hook_event_name", "type", "hook"][..])).prop_map(
        |(members, labels, hook, place)| {
            let mut payload: Map<String, Value> = members.into_iter().collect();
            payload.extend(labels.into_iter().map(|(name, value)| (name.to_owned(), value.into())));
            payload.insert(place.to_owned(), hook.into());
            payload
        },
    )
}

/// The events of all tools, with and without a given name of the hook.
fn events(bytes: &[u8]) -> Vec<HookEvent> {
    let payload = Payload::read(bytes);
    let names = [None, Some("postToolUse"), Some(SENTENCE)];
    let calls = Tool::ALL.iter().flat_map(|tool| names.map(|name| (*tool, name)));
    calls.flat_map(|(tool, name)| hooks::events(tool, name, &payload, &SALT)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn metadata_contains_no_content(members in payload()) {
        for event in events(Value::Object(members).to_string().as_bytes()) {
            prop_assert!(event.clone().at(ConsentLevel::Off).is_none());
            let text = serde_json::to_string(&event.at(ConsentLevel::MetadataOnly).unwrap()).unwrap();
            for canary in [SENTENCE, PATH, WORD] {
                prop_assert!(!text.contains(canary), "{text}");
            }
        }
    }

    #[test]
    fn any_bytes_and_any_cut_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200), members in payload(), at in 0.0..1.0) {
        events(&bytes);
        let text = Value::Object(members).to_string();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a place in a short text")]
        let end = (text.len() as f64 * at) as usize;
        for event in events(&text.as_bytes()[..end]) {
            prop_assert_eq!(event.payload.get("truncated"), Some(&Value::Bool(true)));
        }
    }
}
