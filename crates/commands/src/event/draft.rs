//! Input of `attache event send`: events without envelope and position.

use std::fmt::Display;

use domain::canonical;
use domain::consent::ConsentLevel;
use domain::envelope::{ProjectId, pointer};
use domain::ids::{EventId, SessionUuid};
use domain::lane::Lane;
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value};

use crate::failure::Failure;

/// Maximum length of a line in bytes; the server's limit of an event.
pub const LINE_BYTES_MAX: usize = 1024 * 1024;

/// Maximum number of mistakes of a file that are printed.
const MISTAKES_SHOWN: usize = 20;

/// One event of the input. Only type and payload are required.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventDraft {
    /// Type of the event.
    pub event_type: String,
    /// Payload of the event.
    pub payload: Map<String, Value>,
    /// Id; a new one if absent.
    #[serde(default)]
    pub event_id: Option<EventId>,
    /// Time in epoch milliseconds; the current time if absent.
    #[serde(default)]
    pub ts_edge_ms: Option<i64>,
    /// Lane; the lane of the event type if absent.
    #[serde(default)]
    pub lane: Option<Lane>,
    /// Declared consent level; the effective level of this computer if absent.
    #[serde(default)]
    pub consent_level: Option<ConsentLevel>,
    /// Whether content was redacted; false if absent.
    #[serde(default)]
    pub redacted: Option<bool>,
    /// Project id; at least one character.
    #[serde(default, deserialize_with = "named")]
    pub project_id: Option<String>,
    /// Id of the working session.
    #[serde(default)]
    pub session_uuid: Option<SessionUuid>,
}

/// Values for events that do not name their own, from the command's options.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Defaults {
    /// Value of `--lane`.
    pub lane: Option<Lane>,
    /// Value of `--consent-level`.
    pub consent_level: Option<ConsentLevel>,
    /// True with `--redacted`.
    pub redacted: Option<bool>,
    /// Value of `--project-id`.
    pub project_id: Option<String>,
    /// Value of `--session-uuid`.
    pub session_uuid: Option<SessionUuid>,
}

/// A line of a file with an event.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// Line number, from 1.
    pub number: u64,
    /// The event on this line.
    pub draft: EventDraft,
}

/// Parses all lines of a file; fails with all mistakes.
pub fn lines(name: &str, text: &[u8], defaults: &Defaults) -> Result<Vec<Line>, Failure> {
    let (mut lines, mut mistakes) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        match read(line, defaults) {
            Ok(Some(draft)) => lines.push(Line { number, draft }),
            Ok(None) => {}
            Err(mistake) => mistakes.push(format!("{name}:{number}: {mistake}")),
        }
    }
    if mistakes.is_empty() {
        return Ok(lines);
    }
    Err(mistaken("read", mistakes))
}

/// The error message for an input with mistakes.
pub fn mistaken(participle: &str, mut mistakes: Vec<String>) -> Failure {
    let count = mistakes.len();
    let lines = if count == 1 { "1 line cannot be".to_owned() } else { format!("{count} lines cannot be") };
    mistakes.truncate(MISTAKES_SHOWN);
    Failure::refused(format!("nothing was sent: {lines} {participle}\n  {}", mistakes.join("\n  ")))
}

/// Parses one line; `None` if it is blank.
pub fn read(line: &[u8], defaults: &Defaults) -> Result<Option<EventDraft>, String> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    let members = canonical::parse_object(line, LINE_BYTES_MAX).map_err(|fault| fault.to_string())?;
    let draft = serde_path_to_error::deserialize(Value::Object(members));
    let draft: EventDraft = draft.map_err(|error| at(&pointer(error.path()), error.inner()))?;
    Ok(Some(draft.or(defaults)))
}

fn at(place: &str, fault: impl Display) -> String {
    if place.is_empty() { fault.to_string() } else { format!("{place}: {fault}") }
}

impl EventDraft {
    /// A draft with type and payload only.
    pub fn new(event_type: impl Into<String>, payload: Map<String, Value>) -> Self {
        Self {
            event_type: event_type.into(),
            payload,
            event_id: None,
            ts_edge_ms: None,
            lane: None,
            consent_level: None,
            redacted: None,
            project_id: None,
            session_uuid: None,
        }
    }

    /// Fills absent values with the defaults.
    #[must_use]
    pub fn or(self, defaults: &Defaults) -> Self {
        Self {
            lane: self.lane.or(defaults.lane),
            consent_level: self.consent_level.or(defaults.consent_level),
            redacted: self.redacted.or(defaults.redacted),
            project_id: self.project_id.or_else(|| defaults.project_id.clone()),
            session_uuid: self.session_uuid.or(defaults.session_uuid),
            ..self
        }
    }
}

/// Parses a project id; `null` means absent.
fn named<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let name = Option::<String>::deserialize(deserializer)?;
    name.map(|name| ProjectId::try_from(name.clone()).map(|_| name).map_err(de::Error::custom)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_requires_type_and_payload_and_rejects_unknown_members() {
        let read = |line: &str| read(line.as_bytes(), &Defaults::default());
        assert_eq!(read(" \t ").unwrap(), None);
        assert!(read(r#"{"event_type":"memory.stored","payload":{}}"#).unwrap().is_some());
        for (line, fault) in [
            ("{}", "event_type"),
            (r#"{"event_type":"x"}"#, "payload"),
            (r#"{"event_type":"x","payload":[]}"#, "/payload: "),
            (r#"{"event_type":"x","payload":{},"seq":1}"#, "/seq: unknown field"),
            (r#"{"event_type":"x","payload":{"a":1,"a":2}}"#, "duplicate_key at /payload"),
            (r#"{"event_type":"x","payload":{},"lane":"dream"}"#, "/lane: "),
            (r#"{"event_type":"x","payload":{},"event_id":"1"}"#, "/event_id: "),
            (r#"{"event_type":"x","payload":{},"project_id":""}"#, "/project_id: "),
            ("[1]", "not_an_object"),
            ("nonsense", "not_json"),
        ] {
            let said = read(line).unwrap_err();
            assert!(said.contains(fault), "{line}: {said}");
        }
    }

    #[test]
    fn defaults_do_not_replace_values_of_a_line() {
        let defaults =
            Defaults { lane: Some(Lane::Rsi), consent_level: Some(ConsentLevel::Off), ..Defaults::default() };
        let line = br#"{"event_type":"x","payload":{},"lane":"llm"}"#;
        let draft = read(line, &defaults).unwrap().unwrap();
        assert_eq!((draft.lane, draft.consent_level), (Some(Lane::Llm), Some(ConsentLevel::Off)));
    }
}
