//! Stored exports of OpenTelemetry spans and their events, at both levels that record something.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use domain::consent::ConsentLevel;
use domain::registry::Registry;
use hooks::otlp::{self, MalformedExport, SPAN_BYTES_MAX, SPANS_MAX, SpanEncoding, SpanExport};
use hooks::{Salt, Tool};
use serde_json::{Value, json};

const SALT: Salt = Salt(*b"salt of the test");

const ENCODINGS: [(SpanEncoding, &str); 2] = [(SpanEncoding::Json, "json"), (SpanEncoding::Protobuf, "pb")];

/// The stored exports, without their extensions.
fn exports() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/spans");
    let sources = fs::read_dir(folder).unwrap().map(|source| source.unwrap().path()).filter(|path| path.is_dir());
    let files = sources.flat_map(|source| fs::read_dir(source).unwrap().map(|file| file.unwrap().path()));
    let mut paths: Vec<PathBuf> = files.filter_map(|path| Some(path.to_str()?.strip_suffix(".pb")?.into())).collect();
    paths.sort();
    paths
}

fn read(path: &Path, encoding: SpanEncoding, ending: &str) -> SpanExport {
    let body = Bytes::from(fs::read(path.with_added_extension(ending)).unwrap());
    otlp::read(&body, encoding, None, &SALT).unwrap()
}

fn json_export(body: &Value, agent: Option<Tool>) -> Result<SpanExport, MalformedExport> {
    otlp::read(&Bytes::from(body.to_string()), SpanEncoding::Json, agent, &SALT)
}

/// An export with these spans of a program with this name.
fn of_service(name: &str, spans: &[Value]) -> Value {
    let resource = json!({ "attributes": [{ "key": "service.name", "value": { "stringValue": name } }] });
    json!({ "resourceSpans": [{ "resource": resource, "scopeSpans": [{ "spans": spans }] }] })
}

/// A call of a model with this span id and these further members.
fn call(id: &str, members: &Value) -> Value {
    let mut span = json!({
        "traceId": "5b8efff798038103d269b633813fc60c", "spanId": id, "endTimeUnixNano": "1767225600000000000",
        "attributes": [
            { "key": "gen_ai.operation.name", "value": { "stringValue": "chat" } },
            { "key": "gen_ai.request.model", "value": { "stringValue": "gpt-5" } },
        ],
    });
    span.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    span
}

#[test]
fn each_export_becomes_the_kept_events_in_both_encodings() {
    let is_update = std::env::var_os("UPDATE_GOLDEN").is_some();
    assert!(exports().len() >= 4);
    for path in exports() {
        for (encoding, ending) in ENCODINGS {
            let SpanExport { events, spans, ignored, rejections } = read(&path, encoding, ending);
            let at = |level| -> Vec<Value> {
                let permitted = events.iter().filter_map(|(tool, event)| Some((*tool, event.clone().at(level)?)));
                permitted.map(|(tool, draft)| json!({ "agent": tool, "event": draft })).collect()
            };
            let actual = json!({
                "spans": spans, "ignored": ignored, "rejected": rejections.total(),
                "metadata-only": at(ConsentLevel::MetadataOnly), "full": at(ConsentLevel::Full),
            });
            let golden = path.with_added_extension("events.json");
            if is_update {
                fs::write(&golden, serde_json::to_string_pretty(&actual).unwrap() + "\n").unwrap();
            }
            let expected: Value = serde_json::from_slice(&fs::read(&golden).unwrap()).unwrap();
            assert_eq!(actual, expected, "{} {ending}", path.display());
        }
    }
}

