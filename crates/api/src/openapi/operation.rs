//! One operation: its declared parts, and the parts derived from its route.

use std::collections::BTreeMap;

use axum::http::Method;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::refusals;
use super::schemas::{Anything, Schemas};
use super::security::security;
use crate::accepts::Accepts;
use crate::error::Code;
use crate::route::Route;

/// The declared parts of an operation.
#[derive(Debug)]
pub struct Operation {
    method: Method,
    path: &'static str,
    head: Map<String, Value>,
    parameters: Vec<Value>,
    body: Option<Body>,
    answers: Vec<ResponseDoc>,
    codes: Vec<Code>,
    passing: Passing,
    known: Vec<Known>,
    optional: Option<&'static str>,
}

#[derive(Debug)]
struct Body {
    kind: &'static str,
    schema: fn(&mut Schemas) -> Value,
    example: Value,
    required: bool,
}

#[derive(Debug)]
struct ResponseDoc {
    status: u16,
    what: &'static str,
    content: Option<Content>,
}

#[derive(Debug)]
struct Content {
    kind: &'static str,
    schema: fn(&mut Schemas) -> Value,
    example: Value,
    headers: Value,
}

/// A response of the embedded statistics service; an external one may respond differently.
#[derive(Debug)]
struct Known {
    status: u16,
    schema: fn(&mut Schemas) -> Value,
    examples: Value,
}

/// Responses that are passed on from the statistics service unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passing {
    Nothing,
    These(&'static [u16]),
    Everything,
}

impl Operation {
    fn new(method: Method, path: &'static str, id: &'static str, summary: &'static str) -> Self {
        let head = Map::from_iter([("operationId".to_owned(), id.into()), ("summary".to_owned(), summary.into())]);
        let (parameters, answers, codes) = (path_parameters(path), Vec::new(), Vec::new());
        let (passing, known) = (Passing::Nothing, Vec::new());
        Self { method, path, head, parameters, body: None, answers, codes, passing, known, optional: None }
    }

    pub(super) fn get(path: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self::new(Method::GET, path, id, summary)
    }

    pub(super) fn post(path: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self::new(Method::POST, path, id, summary)
    }

    pub(super) fn put(path: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self::new(Method::PUT, path, id, summary)
    }

    pub(super) fn patch(path: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self::new(Method::PATCH, path, id, summary)
    }

    pub(super) fn delete(path: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self::new(Method::DELETE, path, id, summary)
    }

    /// Sets the description.
    pub(super) fn says(mut self, description: &'static str) -> Self {
        self.head.insert("description".to_owned(), description.into());
        self
    }

    /// Adds an optional query parameter.
    pub(super) fn query(mut self, name: &str, what: &str, schema: &Value) -> Self {
        self.parameters.push(json!({ "name": name, "in": "query", "description": what, "schema": schema }));
        self
    }

    /// Adds a required query parameter.
    pub(super) fn query_required(mut self, name: &str, what: &str, schema: &Value) -> Self {
        self.parameters
            .push(json!({ "name": name, "in": "query", "description": what, "schema": schema, "required": true }));
        self
    }

    /// Adds a request header.
    pub(super) fn header(mut self, name: &str, what: &str, schema: &Value) -> Self {
        self.parameters.push(json!({ "name": name, "in": "header", "description": what, "schema": schema }));
        self
    }

    /// Sets the JSON body with an example.
    pub(super) fn takes<T: ToSchema>(self, example: Value) -> Self {
        self.body::<T>("application/json", example, true)
    }

    /// Sets the body of another content type with an example.
    pub(super) fn takes_as<T: ToSchema>(self, kind: &'static str, example: Value) -> Self {
        self.body::<T>(kind, example, true)
    }

    /// Sets the form body with an example.
    pub(super) fn takes_form<T: ToSchema>(self, example: Value, required: bool) -> Self {
        self.body::<T>("application/x-www-form-urlencoded", example, required)
    }

    fn body<T: ToSchema>(mut self, kind: &'static str, example: Value, required: bool) -> Self {
        self.body = Some(Body { kind, schema: Schemas::add::<T>, example, required });
        self
    }

    /// Adds a JSON response with status, description and example.
    pub(super) fn answers<T: ToSchema>(self, status: u16, what: &'static str, example: Value) -> Self {
        self.answers_as::<T>("application/json", status, what, example)
    }

    /// Adds a response with another content type.
    pub(super) fn answers_as<T: ToSchema>(
        mut self,
        kind: &'static str,
        status: u16,
        what: &'static str,
        example: Value,
    ) -> Self {
        let content = Content { kind, schema: Schemas::add::<T>, example, headers: Value::Null };
        self.answers.push(ResponseDoc { status, what, content: Some(content) });
        self
    }

