//! Sessions of agents: what one event adds to the session that it names (`docs/decisions/0016-account-reads.md`).
//!
//! Only members that every level permits are read. The exception is the name of the working folder, which senders add to events of the
//! level `full`.

mod facts;
mod scalar;

use std::borrow::Cow;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use self::facts::EventFacts;
use self::scalar::Scalar;
use crate::consent::ConsentLevel;
use crate::digest::Digest;
use crate::ids::SessionUuid;
use crate::recorder::Recorder;

/// Maximum number of bytes of a model's name, a project or a folder; longer ones are cut.
pub const TEXT_BYTES_MAX: usize = 128;
/// Maximum duration of one event, in milliseconds: a day.
const DURATION_MS_MAX: f64 = 86_400_000.0;
/// Maximum number of tokens of one event, so that sums of 10^9 events fit.
const TOKENS_MAX: f64 = 1e9;

/// Id of a session: a digest of its recorder, its agent kind and its `scope.session_uuid`, because any computer can name any
/// `session_uuid`.
pub fn session_id(recorder: &Recorder, agent: &str, session: SessionUuid) -> Uuid {
    let Recorder { machine, identity } = recorder;
    let digest = Digest::of(format!("{machine}\n{identity}\n{agent}\n{session}").as_bytes());
    let (halves, _) = digest.as_bytes().as_chunks::<16>();
    Uuid::from_bytes(halves[0])
}

/// Sums over the events of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionCounts {
    /// Events.
    pub events: i64,
    /// Finished uses of tools.
    pub tool_calls: i64,
    /// Failed uses of tools, and failed answers of models.
    pub failures: i64,
    /// Actions that were denied or blocked.
    pub blocked: i64,
    /// Prompts of a person or program.
    pub prompts: i64,
    /// Answers of models, including failed ones.
    pub model_calls: i64,
    /// Agents that this agent started.
    pub subagents: i64,
    /// Tokens that models read.
    pub input_tokens: i64,
    /// Tokens that models wrote.
    pub output_tokens: i64,
    /// Time in tools, in milliseconds.
    pub tool_ms: i64,
}

impl AddAssign for SessionCounts {
    fn add_assign(&mut self, other: Self) {
        self.events += other.events;
        self.tool_calls += other.tool_calls;
        self.failures += other.failures;
        self.blocked += other.blocked;
        self.prompts += other.prompts;
        self.model_calls += other.model_calls;
        self.subagents += other.subagents;
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.tool_ms += other.tool_ms;
    }
}

/// What one event adds to its session and to the use of models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionStep {
    /// The session, if the event names one.
    pub session: Option<SessionUuid>,
    /// `scope.project_id`, shortened.
    pub project: Option<String>,
    /// Last part of the working folder's path; only at the level `full`.
    pub folder: Option<String>,
    /// Digest of the file that the event names.
    pub file: Option<i64>,
    /// The model of an answer; empty if the event does not name it.
    pub model: Option<String>,
    /// Whether the agent requested a permission, and waits for it.
    pub is_request: bool,
    /// Whether the event ends the session.
    pub is_end: bool,
    /// The sums of this event.
    pub counts: SessionCounts,
}

/// The members of an event that are read.
#[derive(Debug, Deserialize)]
struct Event<'e> {
    #[serde(borrow)]
    scope: Scope<'e>,
    #[serde(borrow)]
    payload: Payload<'e>,
}

#[derive(Debug, Deserialize)]
struct Scope<'e> {
    #[serde(borrow)]
    project_id: Option<Cow<'e, str>>,
    session_uuid: Option<SessionUuid>,
}

/// Members of a payload. Their types are free unless the registry's schema says otherwise, so a member of another type is ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Payload<'e> {
    #[serde(borrow)]
    activity: Scalar<'e>,
    #[serde(borrow)]
    succeeded: Scalar<'e>,
    #[serde(borrow)]
    duration_ms: Scalar<'e>,
    #[serde(borrow)]
    model: Scalar<'e>,
    #[serde(borrow)]
    input_tokens: Scalar<'e>,
    #[serde(borrow)]
    output_tokens: Scalar<'e>,
    #[serde(borrow)]
    file: Scalar<'e>,
    #[serde(borrow)]
    cwd: Scalar<'e>,
}

impl SessionStep {
    /// Reads an event's canonical bytes; `None` if it names no session and is no answer of a model.
    pub fn read(event_type: &str, level: ConsentLevel, canonical: &[u8]) -> Option<Self> {
        let Event { scope, payload } = serde_json::from_slice(canonical).ok()?;
        let activity = payload.activity.text().unwrap_or_default();
        let is_prompt = activity == "prompt_submitted";
        let is_answer = matches!(event_type, "llm.completed" | "llm.failed") && !is_prompt;
        if scope.session_uuid.is_none() && !is_answer {
            return None;
        }
        // Hooks report a tool before and after its use; other senders report `skill.invoked` once.
        let is_tool = match activity {
            "tool_finished" | "file_edited" => true,
            "" => event_type == "skill.invoked",
            _ => false,
        };
        let has_failed = event_type == "llm.failed" || (is_tool && payload.succeeded.flag() == Some(false));
        let counts = SessionCounts {
            events: 1,
            tool_calls: is_tool.into(),
            failures: has_failed.into(),
            blocked: (event_type == "security.blocked").into(),
            prompts: is_prompt.into(),
            model_calls: is_answer.into(),
            subagents: (activity == "subagent_started").into(),
            input_tokens: if is_answer { payload.input_tokens.whole(TOKENS_MAX) } else { 0 },
            output_tokens: if is_answer { payload.output_tokens.whole(TOKENS_MAX) } else { 0 },
            tool_ms: if is_tool { payload.duration_ms.whole(DURATION_MS_MAX) } else { 0 },
        };
        let folder = payload.cwd.text().filter(|_| level == ConsentLevel::Full);
        let folder = folder.and_then(|path| path.rsplit(['/', '\\']).find(|part| !part.is_empty()));
        Some(Self {
            session: scope.session_uuid,
            project: scope.project_id.map(|project| cut(&project)),
            folder: folder.map(cut),
            file: payload.file.text().map(file_digest),
            model: is_answer.then(|| payload.model.text().map(cut).unwrap_or_default()),
            is_request: activity == "permission_requested",
            is_end: activity == "session_ended",
            counts,
        })
    }
}

