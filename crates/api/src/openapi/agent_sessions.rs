//! Sessions of agents (`docs/protocol/sessions.md`).

use serde_json::{Value, json};
use wire::agent_session::{AgentSessionPage, AgentSessionTimeline};
use wire::costs::Costs;

use super::operation::Operation;
use crate::error::Code;

const ID: &str = "019b76da-a800-7a67-8a14-94a3f41b0634";
const MOMENT: &str = "2026-01-01T00:42:00.000Z";

pub(super) fn operations() -> Vec<Operation> {
    let session = json!({
        "id": "5d41402a-bc4b-2a76-b971-9d911017c592",
        "machine_uuid": ID,
        "agent_id": "claude-code",
        "session_uuid": ID,
        "project_id": "shop",
        "folder": "shop",
        "started_ms": 1_767_225_600_000_i64,
        "last_ms": 1_767_228_120_000_i64,
        "ended_ms": Value::Null,
        "received_at": MOMENT,
        "waiting_ms": 600_000,
        "tool_ms": 93_000,
        "events": 75,
        "tool_calls": 31,
        "failures": 3,
        "blocked": 0,
        "prompts": 4,
        "model_calls": 4,
        "subagents": 0,
        "files": 2,
        "input_tokens": 41_000,
        "output_tokens": 7_000,
        "cost_microdollars": 380_000,
        "unpriced": false,
        "models": [{ "model": "claude-opus-5", "calls": 4, "input_tokens": 41_000, "output_tokens": 7_000 }],
    });
    let event = json!({
        "event_id": ID,
        "event_type": "skill.invoked",
        "lane": "skill",
        "ts_edge_ms": 1_767_228_120_000_i64,
        "received_at": MOMENT,
        "consent_level": "metadata-only",
        "summary": "Ran Bash",
        "activity": "tool_finished",
        "skill": "Bash",
        "subagent": Value::Null,
        "model": Value::Null,
        "succeeded": true,
        "duration_ms": 400,
        "input_tokens": Value::Null,
        "output_tokens": Value::Null,
    });
    let limit = |default: u16| json!({ "type": "integer", "minimum": 1, "maximum": 200, "default": default });
    let cursor = json!({ "type": "string", "maxLength": 1024 });
    let text = json!({ "type": "string" });
    Operation::tagged("Sessions", vec![
        Operation::get("/api/v1/activity/sessions", "agentSessions", "Sessions of agents")
            .says("Sums over the events that name one session, the session with the newest event first. A computer sees its own \
             sessions; an account sees the sessions of the computers that are or were attached to it. Events of the last \
             seconds may be missing. If the statistics service is external, the response is 501.")
            .query("limit", "Number of sessions per page.", &limit(50))
            .query("cursor", "`next_cursor` of the previous page; at most 1024 bytes.", &cursor)
            .query("since", "Earliest receipt of the newest event: RFC 3339, or epoch milliseconds.", &text)
            .query(
                "day",
                "Only sessions of which the newest event was received on this UTC day.",
                &json!({ "type": "string", "format": "date" }),
            )
            .query("agent", "Only sessions of this agent kind.", &text)
            .query("project", "Only sessions of this project.", &text)
            .query("computer", "Only sessions on this computer.", &json!({ "$ref": "#/components/schemas/UuidV7" }))
            .answers::<AgentSessionPage>(200, "A page of sessions.", json!({ "sessions": [session], "next_cursor": null }))
            .refuses(&[Code::InvalidLimit, Code::CursorTooLong, Code::InvalidRequest, Code::EmbeddedLogRequired]),
        Operation::get("/api/v1/activity/sessions/{id}", "agentSession", "A session of an agent")
            .says("The sums, and a page of the events, newest first, each with the members of its payload that every level permits.")
            .query("limit", "Number of events per page.", &limit(100))
            .query("cursor", "`next_cursor` of the previous page; at most 1024 bytes.", &cursor)
            .answers::<AgentSessionTimeline>(
                200,
                "The session and a page of its events.",
                json!({ "session": session, "events": [event], "next_cursor": null }),
            )
            .refuses(&[Code::InvalidLimit, Code::CursorTooLong, Code::InvalidRequest])
            .refuses(&[Code::NotFound, Code::EmbeddedLogRequired]),
        Operation::get("/api/v1/usage/costs", "costs", "Tokens and costs of models")
            .says("Tokens and costs of all answers of models, by UTC day of receipt, agent kind, project and model, at list prices. Models \
             without a price are named and not in the total. If the statistics service is external, the response is 501.")
            .query("days", "Number of days up to today.", &json!({ "type": "integer", "minimum": 1, "maximum": 400, "default": 30 }))
            .answers::<Costs>(200, "Tokens and costs.", costs())
            .refuses(&[Code::InvalidRequest, Code::EmbeddedLogRequired]),
    ])
}

fn costs() -> Value {
    let row = json!({
        "day": "2026-01-01",
        "agent_id": "claude-code",
        "project_id": "shop",
        "model": "claude-opus-5",
        "calls": 4,
        "input_tokens": 41_000,
        "output_tokens": 7_000,
        "cost_microdollars": 380_000,
    });
    json!({
        "prices_as_of": "2025-11-24",
        "first_day": "2025-12-03",
        "last_day": "2026-01-01",
        "total_microdollars": 380_000,
        "unpriced_models": [],
        "rows": [row],
        "truncated": false,
    })
}
