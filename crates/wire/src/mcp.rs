//! The tools of both MCP servers: `attache mcp` on standard input and output, and `POST /v1/mcp` (`docs/protocol/mcp.md`,
//! `docs/decisions/0036-clients-and-tools.md`).
//!
//! Each tool has its texts and the JSON schema of its arguments here, and a type that parses them. The servers differ in their credentials:
//! an API key reaches the memory only, a computer also its events.

use domain::consent::ConsentLevel;
use domain::ids::{MemoryId, SessionUuid};
use domain::lane::Lane;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::knowledge::{QUERY_BYTES_MAX, SEARCH_LIMIT, SEARCH_LIMIT_MAX, SEARCH_SPACES_MAX};

/// Names of the tools, in the order in which they are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum McpTool {
    /// `search_memory`
    SearchMemory,
    /// `add_memory`
    AddMemory,
    /// `list_spaces`
    ListSpaces,
    /// `forget_memory`
    ForgetMemory,
    /// `record_event`
    RecordEvent,
    /// `check_consent`
    CheckConsent,
    /// `my_activity`
    MyActivity,
}

/// Arguments of `search_memory`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchMemory {
    /// Question or keywords.
    pub query: String,
    /// Maximum number of memories, 1 to [`SEARCH_LIMIT_MAX`].
    #[serde(default)]
    pub limit: Option<u32>,
    /// Names or ids of spaces.
    #[serde(default)]
    pub spaces: Vec<String>,
}

/// Arguments of `add_memory`: exactly one of `content` and `url`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddMemory {
    /// Text of a note.
    #[serde(default)]
    pub content: Option<String>,
    /// URL of a page.
    #[serde(default)]
    pub url: Option<String>,
    /// Title of the note.
    #[serde(default)]
    pub title: Option<String>,
    /// Names or ids of spaces.
    #[serde(default)]
    pub spaces: Vec<String>,
}

/// Arguments of `list_spaces`: none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListSpaces {}

/// Arguments of `forget_memory`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForgetMemory {
    /// Id of the memory.
    pub id: MemoryId,
}

/// Arguments of `record_event`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordEvent {
    /// Type of the event.
    pub event_type: String,
    /// Payload of the event.
    #[serde(default)]
    pub payload: Map<String, Value>,
    /// Lane; the event type's lane if absent.
    #[serde(default)]
    pub lane: Option<Lane>,
    /// Declared consent level; the effective level of this computer if absent.
    #[serde(default)]
    pub consent_level: Option<ConsentLevel>,
    /// Project id; at least one character.
    #[serde(default)]
    pub project_id: Option<String>,
    /// Id of the working session.
    #[serde(default)]
    pub session_uuid: Option<SessionUuid>,
}

/// Arguments of `check_consent`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckConsent {
    /// Lane; `memory` if absent.
    #[serde(default)]
    pub lane: Option<Lane>,
}

/// Arguments of `my_activity`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MyActivity {
    /// Maximum number of events, 1 to [`ACTIVITY_LIMIT_MAX`].
    #[serde(default)]
    pub limit: Option<u16>,
    /// Only events of this lane.
    #[serde(default)]
    pub lane: Option<Lane>,
}

/// Number of chunks of each memory that `search_memory` returns.
pub const SEARCH_CHUNKS: usize = 3;

/// Maximum number of events that `my_activity` returns.
pub const ACTIVITY_LIMIT_MAX: u16 = 100;

/// Default number of events that `my_activity` returns.
pub const ACTIVITY_LIMIT: u16 = 20;

impl McpTool {
    /// The tools of a server with an API key.
    pub const OF_MEMORY: [Self; 4] = [Self::SearchMemory, Self::AddMemory, Self::ListSpaces, Self::ForgetMemory];

    /// The tools of a server with the credentials of a profile.
    pub const ALL: [Self; 7] = [
        Self::SearchMemory,
        Self::AddMemory,
        Self::ListSpaces,
        Self::ForgetMemory,
        Self::RecordEvent,
        Self::CheckConsent,
        Self::MyActivity,
    ];

