//! The members of a body, read from its schema.

use serde_json::{Value, json};

/// A part of a text: plain, or code.
#[derive(Debug, Clone)]
pub struct Part {
    /// Whether it is code.
    pub code: bool,
    /// Text without backticks.
    pub text: String,
}

/// A parameter, or a member of a body. Members of an object inside the body follow the member that has them.
#[derive(Debug, Clone)]
pub struct Member {
    /// Path of the object that has the member, with a dot at the end; empty for members of the body itself.
    pub outer: String,
    /// Name of the parameter or member.
    pub name: String,
    /// Type, in a few words.
    pub kind: String,
    /// Bounds and form of the value, with code marked.
    pub limits: Vec<Part>,
    /// Whether it is required.
    pub required: bool,
    /// Description, with code marked.
    pub what: Vec<Part>,
}

/// A member with its schemas: several, if its object has several forms.
#[derive(Debug, Clone)]
struct Found<'v> {
    member: Member,
    schemas: Vec<&'v Value>,
}

/// 2^53 − 1: a bound that every JSON integer has.
const INTEGER_MAX: i64 = 9_007_199_254_740_991;

/// Reads the description.
pub(super) struct Reader<'d>(pub &'d Value);

impl Reader<'_> {
    /// The members of an object, and of the objects inside it.
    pub fn expanded(&self, schema: &Value) -> Vec<Member> {
        let mut all = Vec::new();
        self.expand(schema, "", &mut Vec::new(), &mut all);
        all
    }

    /// Adds the members of an object to `all`; `inside` has the schemas around it, since a type may contain itself.
    fn expand<'v>(&'v self, schema: &'v Value, outer: &str, inside: &mut Vec<&'v Value>, all: &mut Vec<Member>) {
        for Found { mut member, schemas } in self.members(schema) {
            outer.clone_into(&mut member.outer);
            let path = format!("{outer}{}", member.name);
            all.push(member);
            for (suffix, object) in schemas.into_iter().flat_map(|schema| self.objects(schema)) {
                if !inside.iter().any(|around| std::ptr::eq(*around, object)) {
                    inside.push(object);
                    self.expand(object, &format!("{path}{suffix}."), inside, all);
                    inside.pop();
                }
            }
        }
    }

    /// The objects with members that a value may be: itself, one of its forms, or the items of a list.
    fn objects<'v>(&'v self, schema: &'v Value) -> Vec<(&'static str, &'v Value)> {
        let schema = self.resolved(schema);
        if schema.get("items").is_some() {
            return self.objects(&schema["items"]).into_iter().map(|(_, object)| ("[]", object)).collect();
        }
        if schema.get("properties").is_some() {
            return vec![("", schema)];
        }
        let forms = ["oneOf", "anyOf", "allOf"].into_iter().filter_map(|word| schema[word].as_array()).flatten();
        forms.flat_map(|form| self.objects(form)).collect()
    }

    /// The members of an object; of an object with several forms, the members of all forms.
    fn members<'v>(&'v self, schema: &'v Value) -> Vec<Found<'v>> {
        let schema = self.resolved(schema);
        let listed = |word: &str| schema[word].as_array().into_iter().flatten().map(|one| self.members(one));
        let mut members: Vec<Found<'v>> = listed("allOf").flatten().collect();
        let forms: Vec<Vec<Found<'v>>> = listed("oneOf").collect();
        let in_all = |name: &str| {
            forms.iter().all(|form| form.iter().any(|Found { member, .. }| member.required && member.name == name))
        };
        for mut found in forms.iter().flatten().cloned() {
            found.member.required = in_all(&found.member.name);
            match members.iter_mut().find(|known| known.member.name == found.member.name) {
                Some(known) => {
                    if !known.member.kind.contains(&found.member.kind) {
                        known.member.kind = format!("{} or {}", known.member.kind, found.member.kind);
                    }
                    for schema in found.schemas {
                        if !known.schemas.iter().any(|one| std::ptr::eq(*one, schema)) {
                            known.schemas.push(schema);
                        }
                    }
                }
                None => members.push(found),
            }
        }
        for (name, member) in schema["properties"].as_object().into_iter().flatten() {
            let required = schema["required"].as_array().is_some_and(|names| names.iter().any(|one| one == name));
            let what = member.get("description").or_else(|| self.described(member));
            let member = Found {
                member: Member {
                    outer: String::new(),
                    name: name.clone(),
                    kind: self.kind(member),
                    limits: parts(&self.limits(member)),
                    required,
                    what: parts(&what.map(text).unwrap_or_default()),
                },
                schemas: vec![member],
            };
            members.push(member);
        }
        // Required members come first.
        members.sort_by_key(|found| !found.member.required);
        members
    }

    /// The description of a named type, also if it is one of two forms.
    fn described<'v>(&'v self, schema: &'v Value) -> Option<&'v Value> {
        let named = || self.resolved(schema).get("description");
        let form = || {
            schema["oneOf"].as_array()?.iter().find_map(|form| form.get("description").or_else(|| self.described(form)))
        };
        named().or_else(form)
    }

    /// Bounds and form of a value, in a few words with code between backticks; empty if there are none.
    pub fn limits(&self, schema: &Value) -> String {
        let schema = self.resolved(schema);
        if let Some(forms) = schema["oneOf"].as_array() {
            let mut each: Vec<String> =
                forms.iter().map(|form| self.limits(form)).filter(|words| !words.is_empty()).collect();
            each.dedup();
            return each.join(" or ");
        }
        let mut words = Vec::new();
        let is_bound = |value: &Value| value.as_i64().is_none_or(|number| number.abs() < INTEGER_MAX);
        let number = |name: &str| schema.get(name).filter(|value| value.is_number() && is_bound(value));
        for (least, most, unit) in
            [("minLength", "maxLength", " character"), ("minimum", "maximum", ""), ("minItems", "maxItems", " item")]
        {
            let counted = |number: &Value| {
                let plural = if unit.is_empty() || *number == json!(1) { "" } else { "s" };
                format!("{number}{unit}{plural}")
            };
            match (number(least), number(most)) {
                (Some(least), Some(most)) if least == most => words.push(format!("exactly {}", counted(most))),
                (Some(least), Some(most)) => words.push(format!("{least} to {}", counted(most))),
                (Some(least), None) if *least != json!(0) || unit.is_empty() => {
                    words.push(format!("at least {}", counted(least)));
                }
                (None, Some(most)) => words.push(format!("at most {}", counted(most))),
                _ => {}
            }
        }
        match schema["format"].as_str() {
            Some("uuid") => words.push("UUID".into()),
            Some("uri") => words.push("URL".into()),
            Some("date-time") => words.push("RFC 3339".into()),
            Some("email") => words.push("e-mail address".into()),
            _ => {}
        }
        // The name of a format is clearer than its pattern.
        if let Some(pattern) = schema["pattern"].as_str().filter(|_| schema["format"].is_null()) {
            words.push(format!("`{pattern}`"));
        }
        if let Some(default) = schema.get("default").filter(|value| !value.is_null()) {
            words.push(format!("default `{default}`"));
        }
        if words.is_empty() && schema.get("items").is_some() {
            return self.limits(&schema["items"]);
        }
        words.join(", ")
    }

    /// The type of a schema, in a few words.
    pub fn kind(&self, schema: &Value) -> String {
        if let Some(choices) = schema["oneOf"].as_array() {
            return choices.iter().map(|choice| self.kind(choice)).collect::<Vec<_>>().join(" or ");
        }
        let resolved = self.resolved(schema);
        if let Some(words) = resolved["enum"].as_array() {
            let plain = |word: &Value| word.as_str().map_or_else(|| word.to_string(), str::to_owned);
            return words.iter().map(plain).collect::<Vec<_>>().join(" · ");
        }
        if let Some(name) = schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next()) {
            let is_object = resolved.get("items").is_none() && !self.objects(resolved).is_empty();
            return if is_object { name.to_owned() } else { self.kind(resolved) };
        }
        if let Some(only) = resolved.get("const") {
            return only.as_str().map_or_else(|| only.to_string(), str::to_owned);
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

    pub fn resolved<'v>(&'v self, value: &'v Value) -> &'v Value {
        let pointer = value["$ref"].as_str().map(|reference| reference.trim_start_matches('#'));
        pointer.and_then(|pointer| self.0.pointer(pointer)).unwrap_or(value)
    }
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Text and, between backticks, code.
pub(super) fn parts(text: &str) -> Vec<Part> {
    let pieces = text.split('`').enumerate().filter(|(_, piece)| !piece.is_empty());
    pieces.map(|(place, piece)| Part { code: place % 2 == 1, text: piece.to_owned() }).collect()
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
        let rows: Vec<(String, String, bool)> =
            Reader(&document).expanded(&schema).into_iter().map(|one| (one.name, one.kind, one.required)).collect();
        let wanted = [("type", "a or b", true), ("x", "string or null", false), ("y", "list of integer", false)];
        assert_eq!(rows, wanted.map(|(name, kind, required)| (name.to_owned(), kind.to_owned(), required)));
    }

    #[test]
    fn objects_inside_a_body_are_listed_with_the_limits_of_their_members() {
        let document = json!({ "Chain": {
            "properties": {
                "self": { "type": "string", "minLength": 64, "maxLength": 64, "description": "Seal." },
                "next": { "oneOf": [{ "$ref": "#/Chain" }, { "type": "null" }] },
            },
            "required": ["self"],
        } });
        let schema = json!({ "properties": {
            "chain": { "$ref": "#/Chain" },
            "notes": { "type": ["array", "null"], "maxItems": 20, "items": {
                "type": "object", "properties": { "text": { "type": "string", "pattern": "^a$", "default": "a" } },
            } },
        } });
        let reader = Reader(&document);
        let plain = |parts: Vec<Part>| parts.into_iter().map(|part| part.text).collect::<String>();
        let rows: Vec<(String, String, String)> = reader
            .expanded(&schema)
            .into_iter()
            .map(|one| (format!("{}{}", one.outer, one.name), one.kind, plain(one.limits)))
            .collect();
        let wanted = [
            ("chain", "Chain", ""),
            ("chain.self", "string", "exactly 64 characters"),
            // A type that contains itself is listed once.
            ("chain.next", "Chain or null", ""),
            ("notes", "list of object or null", "at most 20 items"),
            ("notes[].text", "string", "^a$, default \"a\""),
        ];
        assert_eq!(rows, wanted.map(|(name, kind, limits)| (name.to_owned(), kind.to_owned(), limits.to_owned())));
    }

    #[test]
    fn text_between_backticks_is_code() {
        let pieces: Vec<(bool, String)> =
            parts("`a` is not b").into_iter().map(|part| (part.code, part.text)).collect();
        assert_eq!(pieces, [(true, "a".to_owned()), (false, " is not b".to_owned())]);
    }
}