/// The registry accepts each event at its declared level: types, lanes, schemas and content fields.
#[test]
fn the_built_in_registry_accepts_every_event() {
    let described = Registry::built_in().unwrap().describe();
    let types = described["event_types"].as_array().unwrap();
    let mut event_types = BTreeSet::new();
    for path in exports() {
        for (_, event) in read(&path, SpanEncoding::Protobuf, "pb").events {
            for level in [ConsentLevel::MetadataOnly, ConsentLevel::Full] {
                let draft = event.clone().at(level).unwrap();
                let kind = types.iter().find(|kind| kind["event_type"] == draft.event_type).unwrap();
                assert_eq!(kind["lane"], json!(draft.lane), "{draft:?}");
                let has_content = |field: &Value| draft.payload.contains_key(field.as_str().unwrap());
                let content_fields = kind["content_fields"].as_array().unwrap();
                assert!(draft.consent_level == ConsentLevel::Full || !content_fields.iter().any(has_content));
                let schema = jsonschema::validator_for(&kind["payload_schema"]).unwrap();
                assert!(schema.is_valid(&Value::Object(draft.payload.clone())), "{draft:?}");
                event_types.insert(draft.event_type);
            }
        }
    }
    let event_types: Vec<&str> = event_types.iter().map(String::as_str).collect();
    assert_eq!(event_types, ["llm.completed", "llm.failed", "memory.recalled", "memory.stored", "skill.invoked"]);
}

#[test]
fn a_repeated_export_has_the_same_ids_and_each_span_one_of_its_own() {
    let ids = |(encoding, ending)| -> Vec<_> {
        let of = |path: &PathBuf| read(path, encoding, ending).events;
        exports().iter().flat_map(of).map(|(_, event)| event.event_id.unwrap()).collect()
    };
    let [first, second] = ENCODINGS.map(ids);
    assert_eq!(first, second);
    assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), first.len());
    // The id depends on the span and not on the agent, so that it is the same after a change of `--agent`.
    let export = of_service("shop", &[call("eee19b7ec3c1b174", &json!({}))]);
    let id = |agent| json_export(&export, Some(agent)).unwrap().events.remove(0).1.event_id.unwrap();
    assert_eq!(id(Tool::Codex), id(Tool::Cursor));
}

#[test]
fn the_name_of_a_service_is_the_agent_before_the_option_is() {
    let agents = |name: &str, agent| -> Vec<Tool> {
        let export = json_export(&of_service(name, &[call("eee19b7ec3c1b174", &json!({}))]), agent).unwrap();
        assert_eq!(export.rejections.total(), u64::from(export.events.is_empty()));
        export.events.iter().map(|(tool, _)| *tool).collect()
    };
    assert_eq!(agents("gemini-cli", Some(Tool::Codex)), [Tool::GeminiCli]);
    assert_eq!(agents("shop", Some(Tool::Codex)), [Tool::Codex]);
    assert_eq!(agents("shop", None), []);
}

#[test]
fn spans_that_cannot_be_recorded_are_rejected_with_the_reason() {
    let long = call("eee19b7ec3c1b174", &json!({ "name": "x".repeat(SPAN_BYTES_MAX) }));
    let other = json!({ "traceId": "", "name": "GET /" });
    let spans = [call("00", &json!({})), call("0000000000000000", &json!({})), long, other];
    let export = json_export(&of_service("codex", &spans), None).unwrap();
    assert_eq!((export.spans, export.ignored, export.events.len()), (4, 1, 0));
    let said = export.rejections.to_string();
    assert!(said.contains("2 rejected: no trace id") && said.contains("1 rejected: longer than 1 MiB"), "{said}");
    let written = SpanEncoding::Json.response(&export.rejections);
    let response: Value = serde_json::from_slice(&written).unwrap();
    assert_eq!(response["partialSuccess"]["rejectedSpans"], "3", "{response}");

    let count = usize::try_from(SPANS_MAX).unwrap() + 7;
    let export = json_export(&of_service("codex", &vec![json!({}); count]), None).unwrap();
    assert_eq!((export.ignored, export.rejections.total()), (SPANS_MAX, 7));
}

#[test]
fn long_content_is_cut_and_marked() {
    let prompt = json!({ "key": "gen_ai.prompt", "value": { "stringValue": "word ".repeat(50_000) } });
    let attributes = json!([{ "key": "gen_ai.request.model", "value": { "stringValue": "gpt-5" } }, prompt]);
    let span = call("eee19b7ec3c1b174", &json!({ "attributes": attributes }));
    let (_, event) = json_export(&of_service("codex", &[span]), None).unwrap().events.remove(0);
    assert_eq!(event.payload["truncated"], true);
    assert!(event.content["prompt"].as_str().unwrap().len() <= 64 * 1024);
}
