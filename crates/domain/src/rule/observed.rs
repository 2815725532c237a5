//! A recorded event as rules and the digest see it: without content.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Novelty;
use crate::Timestamp;
use crate::consent::ConsentLevel;
use crate::foreign::visible;
use crate::ids::{EventId, MachineUuid};
use crate::lane::Lane;
use crate::registry::{NoNames, Registry, Tone};

/// Maximum length of a remembered value, in characters.
const VALUE_CHARS_MAX: usize = 100;

/// A value of a property.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Sighting {
    /// The property.
    pub novelty: Novelty,
    /// The value on one line, at most 100 characters.
    pub value: String,
}

/// The members of a recorded event that its consent level permits in a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    /// Id of the event.
    pub event_id: EventId,
    /// Its type.
    pub event_type: String,
    /// Its lane.
    pub lane: Lane,
    /// The agent kind.
    pub agent: String,
    /// The computer that recorded it.
    pub machine: MachineUuid,
    /// How the work went.
    pub tone: Tone,
    /// Time of receipt.
    pub received_at: Timestamp,
}

/// The members of an event that have no column in the log.
#[derive(Deserialize)]
struct Canonical {
    #[serde(default)]
    payload: Map<String, Value>,
    scope: CanonicalScope,
}

#[derive(Deserialize)]
struct CanonicalScope {
    project_id: Option<String>,
}

impl Observed {
    /// Completes `self` with the tone of the event and returns the values of its properties. `canonical` are the bytes of the event, which
    /// declares `level`. Bytes that are not an event have no values.
    pub fn read(&mut self, canonical: &[u8], level: ConsentLevel, registry: &Registry) -> Vec<Sighting> {
        let computer = Sighting { novelty: Novelty::Computer, value: self.machine.to_string() };
        let Ok(event) = serde_json::from_slice::<Canonical>(canonical) else { return vec![computer] };
        self.tone = registry.summary(&self.event_type, level, &event.payload, &NoNames).tone;
        let tool = tool_of(&event.payload).filter(|_| registry.shows(&self.event_type, level, "skill"));
        let sighting = |(novelty, text): (Novelty, Option<&str>)| Some(Sighting { novelty, value: short(text?)? });
        let found = [(Novelty::Tool, tool), (Novelty::Project, event.scope.project_id.as_deref())];
        // The service reports about computers, and is none.
        let computer = (self.agent != crate::envelope::AgentKinds::CONTROL_PLANE).then_some(computer);
        found.into_iter().filter_map(sighting).chain(computer).collect()
    }
}

/// The tool of an event. Hooks report the begin and end of sessions and of other agents with the same member.
fn tool_of(payload: &Map<String, Value>) -> Option<&str> {
    let is_tool = match payload.get("activity") {
        None => true,
        Some(activity) => activity.as_str().is_some_and(|activity| activity.starts_with("tool_")),
    };
    payload.get("skill").filter(|_| is_tool).and_then(Value::as_str)
}

/// The beginning of a text on one line; `None` if nothing of it is visible.
fn short(text: &str) -> Option<String> {
    let beginning: String = text.chars().take(VALUE_CHARS_MAX).collect();
    let line = visible(&beginning).split_whitespace().collect::<Vec<_>>().join(" ");
    (!line.is_empty()).then_some(line)
}
