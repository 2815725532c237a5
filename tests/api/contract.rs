//! The description as a judge: every answer that any test of this binary gets is held against `/openapi.json`.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use attache::config::{Settings, Urls};
use attache::http;
use jsonschema::Validator;
use reqwest::Method;
use serde_json::{Value, json};

use crate::world::Answer;

/// What is answered does not depend on where a server is.
static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let url = "http://127.0.0.1".to_owned();
    strict(http::description(&Settings::default(), &Urls { base: url.clone(), rag: url }).document)
});

/// Fails the test when the document does not allow this answer. What is no operation of the document is not judged.
#[track_caller]
pub fn judge(method: &Method, path: &str, answer: &Answer) {
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let Some((template, item)) = paths.iter().find(|(template, _)| is_of(template, path)) else { return };
    let Some(operation) = item.get(method.as_str().to_ascii_lowercase()) else { return };
    let responses = &operation["responses"];
    let what = format!("{method} {template} answered {}", answer.status);
    let key =
        if responses.get(answer.status.to_string()).is_some() { answer.status.to_string() } else { "default".into() };
    let response =
        resolved(responses.get(&key).unwrap_or_else(|| panic!("{what}, which is not described: {answer:?}")));
    for (name, header) in response.get("headers").and_then(Value::as_object).into_iter().flatten() {
        assert!(header["required"] != true || answer.header(name).is_some(), "{what} without {name}");
    }
    let kind = answer.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let Some(content) = response.get("content").and_then(Value::as_object) else {
        assert!(answer.body.is_empty(), "{what} with a body: {answer:?}");
        return;
    };
    let described = content.iter().find(|(name, _)| name.split(';').next().unwrap_or_default() == kind);
    let Some((_, media)) = described else {
        assert!(content.contains_key("*/*"), "{what} with {kind:?}, which is not described: {answer:?}");
        return;
    };
    let Some(schema) = media.get("schema") else { return };
    match kind {
        // What passes through may hold numbers that nothing here can.
        "application/json" if content.contains_key("*/*") && serde_json::from_slice::<Value>(&answer.body).is_err() => {
        }
        "application/json" => fits(&what, &format!("{method} {template} {key}"), schema, &answer.json()),
        "application/x-ndjson" => {
            for line in answer.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                fits(&what, &format!("{method} {template} {key}"), schema, &serde_json::from_slice(line).unwrap());
            }
        }
        _ => {}
    }
}

/// The same for a message of the stream of a batch.
#[track_caller]
pub fn judge_message(message: &Value) {
    fits("the stream said something", "message", &json!({ "$ref": "#/components/schemas/BatchMessage" }), message);
}

#[track_caller]
fn fits(what: &str, key: &str, schema: &Value, body: &Value) {
    static KNOWN: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);
    let known = KNOWN.lock().unwrap().get(key).cloned();
    let validator = known.unwrap_or_else(|| {
        let whole = json!({ "allOf": [schema], "components": DOCUMENT["components"] });
        let validator = Arc::new(jsonschema::options().should_validate_formats(true).build(&whole).unwrap());
        KNOWN.lock().unwrap().insert(key.to_owned(), Arc::clone(&validator));
        validator
    });
    let faults: Vec<String> =
        validator.iter_errors(body).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(faults.is_empty(), "{what}, not as it is described: {faults:#?} in {body:#}");
}

fn is_of(template: &str, path: &str) -> bool {
    let (mut wanted, mut given) = (template.split('/'), path.split('/'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some(wanted), Some(given)) if wanted == given || wanted.starts_with('{') => {}
            _ => return false,
        }
    }
}

fn resolved(value: &'static Value) -> &'static Value {
    match value.get("$ref").and_then(Value::as_str) {
        Some(pointer) => DOCUMENT.pointer(pointer.trim_start_matches('#')).unwrap(),
        None => value,
    }
}

/// Clients ignore members that they do not know; here a member that is not described is a fault.
fn strict(mut document: Value) -> Value {
    // Those that are parts of others may not forbid what the others add.
    let parts = ["Key", "RegistrationVariant"];
    for (name, schema) in document["components"]["schemas"].as_object_mut().unwrap() {
        let shaped = ["properties", "allOf", "oneOf"].iter().any(|word| schema.get(word).is_some());
        if shaped && schema.get("additionalProperties").is_none() && !parts.contains(&name.as_str()) {
            schema["unevaluatedProperties"] = json!(false);
        }
    }
    document
}
