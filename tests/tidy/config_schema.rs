//! `docs/config.schema.json` describes `config.toml` for editors. It is derived, so that each setting is described once: names, types and
//! defaults come from the typed settings, descriptions from the comments of `config.toml`, and enumerations from the reader's own refusals.
//!
//! `make schema` writes it again.

use std::collections::BTreeMap;

use app::config::live::is_reloaded;
use app::config::reading::{read, schema};
use serde_json::{Map, Value, json};

use crate::{root, text};

const FILE: &str = "docs/config.schema.json";
/// Set by `make schema`: the test writes the file instead of comparing it.
const WRITE: &str = "ATTACHE_WRITE_SCHEMA";

/// The comments of `config.toml` by section or setting, and the examples of settings without a default.
struct Prose {
    comments: BTreeMap<String, String>,
    examples: BTreeMap<String, Value>,
}

impl Prose {
    fn read(file: &str) -> Self {
        let mut prose = Self { comments: BTreeMap::new(), examples: BTreeMap::new() };
        let (mut section, mut comment) = (String::new(), Vec::new());
        for line in file.lines() {
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                name.clone_into(&mut section);
                prose.comments.insert(section.clone(), std::mem::take(&mut comment).join(" "));
            } else if let Some((assignment, _)) = line.rsplit_once(" # ATTACHE_") {
                let (key, value) = assignment.trim_start_matches("# ").split_once(" = ").unwrap();
                let path = format!("{section}.{key}");
                prose.comments.insert(path.clone(), std::mem::take(&mut comment).join(" "));
                if line.starts_with('#') {
                    let example: toml::Table = toml::from_str(&format!("value = {value}")).unwrap();
                    prose.examples.insert(path, serde_json::to_value(&example["value"]).unwrap());
                }
            } else if let Some(part) = line.strip_prefix("# ") {
                comment.push(part.to_owned());
            } else {
                comment.clear();
            }
        }
        prose
    }

    fn of(&self, path: &str) -> Option<&String> {
        // A kind of actor inherits the settings of [actors], and their descriptions.
        let inherited = || {
            let mut parts = path.splitn(3, '.');
            let (first, _, key) = (parts.next()?, parts.next()?, parts.next()?);
            self.comments.get(&format!("{first}.{key}"))
        };
        self.comments.get(path).filter(|comment| !comment.is_empty()).or_else(inherited)
    }
}

/// The refusal of a value, as the reader reports it.
fn refusal(path: &str, value: &str) -> Option<String> {
    let problems = read("config.toml", &format!("{path} = {value}"), std::iter::empty()).err()?;
    problems.0.into_iter().next().map(|problem| problem.reason)
}

/// The values of an enumeration: the reader names them when it refuses another one.
fn variants(path: &str) -> Option<Vec<Value>> {
    let reason = refusal(path, "\"?\"")?;
    let list = reason.split("expected ").nth(1).filter(|_| reason.contains("unknown variant"))?;
    Some(list.split('`').skip(1).step_by(2).map(|name| json!(name)).collect())
}

/// Whether a text setting holds a duration: the reader accepts `1s` there, and no other word.
fn is_duration(path: &str) -> bool {
    let is_read = |value: &str| refusal(path, value).is_none_or(|reason| !reason.contains("expected a duration"));
    is_read("\"1s\"") && !is_read("\"?\"")
}

fn described(value: &Value, path: &str, prose: &Prose) -> Value {
    let mut schema = match value {
        Value::Object(members) => {
            let inner = |(key, value): (&String, &Value)| {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                (key.clone(), described(value, &path, prose))
            };
            let properties: Map<String, Value> = members.iter().map(inner).collect();
            json!({ "type": "object", "additionalProperties": false, "properties": properties })
        }
        Value::Null => {
            let example = prose.examples.get(path).unwrap_or_else(|| panic!("{path} has no example in config.toml"));
            json!({ "type": kind(example), "examples": [example] })
        }
        Value::String(_) => match variants(path) {
            Some(names) => json!({ "enum": names, "default": value }),
            None if is_duration(path) => {
                json!({ "type": "string", "pattern": "^\\s*(\\d+\\s*[a-zA-Zµ]+\\s*)+$|^0$", "default": value })
            }
            None => json!({ "type": "string", "default": value }),
        },
        other => json!({ "type": kind(other), "default": other }),
    };
    if let Some(comment) = prose.of(path) {
        schema["description"] = json!(comment);
    }
    if schema["type"] != "object" || value.is_null() {
        schema["x-live"] = json!(is_reloaded(path));
    }
    schema
}

/// The JSON type; a number without a fraction stays an integer.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) | Value::Null => "object",
    }
}

fn generated() -> Value {
    let mut whole = described(&schema(), "", &Prose::read(&text("config.toml")));
    whole["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    whole["title"] = json!("Configuration of attache");
    whole["$comment"] =
        json!("Derived from config.toml and the settings by tests/tidy/config_schema.rs; `make schema` writes it.");
    whole
}

#[test]
fn the_schema_of_the_configuration_is_up_to_date() {
    let expected = format!("{:#}\n", generated());
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(root().join(FILE), &expected).unwrap();
    }
    assert!(text(FILE) == expected, "{FILE} differs from config.toml and the settings: run `make schema`");
}

#[test]
fn the_configuration_file_satisfies_its_schema_and_mistakes_do_not() {
    let schema: Value = serde_json::from_str(&text(FILE)).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let judge = |text: &str| -> Vec<String> {
        let value: Value = toml::from_str(text).unwrap();
        validator.iter_errors(&value).map(|error| error.to_string()).collect()
    };
    assert_eq!(judge(&text("config.toml")), Vec::<String>::new());
    for mistake in [
        "[http]\nbnd = \"127.0.0.1:1\"",
        "[events]\nworkers = \"many\"",
        "[telemetry]\nformat = \"xml\"",
        "[http]\nhead_deadline = \"soon\"",
        "[actors.intake]\nqueue_max = 1.5",
    ] {
        assert!(!judge(mistake).is_empty(), "{mistake}");
    }
}

#[test]
fn every_setting_has_a_description() {
    fn walk(schema: &Value, path: &str, missing: &mut Vec<String>) {
        for (key, inner) in schema["properties"].as_object().into_iter().flatten() {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            if inner.get("properties").is_none() && inner.get("description").is_none() {
                missing.push(path.clone());
            }
            walk(inner, &path, missing);
        }
    }
    let mut missing = Vec::new();
    walk(&generated(), "", &mut missing);
    assert!(missing.is_empty(), "without a comment in config.toml: {}", missing.join(", "));
}
