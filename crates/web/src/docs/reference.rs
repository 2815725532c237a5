//! The content of the page, read from the description once.

use serde_json::{Value, json};

use super::samples::{AnswerKind, Call, CodeSample, Credential};
use super::schema::{Member, Part, Reader, parts, text};

/// The reference of all operations.
#[derive(Debug)]
pub struct Reference {
    /// Operations, in the order of the page.
    pub groups: Vec<OperationGroup>,
}

/// Operations that belong together.
#[derive(Debug)]
pub struct OperationGroup {
    /// Name of the group, a tag of the description.
    pub name: String,
    /// Purpose of the operations.
    pub what: String,
    /// The operations of the group.
    pub operations: Vec<DocumentedOperation>,
}

/// One operation of the API.
#[derive(Debug)]
pub struct DocumentedOperation {
    /// HTTP method, in capitals.
    pub method: String,
    /// Path with its parameters.
    pub path: String,
    /// Its id, which is also its fragment on the page.
    pub id: String,
    /// Summary in a few words.
    pub summary: String,
    /// Description, beyond the summary.
    pub description: Vec<Part>,
    /// The accepted credentials.
    pub credentials: Vec<String>,
    /// Whether a credential is optional.
    pub takes_none: bool,
    /// Parameters of the path, the query and the head.
    pub parameters: Vec<Member>,
    /// Members of the body.
    pub members: Vec<Member>,
    /// The request in several languages.
    pub samples: Vec<CodeSample>,
    /// Successful responses, by status.
    pub successes: Vec<Success>,
    /// Error responses, by status.
    pub refusals: Vec<DocumentedError>,
}

/// A successful response of an operation.
#[derive(Debug)]
pub struct Success {
    /// HTTP status code.
    pub status: String,
    /// Description of the response.
    pub what: Vec<Part>,
    /// Members of the body.
    pub members: Vec<Member>,
    /// An example of the body.
    pub example: Option<String>,
}

/// An error response of an operation.
#[derive(Debug)]
pub struct DocumentedError {
    /// HTTP status code.
    pub status: String,
    /// The codes, or a description.
    pub what: Vec<Part>,
}

impl Reference {
    /// Reads the description; `order` has the ids of operations in the order in which they are shown.
    pub fn new(document: &Value, order: &[String]) -> Self {
        let reader = Reader(document);
        let mut groups: Vec<OperationGroup> = reader.groups();
        for (path, item) in document["paths"].as_object().into_iter().flatten() {
            for (method, operation) in item.as_object().into_iter().flatten().filter(|(name, _)| *name != "servers") {
                let tag = &operation["tags"][0];
                if let Some(group) = groups.iter_mut().find(|group| *tag == group.name.as_str()) {
                    group.operations.push(reader.operation(method, path, operation));
                }
            }
        }
        for group in &mut groups {
            group.operations.sort_by_key(|operation| order.iter().position(|id| *id == operation.id));
        }
        Self { groups }
    }
}

static NULL: Value = Value::Null;

