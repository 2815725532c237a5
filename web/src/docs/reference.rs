//! The content of the page, read from the description once.

use serde_json::{Value, json};

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
    /// Its id, which is also its place on the page.
    pub id: String,
    /// Summary in a few words.
    pub summary: String,
    /// Description, beyond the summary.
    pub description: Vec<Part>,
    /// The credentials that it takes.
    pub credentials: Vec<String>,
    /// Whether it takes none as well.
    pub takes_none: bool,
    /// Parameters of the path, the query and the head.
    pub parameters: Vec<Member>,
    /// Members of the body.
    pub members: Vec<Member>,
    /// An example of the body.
    pub body: Option<String>,
    /// Successful responses, by status.
    pub successes: Vec<Success>,
    /// Error responses, by status.
    pub refusals: Vec<DocumentedError>,
}

/// A part of a text: plain, or code.
#[derive(Debug, Clone)]
pub struct Part {
    /// Whether it is code.
    pub code: bool,
    /// Text without backticks.
    pub text: String,
}

/// A parameter, or a member of a body.
#[derive(Debug, Clone)]
pub struct Member {
    /// Name of the parameter or member.
    pub name: String,
    /// Type, in a few words.
    pub kind: String,
    /// Whether it has to.
    pub required: bool,
    /// Description, with code marked.
    pub what: Vec<Part>,
}

/// A successful response of an operation.
#[derive(Debug)]
pub struct Success {
    /// HTTP status code.
    pub status: String,
    /// Description of the response.
    pub what: Vec<Part>,
    /// An example of the body.
    pub example: Option<String>,
}

/// An error response of an operation.
#[derive(Debug)]
pub struct DocumentedError {
    /// HTTP status code.
    pub status: String,
    /// The codes, or what else there is to say.
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

struct Reader<'d>(&'d Value);

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
        DocumentedOperation {
            method: method.to_uppercase(),
            path: path.to_owned(),
            id: text(&operation["operationId"]),
            summary: text(&operation["summary"]),
            description: parts(&text(&operation["description"])),
            takes_none: operation["security"].as_array().is_none_or(|all| all.is_empty() || all.contains(&json!({}))),
            credentials: schemes.filter_map(Value::as_object).flat_map(|scheme| scheme.keys().cloned()).collect(),
            parameters: operation["parameters"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|one| self.parameter(one))
                .collect(),
            members: content.map_or_else(Vec::new, |(_, media)| self.members(&media["schema"])),
            body: content.and_then(|(kind, media)| example(kind, media)),
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
                successes.push(Success { status: status.clone(), what: parts(&what), example });
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
            name: text(&parameter["name"]),
            kind: self.kind(&parameter["schema"]),
            required: parameter["required"] == true,
            what: parts(&what),
        }
    }

    /// The members of an object; of one that has several forms, those of all of them.
    fn members(&self, schema: &Value) -> Vec<Member> {
        let schema = self.resolved(schema);
        let listed = |word: &str| schema[word].as_array().into_iter().flatten().map(|one| self.members(one));
        let mut members: Vec<Member> = listed("allOf").flatten().collect();
        let forms: Vec<Vec<Member>> = listed("oneOf").collect();
        let in_all = |name: &str| forms.iter().all(|form| form.iter().any(|one| one.required && one.name == name));
        for mut member in forms.iter().flatten().cloned() {
            member.required = in_all(&member.name);
            match members.iter_mut().find(|known| known.name == member.name) {
                Some(known) if known.kind.contains(&member.kind) => {}
                Some(known) => known.kind = format!("{} or {}", known.kind, member.kind),
                None => members.push(member),
            }
        }
        for (name, member) in schema["properties"].as_object().into_iter().flatten() {
            let required = schema["required"].as_array().is_some_and(|names| names.iter().any(|one| one == name));
            let what = member.get("description").or_else(|| self.resolved(member).get("description"));
            let what = parts(&what.map(text).unwrap_or_default());
            members.push(Member { name: name.clone(), kind: self.kind(member), required, what });
        }
        // What has to be there comes first.
        members.sort_by_key(|member| !member.required);
        members
    }

    /// The type of a schema, in a few words.
    fn kind(&self, schema: &Value) -> String {
        if let Some(choices) = schema["oneOf"].as_array() {
            return choices.iter().map(|choice| self.kind(choice)).collect::<Vec<_>>().join(" or ");
        }
        let resolved = self.resolved(schema);
        if let Some(words) = resolved["enum"].as_array() {
            let plain = |word: &Value| word.as_str().map_or_else(|| word.to_string(), str::to_owned);
            return words.iter().map(plain).collect::<Vec<_>>().join(" · ");
        }
        if let Some(name) = schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next()) {
            return name.to_owned();
        }
        let types = match &resolved["type"] {
            Value::Array(types) => types.iter().map(text).collect(),
            Value::String(only) => vec![only.clone()],
            _ => vec!["anything".to_owned()],
        };
        let told = |kind: &String| match kind.as_str() {
            "array" => format!("list of {}", self.kind(&resolved["items"])),
            other => other.to_owned(),
        };
        types.iter().map(told).collect::<Vec<_>>().join(" or ")
    }

    fn resolved<'v>(&'v self, value: &'v Value) -> &'v Value {
        let pointer = value["$ref"].as_str().map(|reference| reference.trim_start_matches('#'));
        pointer.and_then(|pointer| self.0.pointer(pointer)).unwrap_or(value)
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Text and, between backticks, code.
fn parts(text: &str) -> Vec<Part> {
    let pieces = text.split('`').enumerate().filter(|(_, piece)| !piece.is_empty());
    pieces.map(|(place, piece)| Part { code: place % 2 == 1, text: piece.to_owned() }).collect()
}

/// An example as it would be sent.
fn example(kind: &str, media: &Value) -> Option<String> {
    let example = media.get("example")?;
    if kind == "application/x-www-form-urlencoded" {
        return serde_urlencoded::to_string(example.as_object()?.iter().collect::<Vec<_>>()).ok();
    }
    Some(format!("{example:#}"))
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn members_of_all_forms_are_listed_and_only_common_ones_are_required() {
        let schema = json!({ "oneOf": [
            { "properties": { "type": { "enum": ["a"] }, "x": { "type": ["string", "null"] } }, "required": ["type", "x"] },
            { "properties": { "type": { "enum": ["b"] }, "y": { "$ref": "#/here" } }, "required": ["type"] },
        ] });
        let document = json!({ "here": { "type": "array", "items": { "type": "integer" } } });
        let told: Vec<(String, String, bool)> =
            Reader(&document).members(&schema).into_iter().map(|one| (one.name, one.kind, one.required)).collect();
        let wanted = [("type", "a or b", true), ("x", "string or null", false), ("y", "here", false)];
        assert_eq!(told, wanted.map(|(name, kind, required)| (name.to_owned(), kind.to_owned(), required)));
    }

    #[test]
    fn text_between_backticks_is_code() {
        let told: Vec<(bool, String)> = parts("`a` is not b").into_iter().map(|part| (part.code, part.text)).collect();
        assert_eq!(told, [(true, "a".to_owned()), (false, " is not b".to_owned())]);
    }
}
