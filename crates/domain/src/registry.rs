//! The event registry: event types with their lane, payload schema and summary (`docs/decisions/0006-events-and-chains.md`).

mod summary;
mod template;
mod value;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::consent::ConsentLevel;
use crate::envelope::Envelope;
use crate::lane::Lane;

pub use self::summary::{NoNames, Summary, SummaryNames, Tone};
use self::summary::{Summaries, SummaryEntry};

/// Text of the built-in registry, in TOML.
pub const DEFAULT: &str = include_str!("registry/default.toml");

/// The lane of a built-in type, without compiling any schema; `None` if there is none of this name.
pub fn built_in_lane(event_type: &str) -> Result<Option<Lane>, RegistryError> {
    let RegistryFile { events, .. } = toml::from_str(DEFAULT)?;
    Ok(events.into_iter().find(|entry| entry.event_type == event_type).map(|entry| entry.lane))
}

/// The accepted event types, with compiled payload schemas.
pub struct Registry {
    types: BTreeMap<String, EventType>,
}

struct EventType {
    lane: Lane,
    content_fields: Vec<String>,
    payload_schema: Value,
    validator: jsonschema::Validator,
    summaries: Summaries,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RegistryFile {
    #[serde(default)]
    mode: RegistryMode,
    #[serde(default, rename = "event")]
    events: Vec<RegistryEntry>,
}

/// How a file combines with the built-in types.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RegistryMode {
    /// Adds types, or replaces those with the same name.
    #[default]
    Extend,
    /// Replaces all built-in types.
    Replace,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RegistryEntry {
    event_type: String,
    lane: Lane,
    #[serde(default)]
    content_fields: Vec<String>,
    #[serde(default)]
    payload_schema: Map<String, Value>,
    summary: Option<SummaryEntry>,
}

/// A registry file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// Not TOML, or an unknown member.
    #[error("the event registry cannot be read")]
    Syntax(#[from] toml::de::Error),
    /// A payload schema that is not a JSON Schema.
    #[error("the payload schema of {event_type} is not a JSON Schema: {detail}")]
    Schema {
        /// The event type with this schema.
        event_type: String,
        /// The error of the schema compiler.
        detail: String,
    },
    /// A summary that is not a template.
    #[error("the summary of {event_type} is not a template: {detail}")]
    Summary {
        /// The event type with this summary.
        event_type: String,
        /// What is wrong, with the text.
        detail: String,
    },
    /// The registry would be empty.
    #[error("the event registry has no event types")]
    Empty,
}

/// Why an event was rejected by the registry; part of the warning to the sender.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryRefusal {
    /// The type is not registered.
    #[error("/event_type: {0:?} is not a registered event type")]
    UnknownEventType(String),
    /// The type belongs to another lane.
    #[error("/lane: {event_type} belongs to the lane {lane}")]
    LaneMismatch {
        /// The event's type.
        event_type: String,
        /// The lane of the type.
        lane: Lane,
    },
    /// The payload violates its schema, or has content that the declared level forbids.
    #[error("/payload{path}: {detail}")]
    PayloadInvalid {
        /// JSON Pointer within the payload.
        path: String,
        /// Explanation without values of the payload.
        detail: String,
    },
}

impl Registry {
    /// The built-in types only.
    pub fn built_in() -> Result<Self, RegistryError> {
        Self { types: BTreeMap::new() }.with(DEFAULT)
    }

    /// The built-in types, extended or replaced by a registry file.
    pub fn from_file(text: &str) -> Result<Self, RegistryError> {
        Self::built_in()?.with(text)
    }

    fn with(mut self, text: &str) -> Result<Self, RegistryError> {
        let file: RegistryFile = toml::from_str(text)?;
        // A type that is replaced keeps its summary, unless the file has another one.
        let mut replaced = BTreeMap::new();
        if file.mode == RegistryMode::Replace {
            replaced = std::mem::take(&mut self.types);
        }
        for RegistryEntry { event_type, lane, content_fields, payload_schema, summary } in file.events {
            let payload_schema = Value::Object(payload_schema);
            let validator = jsonschema::validator_for(&payload_schema)
                .map_err(|error| RegistryError::Schema { event_type: event_type.clone(), detail: error.to_string() })?;
            let earlier = self.types.remove(&event_type).or_else(|| replaced.remove(&event_type));
            let summaries = match summary {
                Some(summary) => summary
                    .parsed()
                    .map_err(|detail| RegistryError::Summary { event_type: event_type.clone(), detail })?,
                None => earlier.map(|earlier| earlier.summaries).unwrap_or_default(),
            };
            self.types.insert(event_type, EventType { lane, content_fields, payload_schema, validator, summaries });
        }
        if self.types.is_empty() { Err(RegistryError::Empty) } else { Ok(self) }
    }