impl Reader<'_> {
    fn groups(&self) -> Vec<OperationGroup> {
        let tags = self.0["tags"].as_array().into_iter().flatten();
        tags.map(|tag| OperationGroup {
            name: text(&tag["name"]),
            what: text(&tag["description"]),
            operations: Vec::new(),
        })
        .collect()
    }

    fn operation(&self, method: &str, path: &str, operation: &Value) -> DocumentedOperation {
        let content = operation["requestBody"]["content"].as_object().and_then(|content| content.iter().next());
        let (successes, refusals) = self.answers(operation);
        let schemes = operation["security"].as_array().into_iter().flatten();
        let credentials: Vec<String> =
            schemes.filter_map(Value::as_object).flat_map(|scheme| scheme.keys().cloned()).collect();
        let takes_none = operation["security"].as_array().is_none_or(|all| all.is_empty() || all.contains(&json!({})));
        let parameters: Vec<&Value> = operation["parameters"].as_array().into_iter().flatten().collect();
        let call = Call {
            method: &method.to_uppercase(),
            url: &self.url(path, &parameters),
            credential: credentials.first().filter(|_| !takes_none).map(|scheme| self.credential(scheme)),
            body: content.map(|(kind, media)| (kind.as_str(), media.get("example").unwrap_or(&NULL))),
            answer: self.answer_kind(operation),
        };
        DocumentedOperation {
            samples: call.samples(),
            method: method.to_uppercase(),
            path: path.to_owned(),
            id: text(&operation["operationId"]),
            summary: text(&operation["summary"]),
            description: parts(&text(&operation["description"])),
            takes_none,
            credentials,
            parameters: parameters.into_iter().map(|one| self.parameter(one)).collect(),
            members: content.map_or_else(Vec::new, |(_, media)| self.expanded(&media["schema"])),
            successes,
            refusals,
        }
    }

    fn answers(&self, operation: &Value) -> (Vec<Success>, Vec<DocumentedError>) {
        let (mut successes, mut refusals) = (Vec::new(), Vec::new());
        for (status, response) in operation["responses"].as_object().into_iter().flatten() {
            let response = self.resolved(response);
            let what = text(&response["description"]);
            if status.starts_with(['2', '3']) {
                let content = response["content"].as_object();
                let example = content.and_then(|content| content.iter().find_map(|(kind, media)| example(kind, media)));
                let media = content.and_then(|content| content.values().find(|media| media.get("schema").is_some()));
                let members = media.map_or_else(Vec::new, |media| self.expanded(&media["schema"]));
                successes.push(Success { status: status.clone(), what: parts(&what), members, example });
            } else {
                let codes = response["content"]["application/json"]["examples"].as_object();
                let what = codes
                    .map_or(what, |codes| codes.keys().map(|code| format!("`{code}`")).collect::<Vec<_>>().join(", "));
                refusals.push(DocumentedError { status: status.clone(), what: parts(&what) });
            }
        }
        (successes, refusals)
    }

    fn parameter(&self, parameter: &Value) -> Member {
        let place = text(&parameter["in"]);
        let what = text(&parameter["description"]);
        let what = if what.is_empty() { format!("In the {place}.") } else { format!("{what} In the {place}.") };
        Member {
            outer: String::new(),
            name: text(&parameter["name"]),
            kind: self.kind(&parameter["schema"]),
            limits: parts(&self.limits(&parameter["schema"])),
            required: parameter["required"] == true,
            what: parts(&what),
        }
    }

    /// The URL of a call; placeholders are in capitals.
    fn url(&self, path: &str, parameters: &[&Value]) -> String {
        let servers = [&self.0["paths"][path]["servers"][0], &self.0["servers"][0]];
        let base = servers.into_iter().find_map(|server| server["url"].as_str()).unwrap_or_default();
        let value = |parameter: &Value| {
            let example =
                [&parameter["example"], &parameter["schema"]["example"]].into_iter().find(|value| !value.is_null());
            match example {
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
                None => text(&parameter["name"]).to_uppercase(),
            }
        };
        let mut url = format!("{base}{path}");
        let mut query = Vec::new();
        for parameter in parameters {
            let (name, place) = (text(&parameter["name"]), &parameter["in"]);
            if *place == "path" {
                url = url.replace(&format!("{{{name}}}"), &value(parameter));
            } else if *place == "query" && parameter["required"] == true {
                query.push(format!("{name}={}", value(parameter)));
            }
        }
        if query.is_empty() { url } else { format!("{url}?{}", query.join("&")) }
    }

    fn credential(&self, scheme: &str) -> Credential {
        let described = &self.0["components"]["securitySchemes"][scheme];
        let variable = match scheme {
            "machineBearer" => "MACHINE_SECRET",
            "apiKey" => "API_KEY",
            "enrolmentKey" => "ENROLMENT_KEY",
            "sessionCookie" => "SESSION",
            _ => "ACCESS_TOKEN",
        };
        match described["name"].as_str() {
            Some(cookie) if described["in"] == "cookie" => {
                let origin = text(&self.0["servers"][0]["url"]);
                Credential::Cookie { name: cookie.to_owned(), variable, origin }
            }
            _ => Credential::Bearer { variable },
        }
    }

    /// How a successful response is read.
    fn answer_kind(&self, operation: &Value) -> AnswerKind {
        let responses = operation["responses"].as_object().into_iter().flatten();
        let good = responses.filter(|(status, _)| status.starts_with('2')).map(|(_, response)| self.resolved(response));
        let kinds: Vec<&String> =
            good.filter_map(|response| response["content"].as_object()).flat_map(|all| all.keys()).collect();
        let has = |kind: &str| kinds.iter().any(|one| one.starts_with(kind));
        if has("text/event-stream") || has("application/x-ndjson") {
            AnswerKind::Stream
        } else if kinds.is_empty() {
            AnswerKind::Empty
        } else if has("application/json") || has("application/jwk") {
            AnswerKind::Json
        } else {
            AnswerKind::Text
        }
    }
}

/// An example in its encoded form.
fn example(kind: &str, media: &Value) -> Option<String> {
    let example = media.get("example")?;
    if kind == "application/x-www-form-urlencoded" {
        return serde_urlencoded::to_string(example.as_object()?.iter().collect::<Vec<_>>()).ok();
    }
    Some(format!("{example:#}"))
}
