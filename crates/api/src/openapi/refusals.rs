//! Error responses of the description: for each status an object with one of its codes as `error`.

use axum::http::StatusCode;
use serde_json::{Map, Value, json};

use crate::error::Code;

/// The status of a code. Temporary unavailability is 503 on the knowledge API.
pub(super) fn status(code: Code, knowledge: bool) -> u16 {
    match code {
        Code::TemporarilyUnavailable if knowledge => StatusCode::SERVICE_UNAVAILABLE.as_u16(),
        other => other.status().as_u16(),
    }
}

/// The name of the response with these codes.
pub(super) fn name(codes: &[Code], knowledge: bool) -> String {
    let words: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
    format!("{}{}", words.join("-"), if knowledge { "-of-knowledge" } else { "" })
}

/// The response with these codes, which have the same status. With `passing`, it may also be a response of the statistics service.
pub(super) fn response(codes: &[Code], knowledge: bool, passing: bool) -> Value {
    let words: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
    let mut members = Map::from_iter([("error".to_owned(), json!({ "type": "string", "enum": words }))]);
    let mut required = vec!["error"];
    for (name, schema, of_all) in codes.iter().flat_map(|code| carried(*code)) {
        members.insert(name.to_owned(), schema);
        if of_all && codes.len() == 1 {
            required.push(name);
        }
    }
    if knowledge {
        required.push("details");
    }
    let own = json!({ "allOf": [
        { "$ref": "#/components/schemas/ErrorBody" },
        { "type": "object", "properties": members, "required": required },
    ] });
    let examples: Map<String, Value> =
        codes.iter().map(|code| (code.as_str().to_owned(), json!({ "value": example(*code, knowledge) }))).collect();
    let mut response = json!({ "description": words.join(", "), "headers": headers(codes, !passing) });
    response["content"] = if passing {
        let anything = json!({ "$ref": "#/components/schemas/Anything" });
        response["description"] = format!("{}; or a response of the statistics service", words.join(", ")).into();
        json!({ "application/json": { "schema": { "anyOf": [own, anything] }, "examples": examples }, "*/*": {} })
    } else {
        json!({ "application/json": { "schema": own, "examples": examples } })
    };
    if response["headers"] == json!({}) {
        response.as_object_mut().map(|response| response.remove("headers"));
    }
    response
}

/// A response that only the statistics service sends.
pub(super) fn passed_on(status: u16) -> Value {
    let what = match status {
        409 => {
            "The event is not the next one of its chain, or another event has its id. Response of the statistics service."
        }
        422 => "The event does not link to the one before it. Response of the statistics service.",
        429 => "The sender exceeds a rate limit. Response of the statistics service.",
        _ => "Response of the statistics service.",
    };
    let mut response = json!({ "description": what, "content": { "*/*": {} } });
    if status == 429 {
        response["headers"] = json!({ "Retry-After": retry_after(false) });
    }
    response
}

/// Members that accompany a code: name, schema, and whether they are always present.
fn carried(code: Code) -> Vec<(&'static str, Value, bool)> {
    match code {
        Code::AuthorizationPending => vec![("interval", json!({ "type": "integer", "minimum": 5 }), false)],
        Code::SlowDown => vec![("interval", json!({ "type": "integer", "minimum": 5, "maximum": 60 }), true)],
        Code::ConsentAuditForwardFailed => vec![("written", json!({ "type": "integer", "minimum": 0 }), true)],
        Code::TemporarilyUnavailable => vec![
            ("retryable", json!({ "type": "boolean", "enum": [true] }), true),
            ("paused_until", json!({ "type": "string", "format": "date-time" }), false),
        ],
        _ => Vec::new(),
    }
}

fn example(code: Code, knowledge: bool) -> Value {
    let mut body = json!({ "error": code.as_str() });
    match code {
        Code::InvalidRequest => body["issues"] = json!([{ "path": "member", "message": "why the value is invalid" }]),
        Code::SlowDown => body["interval"] = 10.into(),
        Code::AuthorizationPending => body["interval"] = 5.into(),
        Code::ConsentAuditForwardFailed => body["written"] = 1.into(),
        Code::TemporarilyUnavailable => {
            body["retryable"] = true.into();
            body["reason"] = "overloaded".into();
        }
        _ => {}
    }
    if knowledge {
        body["details"] = "explanation and advice".into();
    }
    body
}

fn headers(codes: &[Code], always: bool) -> Value {
    let mut headers = Map::new();
    if codes.iter().any(|code| code.status() == StatusCode::UNAUTHORIZED) {
        let what = "`Bearer resource_metadata=\"…\"` (RFC 9728)";
        headers.insert(
            "WWW-Authenticate".to_owned(),
            json!({
                "description": what,
                "required": always,
                "schema": { "type": "string" },
            }),
        );
    }
    if codes.iter().any(|code| matches!(code, Code::TemporarilyUnavailable | Code::RateLimited)) {
        headers.insert("Retry-After".to_owned(), retry_after(always));
    }
    Value::Object(headers)
}

fn retry_after(always: bool) -> Value {
    json!({ "description": "When to retry; in seconds if the server itself sends it.", "required": always, "schema": { "type": "string" } })
}
