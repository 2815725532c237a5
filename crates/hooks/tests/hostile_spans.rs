//! Exports that no SDK sends: reading them never panics, and never puts content into metadata.

use bytes::Bytes;
use domain::consent::ConsentLevel;
use hooks::otlp::{self, MalformedExport, SpanEncoding, SpanExport};
use hooks::{Salt, Tool};
use proptest::prelude::*;
use serde_json::{Value, json};

const SALT: Salt = Salt(*b"salt of the test");

/// A sentence: it must not become a label.
const SENTENCE: &str = "canary in a sentence";
/// A path: it must not become a label.
const PATH: &str = "/canary/in/a/path";
/// A word, which could be a label.
const WORD: &str = "canaryword";

/// Attributes that become labels, if their values have the form of one.
const LABELS: [&str; 11] = [
    "gen_ai.operation.name",
    "gen_ai.provider.name",
    "gen_ai.system",
    "gen_ai.request.model",
    "gen_ai.response.model",
    "gen_ai.tool.name",
    "gen_ai.agent.name",
    "gen_ai.tool.call.id",
    "gen_ai.response.finish_reasons",
    "error.type",
    "exception.type",
];

/// Attributes that are content, numbers, or unknown.
const OTHERS: [&str; 19] = [
    "gen_ai.conversation.id",
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
    "gen_ai.tool.definitions",
    "gen_ai.prompt",
    "gen_ai.completion",
    "gen_ai.prompt.0.content",
    "gen_ai.completion.0.content",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
    "gen_ai.memory.query.text",
    "gen_ai.memory.records",
    "gen_ai.agent.description",
    "exception.message",
    "content",
    "url.full",
];

const OPERATIONS: [&str; 12] = [
    "chat",
    "text_completion",
    "generate_content",
    "embeddings",
    "execute_tool",
    "invoke_agent",
    "create_agent",
    "search_memory",
    "upsert_memory",
    "delete_memory",
    "retrieval",
    SENTENCE,
];

const EVENTS: [&str; 7] = [
    "gen_ai.user.message",
    "gen_ai.choice",
    "gen_ai.content.prompt",
    "gen_ai.client.inference.operation.details",
    "exception",
    "gen_ai.",
    SENTENCE,
];

const KEPT: [(&[u8], SpanEncoding); 4] = [
    (include_bytes!("spans/opentelemetry-sdk-1.45.1/work.json"), SpanEncoding::Json),
    (include_bytes!("spans/opentelemetry-sdk-1.45.1/work.pb"), SpanEncoding::Protobuf),
    (include_bytes!("spans/instrumentation-openai-0.40.7/calls.json"), SpanEncoding::Json),
    (include_bytes!("spans/instrumentation-openai-0.62.4/calls.pb"), SpanEncoding::Protobuf),
];

/// A value of any kind, as OTLP writes it in JSON.
fn value(words: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        4 => prop::sample::select(words).prop_map(|text| json!({ "stringValue": text })),
        1 => any::<i64>().prop_map(|number| json!({ "intValue": number.to_string() })),
        1 => any::<f64>().prop_map(|number| json!({ "doubleValue": number })),
        1 => any::<bool>().prop_map(|value| json!({ "boolValue": value })),
        1 => Just(json!({})),
    ];
    leaf.prop_recursive(4, 30, 5, move |inner| {
        let named = (prop::sample::select(words), inner.clone());
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(|values| json!({ "arrayValue": { "values": values } })),
            prop::collection::vec(named.prop_map(|(key, value)| json!({ "key": key, "value": value })), 0..4)
                .prop_map(|values| json!({ "kvlistValue": { "values": values } })),
        ]
    })
}

fn attributes() -> impl Strategy<Value = Vec<Value>> {
    let labelled = (prop::sample::select(&LABELS[..]), value(&[SENTENCE, PATH]));
    let other = (prop::sample::select(&OTHERS[..]), value(&[SENTENCE, PATH, WORD]));
    let attribute = prop_oneof![labelled, other].prop_map(|(key, value)| json!({ "key": key, "value": value }));
    prop::collection::vec(attribute, 0..12)
}