    /// Checks type, lane and payload, in this order.
    pub fn judge(&self, envelope: &Envelope) -> Result<(), RegistryRefusal> {
        let name = &envelope.event_type;
        let Some(kind) = self.types.get(name) else {
            return Err(RegistryRefusal::UnknownEventType(name.chars().take(128).collect()));
        };
        if kind.lane != envelope.lane {
            return Err(RegistryRefusal::LaneMismatch { event_type: name.clone(), lane: kind.lane });
        }
        kind.judge_payload(envelope.consent_level, &envelope.payload)
    }

    /// The first content field that the declared level forbids; `None` also if the type is not registered.
    pub fn forbidden_content(&self, envelope: &Envelope) -> Option<&str> {
        self.types.get(&envelope.event_type)?.forbidden_content(envelope.consent_level, &envelope.payload)
    }

    /// The sentence for an event that declares `level`. `names` are the reader's names of computers and agents, [`NoNames`] without them.
    ///
    /// A member that is content appears only at the level `full`. Every value is on one line and short.
    pub fn summary(
        &self,
        event_type: &str,
        level: ConsentLevel,
        payload: &Map<String, Value>,
        names: &impl SummaryNames,
    ) -> Summary {
        let kind = self.types.get(event_type);
        let (summaries, content) = match kind {
            Some(kind) => (&kind.summaries, kind.content_fields.as_slice()),
            None => (Summaries::NONE, [].as_slice()),
        };
        summaries.of(event_type, &value::Members { payload, level, content, names })
    }

    /// Whether the level permits that a member of the payload is shown: a content field is shown at the level `full` only.
    pub fn shows(&self, event_type: &str, level: ConsentLevel, member: &str) -> bool {
        let is_content = |kind: &EventType| kind.content_fields.iter().any(|field| field == member);
        level == ConsentLevel::Full || !self.types.get(event_type).is_some_and(is_content)
    }

    /// The sentence for an event of a type with a payload that may not be shown, such as a held event's.
    pub fn title(&self, event_type: &str) -> Summary {
        self.summary(event_type, ConsentLevel::Off, &Map::new(), &NoNames)
    }

    /// The names of all types, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.types.keys().map(String::as_str)
    }

    /// The lane of a type; `None` if it is not registered.
    pub fn lane_of(&self, event_type: &str) -> Option<Lane> {
        self.types.get(event_type).map(|kind| kind.lane)
    }

    /// Body of `GET /api/v1/events/registry`: `{event_types: [{event_type, lane, content_fields, payload_schema}]}`.
    pub fn describe(&self) -> Value {
        let describe = |(name, kind): (&String, &EventType)| {
            json!({
                "event_type": name,
                "lane": kind.lane,
                "content_fields": kind.content_fields,
                "payload_schema": kind.payload_schema,
            })
        };
        json!({ "event_types": self.types.iter().map(describe).collect::<Vec<_>>() })
    }
}

impl EventType {
    fn judge_payload(&self, declared: ConsentLevel, payload: &Map<String, Value>) -> Result<(), RegistryRefusal> {
        if let Some(name) = self.forbidden_content(declared, payload) {
            let detail = format!("content, which consent_level {declared} forbids");
            return Err(RegistryRefusal::PayloadInvalid { path: format!("/{name}"), detail });
        }
        // An empty schema accepts everything, so the payload is not copied.
        if self.payload_schema.as_object().is_some_and(Map::is_empty) {
            return Ok(());
        }
        let payload = Value::Object(payload.clone());
        self.validator.validate(&payload).map_err(|error| RegistryRefusal::PayloadInvalid {
            path: error.instance_path().to_string(),
            // The explanation is stored even if the payload must not be, so values are masked.
            detail: error.masked().to_string().chars().take(300).collect(),
        })
    }

