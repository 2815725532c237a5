//! Activity and proofs, which the statistics service provides (`docs/protocol/audit.md`).

use serde_json::{Value, json};
use wire::activity::{ActivityPage, LogKeys};

use super::operation::Operation;
use super::schemas::Anything;
use crate::http::error::Code;

pub(super) fn operations() -> Vec<Operation> {
    let held = json!({
        "event_id": "019b76da-a800-7274-8acf-2e56e162ebd9",
        "event_type": "memory.stored",
        "agent_id": "svc-cli",
        "machine_uuid": "019b76da-a800-7a67-8a14-94a3f41b0634",
        "reason": "hash_mismatch",
        "received_at": "2026-01-01T00:00:00.000Z",
    });
    let page =
        json!({ "events": [], "next_cursor": Value::Null, "unclassified": [held], "unclassified_truncated": false });
    let key =
        json!({ "vkey": "attache.example.com+5f3c…", "active_from": "2026-01-01T00:00:00.000Z", "retired_at": null });
    let size = || json!({ "type": "integer", "minimum": 1 });
    Operation::tagged("Audit", vec![
        Operation::get("/api/v1/activity", "activity", "What was recorded")
            .says("The statistics service's page of events, newest first. A computer sees what it recorded; an account sees what \
                the computers recorded that are or were attached to it, and what the service reports about them. On the first \
                page, if that is an object, the held events stand in `unclassified`.")
            .query("limit", "Events on a page.", &json!({ "type": "integer", "minimum": 1, "maximum": 500, "default": 100 }))
            .query(
                "cursor",
                "`next_cursor` of the page before; at most 1024 bytes.",
                &json!({ "type": "string", "maxLength": 1024 }),
            )
            .query("since", "From when on: RFC 3339, or milliseconds since 1970.", &json!({ "type": "string" }))
            .query("lane", "Only this lane.", &json!({ "$ref": "#/components/schemas/Lane" }))
            .answers::<ActivityPage>(200, "A page.", page)
            .refuses(&[Code::InvalidLimit, Code::CursorTooLong, Code::LaneNotInEnum, Code::InvalidRequest])
            .passes_everything_on(),
        Operation::get("/api/v1/audit/verify", "auditProof", "The proof of an event")
            .says("`attache verify` checks it offline, against a key that you trust. An event that the activity does not show has \
                no proof either: 404.")
            .query_required("event_id", "The event.", &json!({ "$ref": "#/components/schemas/UuidV7" }))
            .answers::<Anything>(200, "The proof, as the statistics service gives it.", Value::Null)
            .refuses(&[Code::MissingEventId, Code::InvalidEventId, Code::InvalidRequest])
            .passes_everything_on(),
        Operation::get("/api/v1/audit/checkpoint", "logCheckpoint", "The log's checkpoint")
            .answers_text("text/plain; charset=utf-8", 200, "The newest signed tree head, a C2SP signed note.")
            .passes_everything_on(),
        Operation::get("/api/v1/audit/consistency", "logConsistency", "That the log only grew")
            .says("Clients compare the newest checkpoint with the largest one that they saw: a smaller one, or one that this does not \
                lead to, is of a log that was rolled back or forked.")
            .query("from", "Leaves of the smaller tree.", &size())
            .query("to", "Leaves of the larger tree; the newest when absent.", &size())
            .answers::<Anything>(200, "The proof that the smaller tree is a beginning of the larger.", Value::Null)
            .refuses(&[Code::InvalidRequest])
            .passes_everything_on(),
        Operation::get("/api/v1/audit/keys", "logKeys", "The log's public keys")
            .answers::<LogKeys>(200, "The keys that sign checkpoints, or did.", json!({ "keys": [key] }))
            .passes_everything_on(),
    ])
}