fn span() -> impl Strategy<Value = Value> {
    let events = prop::collection::vec((prop::sample::select(&EVENTS[..]), attributes()), 0..3);
    let operation = prop::sample::select(&OPERATIONS[..]);
    let status = (0..4_i32, prop::sample::select(&[SENTENCE, PATH, WORD][..]));
    (operation, attributes(), events, status, any::<[u64; 2]>()).prop_map(
        |(operation, mut attributes, events, (code, message), times)| {
            let operation = json!({ "key": "gen_ai.operation.name", "value": { "stringValue": operation } });
            attributes.push(operation);
            let event = |(name, attributes): (&str, Vec<Value>)| json!({ "name": name, "attributes": attributes });
            json!({
                "traceId": "5b8efff798038103d269b633813fc60c", "spanId": "eee19b7ec3c1b174",
                "startTimeUnixNano": times[0].to_string(), "endTimeUnixNano": times[1],
                "attributes": attributes, "events": events.into_iter().map(event).collect::<Vec<_>>(),
                "status": { "code": code, "message": message },
            })
        },
    )
}

fn read(body: Vec<u8>, encoding: SpanEncoding) -> Result<SpanExport, MalformedExport> {
    otlp::read(&Bytes::from(body), encoding, Some(Tool::Codex), &SALT)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn metadata_of_spans_contains_no_content(spans in prop::collection::vec(span(), 1..4)) {
        let body = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": spans }] }] });
        for (_, event) in read(body.to_string().into_bytes(), SpanEncoding::Json).unwrap().events {
            prop_assert!(event.clone().at(ConsentLevel::Off).is_none());
            let text = serde_json::to_string(&event.at(ConsentLevel::MetadataOnly).unwrap()).unwrap();
            for canary in [SENTENCE, PATH, WORD] {
                prop_assert!(!text.contains(canary), "{text}");
            }
        }
    }

    #[test]
    fn any_bytes_are_an_export_or_malformed(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for encoding in [SpanEncoding::Protobuf, SpanEncoding::Json] {
            let _ = read(bytes.clone(), encoding);
        }
    }

    #[test]
    fn a_changed_export_is_an_export_or_malformed(
        kept in prop::sample::select(&KEPT[..]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        end in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let (bytes, encoding) = kept;
        let mut bytes = bytes.to_vec();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if is_cut {
            bytes.truncate(end.index(bytes.len()));
        }
        let _ = read(bytes, encoding);
    }
}

#[test]
fn deep_nesting_is_malformed_and_no_overflow() {
    let depth = 100_000;
    let value = format!("{}{}", r#"{"arrayValue":{"values":["#.repeat(depth), "]}}".repeat(depth));
    let span = format!(r#"{{"attributes":[{{"key":"gen_ai.prompt","value":{value}}}]}}"#);
    for span in [span, "[".repeat(depth)] {
        let body = format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{span}]}}]}}]}}"#);
        // An oversized span is rejected without being decoded.
        let export = read(body.into_bytes(), SpanEncoding::Json);
        assert!(export.is_err() || export.unwrap().rejections.total() == 1);
    }
    // Field 9 (attributes), then values within arrays: each level is two messages in Protocol Buffers.
    let wrap = |tag: u8, inner: Vec<u8>| -> Vec<u8> {
        let mut bytes = vec![tag << 3 | 2];
        let mut rest = inner.len();
        while rest >= 0x80 {
            bytes.push(u8::try_from(rest % 0x80).unwrap() | 0x80);
            rest /= 0x80;
        }
        bytes.push(u8::try_from(rest).unwrap());
        bytes.extend(inner);
        bytes
    };
    let nested = (0..2000).fold(Vec::new(), |inner, _| wrap(5, wrap(1, inner)));
    let attribute = [wrap(1, b"gen_ai.prompt".to_vec()), wrap(2, nested)].concat();
    let body = wrap(1, wrap(2, wrap(2, wrap(9, attribute))));
    assert!(matches!(read(body, SpanEncoding::Protobuf), Err(MalformedExport::Protobuf(_))));
}