    /// The tool with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// Its name in `tools/call`.
    pub fn name(self) -> &'static str {
        match self {
            Self::SearchMemory => "search_memory",
            Self::AddMemory => "add_memory",
            Self::ListSpaces => "list_spaces",
            Self::ForgetMemory => "forget_memory",
            Self::RecordEvent => "record_event",
            Self::CheckConsent => "check_consent",
            Self::MyActivity => "my_activity",
        }
    }

    /// Its title, for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::SearchMemory => "Search memories",
            Self::AddMemory => "Add a memory",
            Self::ListSpaces => "List spaces",
            Self::ForgetMemory => "Delete a memory",
            Self::RecordEvent => "Record an event",
            Self::CheckConsent => "Check consent",
            Self::MyActivity => "Show recent activity",
        }
    }

    /// Its description, for a model.
    pub fn description(self) -> &'static str {
        match self {
            Self::SearchMemory => {
                "Searches the person's shared memory (pages and notes) by meaning and by keyword. Returns the most similar memories first, each with \
                 id, title, URL, similarity from 0 to 1 and the matching chunks. Use it before answering from general knowledge."
            }
            Self::AddMemory => {
                "Stores a note, or the main text of a web page, in the person's shared memory, where later searches find it. Give either `content` or \
                 `url`. Store what will matter later: decisions, preferences, facts; never secrets."
            }
            Self::ListSpaces => "Lists the spaces, which are named sets of memories, with their ids and access.",
            Self::ForgetMemory => {
                "Deletes a memory permanently. Ask the person first. The id is that of a search result."
            }
            Self::RecordEvent => {
                "Appends an event to this computer's tamper-evident record, on its hash chain. The types of events and their payloads are those of \
                 the server's registry, such as `skill.invoked`. Content that the person's consent does not allow must not be sent: call \
                 check_consent first."
            }
            Self::CheckConsent => {
                "Returns how much may be recorded on this computer in a lane: `off` (nothing), `metadata-only` (no content) or `full`."
            }
            Self::MyActivity => {
                "Returns the newest events that this computer has recorded, and events that are held with the reason."
            }
        }
    }

    /// The JSON schema of its arguments.
    pub fn schema(self) -> Map<String, Value> {
        let spaces = json!({
            "type": "array", "items": { "type": "string" }, "maxItems": SEARCH_SPACES_MAX,
            "description": "Names or ids of spaces; the default is the account's own choice."
        });
        let lane = json!({ "type": "string", "enum": Lane::ALL.iter().map(|lane| lane.as_str()).collect::<Vec<_>>(), "description": "Lane of events." });
        let (properties, required): (Value, &[&str]) = match self {
            Self::SearchMemory => (
                json!({
                    "query": { "type": "string", "minLength": 1, "maxLength": QUERY_BYTES_MAX, "description": "Question or keywords." },
                    "limit": {
                        "type": "integer", "minimum": 1, "maximum": SEARCH_LIMIT_MAX, "default": SEARCH_LIMIT,
                        "description": "Maximum number of memories."
                    },
                    "spaces": spaces,
                }),
                &["query"],
            ),
            Self::AddMemory => (
                json!({
                    "content": { "type": "string", "minLength": 1, "description": "Text or Markdown of a note." },
                    "url": { "type": "string", "format": "uri", "description": "URL of a page to fetch." },
                    "title": { "type": "string", "description": "Title of the note; its first heading if absent." },
                    "spaces": spaces,
                }),
                &[],
            ),
            Self::ListSpaces => (json!({}), &[]),
            Self::ForgetMemory => {
                (json!({ "id": { "type": "string", "format": "uuid", "description": "Id of the memory." } }), &["id"])
            }
            Self::RecordEvent => (
                json!({
                    "event_type": { "type": "string", "description": "Type of the event, from the server's registry." },
                    "payload": { "type": "object", "description": "Payload as the registry describes it." },
                    "lane": lane,
                    "consent_level": {
                        "type": "string", "enum": ["full", "metadata-only"],
                        "description": "Declared level; the effective one if absent."
                    },
                    "project_id": { "type": "string", "minLength": 1, "description": "Project of the event." },
                    "session_uuid": { "type": "string", "format": "uuid", "description": "Working session, a UUIDv7." },
                }),
                &["event_type"],
            ),
            Self::CheckConsent => (json!({ "lane": lane }), &[]),
            Self::MyActivity => (
                json!({
                    "limit": { "type": "integer", "minimum": 1, "maximum": ACTIVITY_LIMIT_MAX, "default": ACTIVITY_LIMIT,
                        "description": "Maximum number of events." },
                    "lane": lane,
                }),
                &[],
            ),
        };
        let schema =
            json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
        match schema {
            Value::Object(schema) => schema,
            _ => Map::new(),
        }
    }

    /// Whether it is read-only.
    pub fn is_read_only(self) -> bool {
        !matches!(self, Self::AddMemory | Self::ForgetMemory | Self::RecordEvent)
    }

    /// Whether it deletes.
    pub fn is_destructive(self) -> bool {
        self == Self::ForgetMemory
    }

    /// Whether a repeated call has no further effect.
    pub fn is_idempotent(self) -> bool {
        self != Self::RecordEvent
    }

    /// Whether it reaches other servers: it fetches a page.
    pub fn is_open_world(self) -> bool {
        self == Self::AddMemory
    }

    /// The tool as `tools/list` describes it.
    pub fn described(self) -> Value {
        json!({
            "name": self.name(),
            "title": self.title(),
            "description": self.description(),
            "inputSchema": self.schema(),
            "annotations": {
                "title": self.title(),
                "readOnlyHint": self.is_read_only(),
                "destructiveHint": self.is_destructive(),
                "idempotentHint": self.is_idempotent(),
                "openWorldHint": self.is_open_world(),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_found_by_its_name() {
        for tool in McpTool::ALL {
            assert_eq!(McpTool::named(tool.name()), Some(tool));
            assert!(tool.described()["description"].as_str().is_some_and(|text| text.len() > 40), "{tool:?}");
        }
        assert_eq!(McpTool::named("about_service"), None);
    }

    #[test]
    fn arguments_with_all_described_members_are_parsed_and_others_refused() {
        fn check<T: serde::de::DeserializeOwned>(tool: McpTool, arguments: &Value) {
            let described = tool.schema();
            let given = arguments.as_object().unwrap();
            let names: Vec<&String> = described["properties"].as_object().unwrap().keys().collect();
            assert_eq!(given.keys().collect::<Vec<_>>(), names, "{tool:?}");
            assert!(serde_json::from_value::<T>(arguments.clone()).is_ok(), "{tool:?}");
            let mut more = given.clone();
            more.insert("other".into(), json!(1));
            assert!(serde_json::from_value::<T>(Value::Object(more)).is_err(), "{tool:?}");
        }
        let id = "01890a5d-ac96-774b-bcce-b302099a8057";
        check::<SearchMemory>(McpTool::SearchMemory, &json!({ "limit": 3, "query": "tide", "spaces": ["work"] }));
        let note = json!({ "content": "a", "spaces": [], "title": "b", "url": null });
        check::<AddMemory>(McpTool::AddMemory, &note);
        check::<ListSpaces>(McpTool::ListSpaces, &json!({}));
        check::<ForgetMemory>(McpTool::ForgetMemory, &json!({ "id": id }));
        let event = json!({
            "consent_level": "full", "event_type": "skill.invoked", "lane": "skill", "payload": {}, "project_id": "p", "session_uuid": id
        });
        check::<RecordEvent>(McpTool::RecordEvent, &event);
        check::<CheckConsent>(McpTool::CheckConsent, &json!({ "lane": "llm" }));
        check::<MyActivity>(McpTool::MyActivity, &json!({ "lane": "llm", "limit": 5 }));
    }
}
