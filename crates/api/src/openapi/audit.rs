//! Activity and proofs of the statistics service (`docs/protocol/audit.md`).

use serde_json::{Value, json};
use wire::activity::{ActivityPage, LogKeys};

use super::operation::Operation;
use super::schemas::Anything;
use crate::error::Code;

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
    let part = || json!({ "type": "integer", "minimum": 0, "maximum": 65535, "default": 0 });
    Operation::tagged("Audit", vec![
        Operation::get("/api/v1/activity", "activity", "Recorded events")
            .says("A page of events from the statistics service, newest first. A computer sees its own events; an account sees the \
             events of the computers that are or were attached to it, and the service's events about them. The first \
             page, if it is an object, lists the held events in `unclassified`. The embedded service adds to each event `summary`, a \
             sentence, `tone`, one of `plain`, `failed`, `blocked`, `waiting` and `alert`, and `proof_status`, `included` or `pending`.")
            .query("limit", "Number of events per page.", &json!({ "type": "integer", "minimum": 1, "maximum": 500, "default": 100 }))
            .query(
                "cursor",
                "`next_cursor` of the previous page; at most 1024 bytes.",
                &json!({ "type": "string", "maxLength": 1024 }),
            )
            .query("since", "Earliest time: RFC 3339, or epoch milliseconds.", &json!({ "type": "string" }))
            .query("lane", "Only events of this lane.", &json!({ "$ref": "#/components/schemas/Lane" }))
            .answers::<ActivityPage>(200, "A page of events.", page)
            .refuses(&[Code::InvalidLimit, Code::CursorTooLong, Code::LaneNotInEnum, Code::InvalidRequest])
            .passes_everything_on(),
        Operation::get("/api/v1/audit/verify", "auditProof", "Audit proof of an event")
            .says("`attache verify` verifies it offline against a trusted key. For an event that is not in the caller's activity \
             the response is 404.")
            .query_required("event_id", "Id of the event.", &json!({ "$ref": "#/components/schemas/UuidV7" }))
            .answers::<Anything>(200, "The proof as returned by the statistics service.", Value::Null)
            .refuses(&[Code::MissingEventId, Code::InvalidEventId, Code::InvalidRequest])
            .passes_everything_on(),
        Operation::get("/api/v1/audit/checkpoint", "logCheckpoint", "Newest checkpoint of the log")
            .query("log", "Part of the log; the first one (0) if absent.", &part())
            .answers_text("text/plain; charset=utf-8", 200, "The newest checkpoint, a C2SP signed note.")
            .refuses(&[Code::NotFound])
            .passes_everything_on(),
        Operation::get("/api/v1/audit/consistency", "logConsistency", "Consistency proof of the log")
            .says("Clients compare the newest checkpoint with the largest one that they have seen. A smaller tree, or one that is not \
             consistent with it, means that the log was rolled back or forked.")
            .query("from", "Size of the smaller tree.", &size())
            .query("to", "Size of the larger tree; the newest if absent.", &size())
            .query("log", "Part of the log; the first one (0) if absent.", &part())
            .answers::<Anything>(200, "The proof that the smaller tree is a prefix of the larger one.", Value::Null)
            .refuses(&[Code::InvalidRequest, Code::NotFound])
            .passes_everything_on(),
        Operation::get("/api/v1/audit/keys", "logKeys", "Public keys of the log")
            .answers::<LogKeys>(200, "Current and former keys of checkpoints.", json!({ "keys": [key] }))
            .passes_everything_on(),
        Operation::get("/log/checkpoint", "tiledCheckpoint", "Newest checkpoint, for clients of tlog-tiles")
            .answers_text("text/plain; charset=utf-8", 200, "The newest checkpoint, a C2SP signed note.")
            .refuses(&[Code::NotFound])
            .passes_everything_on(),
        Operation::get("/log/tile/{*path}", "tile", "Tile of the tree")
            .says("Up to 256 hashes of the signed tree, 32 bytes each, as C2SP `tlog-tiles` defines them. `path` is \
             `<L>/<N>` for a full tile and `<L>/<N>.p/<W>` for the first W hashes; N is written in groups of three digits, \
             such as `x001/x234/067`. Entries are not served, because a leaf names a computer and its agent.")
            .answers_octets(200, "The hashes.")
            .with_header("Cache-Control", "`public, max-age=31536000, immutable`: a signed hash never changes.")
            .refuses(&[Code::NotFound])
            .passes_everything_on(),
        Operation::get("/log/{part}/{*path}", "partOfLog", "Checkpoint and tiles of a further part of the log")
            .says("`part` is `p` and the number of the part, `path` is `checkpoint` or `tile/<L>/<N>`, as for the first part.")
            .answers_octets(200, "The checkpoint or the hashes.")
            .refuses(&[Code::NotFound])
            .passes_everything_on(),
    ])
}
