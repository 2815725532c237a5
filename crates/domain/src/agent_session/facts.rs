//! The members of an event that the timeline of a session shows.

use serde::Deserialize;

use super::cut;
use super::scalar::Scalar;

/// Members of a payload that every level permits.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EventFacts {
    /// What happened, in the words of hooks.
    pub activity: Option<String>,
    /// Name of the tool or skill.
    pub skill: Option<String>,
    /// Name of the subagent's kind.
    pub subagent: Option<String>,
    /// Name of the model.
    pub model: Option<String>,
    /// Whether the tool succeeded, if the event says so.
    pub succeeded: Option<bool>,
    /// Duration in milliseconds.
    pub duration_ms: Option<u64>,
    /// Tokens that the model read.
    pub input_tokens: Option<u64>,
    /// Tokens that the model wrote.
    pub output_tokens: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Event<'e> {
    #[serde(borrow)]
    payload: Members<'e>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Members<'e> {
    #[serde(borrow)]
    activity: Scalar<'e>,
    #[serde(borrow)]
    skill: Scalar<'e>,
    #[serde(borrow)]
    subagent: Scalar<'e>,
    #[serde(borrow)]
    model: Scalar<'e>,
    #[serde(borrow)]
    succeeded: Scalar<'e>,
    #[serde(borrow)]
    duration_ms: Scalar<'e>,
    #[serde(borrow)]
    input_tokens: Scalar<'e>,
    #[serde(borrow)]
    output_tokens: Scalar<'e>,
}

impl EventFacts {
    /// Reads an event's canonical bytes; members of other types are absent.
    pub fn read(canonical: &[u8]) -> Self {
        let Ok(Event { payload }) = serde_json::from_slice::<Event<'_>>(canonical) else { return Self::default() };
        let text = |member: &Scalar<'_>| member.text().map(cut);
        Self {
            activity: text(&payload.activity),
            skill: text(&payload.skill),
            subagent: text(&payload.subagent),
            model: text(&payload.model),
            succeeded: payload.succeeded.flag(),
            duration_ms: payload.duration_ms.count(),
            input_tokens: payload.input_tokens.count(),
            output_tokens: payload.output_tokens.count(),
        }
    }
}