    /// Adds a response of server-sent events; their `data` have this schema.
    pub(super) fn answers_stream<T: ToSchema>(mut self, status: u16, what: &'static str) -> Self {
        let schema = |schemas: &mut Schemas| {
            let message = schemas.add::<T>();
            json!({
                "type": "object",
                "properties": {
                    "id": { "type": "string", "description": "Value for `Last-Event-ID` when joining again." },
                    "data": { "type": "string", "contentMediaType": "application/json", "contentSchema": message },
                },
                "required": ["data"],
            })
        };
        let content = Content { kind: "text/event-stream", schema, example: Value::Null, headers: Value::Null };
        self.answers.push(ResponseDoc { status, what, content: Some(content) });
        self
    }

    /// Adds a text response.
    pub(super) fn answers_text(mut self, kind: &'static str, status: u16, what: &'static str) -> Self {
        let schema = |_: &mut Schemas| json!({ "type": "string" });
        let content = Content { kind, schema, example: Value::Null, headers: Value::Null };
        self.answers.push(ResponseDoc { status, what, content: Some(content) });
        self
    }

    /// Adds a response of bytes.
    pub(super) fn answers_octets(mut self, status: u16, what: &'static str) -> Self {
        let schema = |_: &mut Schemas| json!({ "type": "string", "format": "binary" });
        let content = Content { kind: "application/octet-stream", schema, example: Value::Null, headers: Value::Null };
        self.answers.push(ResponseDoc { status, what, content: Some(content) });
        self
    }

    /// Adds a success or a redirect without a body.
    pub(super) fn answers_nothing(mut self, status: u16, what: &'static str) -> Self {
        self.answers.push(ResponseDoc { status, what, content: None });
        self
    }

    /// Adds 304 for conditional requests.
    pub(super) fn answers_if_changed(self) -> Self {
        if self.method == Method::GET && !["/", "/.well-known/jwks.json"].contains(&self.path) {
            return self.answers_nothing(304, "Not modified.");
        }
        self
    }

    /// Adds a header to the response that was added last.
    pub(super) fn with_header(mut self, name: &str, what: &str) -> Self {
        if let Some(ResponseDoc { content: Some(content), .. }) = self.answers.last_mut() {
            content.headers = json!({ name: { "description": what, "schema": { "type": "string" } } });
        }
        self
    }

    /// Adds error codes to the codes derived from the route (`docs/protocol/errors.md`).
    pub(super) fn refuses(mut self, codes: &[Code]) -> Self {
        self.codes.extend(codes);
        self
    }

    /// Responses with these statuses may be passed on from the statistics service.
    pub(super) fn passes_on(mut self, statuses: &'static [u16]) -> Self {
        self.passing = Passing::These(statuses);
        self
    }

    /// Schema and examples of such a response of the embedded statistics service.
    pub(super) fn passes_on_known<T: ToSchema>(mut self, status: u16, examples: Value) -> Self {
        self.known.push(Known { status, schema: Schemas::add::<T>, examples });
        self
    }

    /// An optional credential, required by some configurations only.
    pub(super) fn may_bear(mut self, scheme: &'static str) -> Self {
        self.optional = Some(scheme);
        self
    }

    /// Any response may be passed on from the statistics service.
    pub(super) fn passes_everything_on(mut self) -> Self {
        self.passing = Passing::Everything;
        self
    }

    /// Sets the tag of several operations.
    pub(super) fn tagged(tag: &str, operations: Vec<Self>) -> Vec<Self> {
        let tagged = |mut operation: Self| {
            operation.head.insert("tags".to_owned(), json!([tag]));
            operation
        };
        operations.into_iter().map(tagged).collect()
    }

    /// The `operationId` of the document.
    pub(super) fn id(&self) -> &str {
        self.head.get("operationId").and_then(Value::as_str).unwrap_or_default()
    }

    /// The summary: an imperative or a noun, without a full stop.
    pub fn summary(&self) -> &str {
        self.head.get("summary").and_then(Value::as_str).unwrap_or_default()
    }

