//! Checks responses against the description of the API: each response that a test receives through [`crate::world::World::send`] must
//! be one that `/openapi.json` allows.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use app::config::{Settings, Urls};
use jsonschema::Validator;
use reqwest::Method;
use serde_json::{Value, json};

use crate::client::Response;

/// The description does not depend on the address of a server.
static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let url = "http://127.0.0.1".to_owned();
    strict(api::description(&Settings::default(), &Urls { base: url.clone(), rag: url }).document().clone())
});

/// Fails the test if the document does not allow this response. Requests that are no operation of the document are not checked.
#[track_caller]
pub fn judge(method: &Method, path: &str, response: &Response) {
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let Some((template, item)) = paths.iter().find(|(template, _)| is_of(template, path)) else { return };
    let Some(operation) = item.get(method.as_str().to_ascii_lowercase()) else { return };
    let responses = &operation["responses"];
    let what = format!("{method} {template} with status {}", response.status);
    let status = response.status.to_string();
    let key = if responses.get(&status).is_some() { status } else { "default".into() };
    let described =
        resolved(responses.get(&key).unwrap_or_else(|| panic!("{what}, which is not described: {response:?}")));
    for (name, header) in described.get("headers").and_then(Value::as_object).into_iter().flatten() {
        assert!(header["required"] != true || response.header(name).is_some(), "{what} without {name}");
    }
    let kind = response.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let Some(content) = described.get("content").and_then(Value::as_object) else {
        assert!(response.body.is_empty(), "{what} with a body: {response:?}");
        return;
    };
    let media = content.iter().find(|(name, _)| name.split(';').next().unwrap_or_default() == kind);
    let Some((_, media)) = media else {
        assert!(content.contains_key("*/*"), "{what} with {kind:?}, which is not described: {response:?}");
        return;
    };
    let Some(schema) = media.get("schema") else { return };
    let operation = format!("{method} {template} {key}");
    match kind {
        // A response of the external service that is passed through may contain numbers that serde_json cannot represent.
        "application/json"
            if content.contains_key("*/*") && serde_json::from_slice::<Value>(&response.body).is_err() => {}
        "application/json" => assert_valid(&what, &operation, schema, &response.json()),
        "application/x-ndjson" => {
            for line in response.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                assert_valid(&what, &operation, schema, &serde_json::from_slice(line).unwrap());
            }
        }
        _ => {}
    }
}

/// Fails the test if the document does not allow this message of the event stream of a batch.
#[track_caller]
pub fn judge_message(message: &Value) {
    assert_valid("a message of a stream", "message", &json!({ "$ref": "#/components/schemas/BatchMessage" }), message);
}

#[track_caller]
fn assert_valid(what: &str, key: &str, schema: &Value, body: &Value) {
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
    assert!(faults.is_empty(), "{what} does not match its schema: {faults:#?} in {body:#}");
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

/// Forbids members that are not described. Clients ignore them, so the published schemas allow them.
fn strict(mut document: Value) -> Value {
    // Schemas that are parts of others may not forbid the members that those add.
    let parts = ["Key", "RegistrationVariant", "WebhookEntry"];
    for (name, schema) in document["components"]["schemas"].as_object_mut().unwrap() {
        let shaped = ["properties", "allOf", "oneOf"].iter().any(|word| schema.get(word).is_some());
        if shaped && schema.get("additionalProperties").is_none() && !parts.contains(&name.as_str()) {
            schema["unevaluatedProperties"] = json!(false);
        }
    }
    document
}