    fn forbidden_content(&self, declared: ConsentLevel, payload: &Map<String, Value>) -> Option<&str> {
        if declared == ConsentLevel::Full {
            return None;
        }
        let is_there = |name: &&String| payload.get(*name).is_some_and(|value| !value.is_null());
        self.content_fields.iter().find(is_there).map(String::as_str)
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.types.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::{AgentKinds, Sealed};

    fn event(change: impl FnOnce(&mut Value)) -> Envelope {
        let vectors: Value = serde_json::from_slice(include_bytes!("../../../tests/vectors/chain.json")).unwrap();
        let mut event = vectors["chain"][0]["event"].clone();
        change(&mut event);
        Sealed::open(event.to_string().as_bytes(), 262_144, &AgentKinds::new([])).unwrap().envelope
    }

    #[test]
    fn the_built_in_types_are_those_of_the_decisions() {
        let described = Registry::built_in().unwrap().describe();
        let names = |lane: &str| -> Vec<String> {
            let types = described["event_types"].as_array().unwrap().iter();
            types
                .filter(|kind| kind["lane"] == lane)
                .map(|kind| kind["event_type"].as_str().unwrap().to_owned())
                .collect()
        };
        assert_eq!(names("memory"), ["memory.forgotten", "memory.recalled", "memory.stored"]);
        assert_eq!(names("llm"), ["llm.completed", "llm.failed"]);
        assert_eq!(names("skill"), ["skill.installed", "skill.invoked"]);
        assert_eq!(names("security"), ["consent.changed", "security.blocked", "security.finding"]);
        assert_eq!(names("squad"), ["squad.message_sent", "squad.task_assigned", "squad.task_completed"]);
        assert_eq!(names("rsi"), ["rsi.evaluated", "rsi.proposal_made", "rsi.retrospective_completed"]);
    }

    #[test]
    fn type_then_lane_then_payload() {
        let registry = Registry::built_in().unwrap();
        for name in registry.names().chain(["memory.dreamt"]) {
            assert_eq!(built_in_lane(name).unwrap(), registry.lane_of(name), "{name}");
        }
        assert_eq!(registry.judge(&event(|_| {})), Ok(()));
        let refusal = |change: fn(&mut Value)| registry.judge(&event(change)).unwrap_err().to_string();
        let unknown = refusal(|event| {
            event["event_type"] = "memory.dreamt".into();
            event["lane"] = "llm".into();
        });
        assert_eq!(unknown, r#"/event_type: "memory.dreamt" is not a registered event type"#);
        let lane = refusal(|event| {
            event["lane"] = "llm".into();
            event["payload"]["content"] = 1.into();
        });
        assert_eq!(lane, "/lane: memory.stored belongs to the lane memory");
        assert!(refusal(|event| event["payload"]["content"] = 1.into()).starts_with("/payload/content: "));
    }

    #[test]
    fn content_needs_full_consent() {
        let registry = Registry::built_in().unwrap();
        for (level, taken) in [("full", true), ("metadata-only", false), ("off", false)] {
            let event = event(|event| {
                event["consent_level"] = level.into();
                event["payload"] = json!({ "content": "the text itself" });
            });
            assert_eq!(registry.judge(&event).is_ok(), taken, "{level}");
        }
        let metadata = event(|event| {
            event["consent_level"] = "metadata-only".into();
            event["payload"] = json!({ "memory_id": "m1", "content": null });
        });
        assert!(registry.judge(&metadata).is_ok());
    }

    #[test]
    fn a_file_extends_or_replaces() {
        let mine = "[[event]]\nevent_type = \"memory.dreamt\"\nlane = \"memory\"\n";
        let count = |text: &str| Registry::from_file(text).unwrap().types.len();
        assert_eq!(count(mine), 17);
        assert_eq!(count(&format!("mode = \"replace\"\n{mine}")), 1);
        assert!(matches!(Registry::from_file("mode = \"replace\""), Err(RegistryError::Empty)));
        assert!(matches!(Registry::from_file("wrong = 1"), Err(RegistryError::Syntax(_))));
        let broken = format!("{mine}payload_schema = {{ type = \"nonsense\" }}\n");
        assert!(matches!(Registry::from_file(&broken), Err(RegistryError::Schema { .. })));
    }
}