    /// The description; empty if the summary is sufficient.
    pub fn description(&self) -> &str {
        self.head.get("description").and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether it describes this route.
    pub fn is_of<S>(&self, route: &Route<S>) -> bool {
        (&self.method, self.path) == (&route.method, route.path)
    }

    /// The operation object of the document.
    pub(super) fn describe<S>(self, route: &Route<S>, schemas: &mut Schemas) -> Value {
        let mut object = self.head.clone();
        let security = self.optional.map_or_else(|| security(route), |scheme| json!([{}, { scheme: [] }]));
        object.insert("security".to_owned(), security);
        if !self.parameters.is_empty() {
            object.insert("parameters".to_owned(), json!(self.parameters));
        }
        if let Some(Body { kind, schema, example, required }) = &self.body {
            let content = json!({ *kind: { "schema": schema(schemas), "example": example } });
            object.insert("requestBody".to_owned(), json!({ "required": required, "content": content }));
        }
        let mut responses: BTreeMap<String, Value> = BTreeMap::new();
        for (status, codes) in self.refusals(route) {
            let passing = match self.passing {
                Passing::Nothing => false,
                Passing::These(statuses) => statuses.contains(&status),
                Passing::Everything => true,
            };
            let knowledge = route.is_knowledge();
            let response = || refusals::response(&codes, knowledge, passing);
            // Derived responses are the same for all operations, so they are shared.
            let own = passing || codes.iter().any(|code| self.codes.contains(code));
            let response = if own { response() } else { schemas.respond(refusals::name(&codes, knowledge), response) };
            responses.insert(status.to_string(), response);
        }
        if let Passing::These(statuses) = self.passing {
            for status in statuses {
                responses.entry(status.to_string()).or_insert_with(|| refusals::passed_on(*status));
            }
        }
        for Known { status, schema, examples } in self.known {
            let schema = json!({ "anyOf": [schema(schemas), schemas.add::<Anything>()] });
            let media = json!({ "schema": schema, "examples": examples });
            responses.entry(status.to_string()).or_default()["content"]["application/json"] = media;
        }
        if self.passing == Passing::Everything {
            let what = "Any other response of the statistics service: status, Content-Type and body unchanged.";
            responses.insert("default".to_owned(), json!({ "description": what, "content": { "*/*": {} } }));
        }
        for ResponseDoc { status, what, content } in self.answers {
            let mut response = json!({ "description": what });
            if let Some(Content { kind, schema, example, headers }) = content {
                let schema = schema(schemas);
                let passing = self.passing == Passing::Everything
                    && kind == "application/json"
                    && schema != schemas.add::<Anything>();
                let mut media = json!({ "schema": if passing { json!({ "anyOf": [schema, schemas.add::<Anything>()] }) } else { schema } });
                if !example.is_null() {
                    media["example"] = example;
                }
                response["content"] = json!({ kind: media });
                if !headers.is_null() {
                    response["headers"] = headers;
                }
            }
            if self.passing == Passing::Everything {
                response["content"]["*/*"] = json!({});
            }
            let Some(known) = responses.get_mut(&status.to_string()).filter(|_| status < 300) else {
                responses.insert(status.to_string(), response);
                continue;
            };
            // Another media type of the same response.
            for (kind, media) in response.get("content").and_then(Value::as_object).into_iter().flatten() {
                known["content"][kind.as_str()] = media.clone();
            }
        }
        object.insert("responses".to_owned(), json!(responses));
        Value::Object(object)
    }

    /// Its codes by status: the listed codes, and the codes derived from the route.
    fn refusals<S>(&self, route: &Route<S>) -> BTreeMap<u16, Vec<Code>> {
        let (asks, knowledge) = (route.accepts != Accepts::NONE, route.is_knowledge());
        let changes = self.method != Method::GET;
        let follow = [
            (asks, Code::Unauthorized),
            (asks && !knowledge, Code::MachineUnknown),
            (changes && route.accepts.includes(Accepts::SESSION), Code::CrossSiteRequest),
            (knowledge || route.accepts.needs_right(), Code::InsufficientScope),
            (self.path.contains('{'), Code::NotFound),
            (self.body.is_some(), Code::PayloadTooLarge),
            (true, Code::UnsupportedContentEncoding),
            (knowledge && self.body.is_some(), Code::InvalidJson),
            (knowledge && self.body.is_some(), Code::InvalidRequest),
            (knowledge && self.body.is_some(), Code::UnsupportedMediaType),
            (true, Code::TemporarilyUnavailable),
        ];
        let mut refusals: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
        let follow = follow.into_iter().filter(|(does, _)| *does).map(|(_, code)| code);
        for code in self.codes.iter().copied().chain(follow) {
            let codes = refusals.entry(refusals::status(code, knowledge)).or_default();
            if !codes.contains(&code) {
                codes.push(code);
            }
        }
        refusals
    }
}

/// The parameters of a path, such as `{id}`. They are plain strings: an invalid id is refused like an unknown one.
fn path_parameters(path: &str) -> Vec<Value> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let names = names.map(|name| name.trim_start_matches('*'));
    let object = |name: &str| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } });
    names.map(object).collect()
}