/// A text of at most [`TEXT_BYTES_MAX`] bytes, without the character that PostgreSQL does not store.
fn cut(text: &str) -> String {
    let end = text.floor_char_boundary(TEXT_BYTES_MAX);
    text[..end].replace('\0', "")
}

fn file_digest(name: &str) -> i64 {
    let digest = Digest::of(name.as_bytes());
    let (parts, _) = digest.as_bytes().as_chunks::<8>();
    i64::from_be_bytes(parts[0])
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const SESSION: &str = "019b76da-a800-7a67-8a14-94a3f41b0634";

    fn step(event_type: &str, payload: &Value) -> SessionStep {
        read(event_type, "full", payload).unwrap()
    }

    fn read(event_type: &str, level: &str, payload: &Value) -> Option<SessionStep> {
        let event = json!({ "scope": { "session_uuid": SESSION, "project_id": "shop" }, "payload": payload });
        SessionStep::read(event_type, level.parse().unwrap(), event.to_string().as_bytes())
    }

    #[test]
    fn a_tool_counts_when_it_ends_and_a_prompt_is_no_answer() {
        let counts = |event_type, payload: &Value| step(event_type, payload).counts;
        let one = SessionCounts { events: 1, ..SessionCounts::default() };
        assert_eq!(counts("skill.invoked", &json!({ "activity": "tool_started", "duration_ms": 9 })), one);
        let finished = json!({ "activity": "tool_finished", "succeeded": false, "duration_ms": 9.6 });
        assert_eq!(
            counts("skill.invoked", &finished),
            SessionCounts { tool_calls: 1, failures: 1, tool_ms: 10, ..one }
        );
        assert_eq!(counts("skill.invoked", &json!({ "skill": "x" })), SessionCounts { tool_calls: 1, ..one });
        assert_eq!(counts("skill.invoked", &json!({ "activity": "session_started" })), one);
        let answer = json!({ "activity": "completed", "model": "m", "input_tokens": 7, "output_tokens": 2 });
        let answered = SessionCounts { model_calls: 1, input_tokens: 7, output_tokens: 2, ..one };
        assert_eq!(counts("llm.completed", &answer), answered);
        let prompt = json!({ "activity": "prompt_submitted", "input_tokens": 7 });
        assert_eq!(counts("llm.completed", &prompt), SessionCounts { prompts: 1, ..one });
        assert_eq!(step("llm.completed", &prompt).model, None);
        assert_eq!(counts("llm.failed", &json!({})), SessionCounts { model_calls: 1, failures: 1, ..one });
        assert_eq!(counts("security.blocked", &json!({})), SessionCounts { blocked: 1, ..one });
    }

    #[test]
    fn members_of_other_types_and_extreme_numbers_do_not_count() {
        let odd =
            json!({ "activity": 7, "model": {"a": [1]}, "input_tokens": "9", "output_tokens": -4, "succeeded": "no" });
        let counts = step("llm.completed", &odd).counts;
        assert_eq!((counts.model_calls, counts.input_tokens, counts.output_tokens), (1, 0, 0));
        let large = json!({ "input_tokens": 9_007_199_254_740_991_i64, "output_tokens": 1e300 });
        let counts = step("llm.completed", &large).counts;
        assert_eq!((counts.input_tokens, counts.output_tokens), (1_000_000_000, 1_000_000_000));
        let long = "ü".repeat(100);
        assert_eq!(step("llm.completed", &json!({ "model": long })).model.unwrap().len(), 128);
    }

    #[test]
    fn the_folder_is_read_at_the_level_full_only() {
        let payload = json!({ "cwd": "/home/ada/shop/" });
        let folder = |level: &str| read("skill.invoked", level, &payload).unwrap().folder;
        assert_eq!((folder("full").as_deref(), folder("metadata-only")), (Some("shop"), None));
    }

    #[test]
    fn an_event_without_a_session_counts_only_as_an_answer() {
        let read = |event_type: &str| {
            let event = json!({ "scope": {}, "payload": { "model": "m" } });
            SessionStep::read(event_type, ConsentLevel::MetadataOnly, event.to_string().as_bytes())
        };
        assert!(read("skill.invoked").is_none());
        assert_eq!(read("llm.completed").unwrap().model.as_deref(), Some("m"));
    }

    #[test]
    fn the_same_session_of_another_recorder_has_another_id() {
        let recorder =
            |machine: &str| Recorder { machine: machine.parse().unwrap(), identity: "ada1".parse().unwrap() };
        let session = SESSION.parse().unwrap();
        let (one, other) = (recorder(SESSION), recorder("019b76da-a800-7a67-8a14-94a3f41b0635"));
        assert_eq!(session_id(&one, "codex", session), session_id(&one, "codex", session));
        assert_ne!(session_id(&one, "codex", session), session_id(&other, "codex", session));
        assert_ne!(session_id(&one, "codex", session), session_id(&one, "cursor", session));
    }
}
