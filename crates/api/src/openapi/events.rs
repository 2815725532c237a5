//! Operations of events (`docs/protocol/events.md`).

use domain::chain::Position;
use domain::envelope::seal;
use serde_json::{Value, json};
use wire::events::{ChainRefusal, Registry, SubmitResult};
use wire::schema::EventEnvelope;

use super::operation::Operation;

pub(super) fn operations() -> Vec<Operation> {
    let event = sealed(json!({
        "schema_version": "v1",
        "event_id": "019b76da-a800-7274-8acf-2e56e162ebd9",
        "event_type": "memory.stored",
        "lane": "memory",
        "ts_edge_ms": 1_767_225_600_000_i64,
        "consent_level": "full",
        "redacted": false,
        "scope": {
            "user_id": "tz4a98xxat96iws9zmbrgj3a",
            "machine_id": "019b76da-a800-7a67-8a14-94a3f41b0634",
            "agent_id": "svc-cli",
        },
        "payload": { "memory_id": "m1", "content": "the key is under the mat" },
    }));
    let at = |seq: u64, prev: &Value| json!({ "chain_epoch": 0, "seq": seq, "prev": prev });
    let (genesis, head) = (&event["hash_chain"]["prev"], &event["hash_chain"]["self"]);
    let refused =
        |error: &str, received: Value| json!({ "error": error, "expected": at(1, head), "received": received });
    let (conflict, broken) = (refused("chain_conflict", at(0, genesis)), refused("chain_broken", at(1, genesis)));
    let taken = json!({ "error": "event_id_conflict" });
    let kind = json!({
        "event_type": "memory.stored",
        "lane": "memory",
        "content_fields": ["content"],
        "payload_schema": { "type": "object" },
    });
    Operation::tagged("Events", vec![
        Operation::post("/api/v1/events", "submitEvent", "Send an event")
            .says("An event of an authenticated sender is forwarded, held, or answered by the statistics service. An event \
             that does not match this description is held, and the warning contains the reason and the position of the \
             fault: sending it again in correct form settles it. After any response but 202, and after none, the same \
             bytes may be sent again: they are never counted twice. A computer without an account and an unclaimed agent \
             have a quota of events and bytes per UTC day: beyond it the response is 424 with `reason: \
             quota_exceeded`.")
            .takes::<EventEnvelope>(event)
            .answers::<SubmitResult>(
                202,
                "Forwarded, with its receipt; or held, with a warning.",
                json!({ "receipt_id": "019b76da-a9f4-7c11-9d3e-5b7f0a2c4e61" }),
            )
            .passes_on(&[409, 422, 424, 429])
            .passes_on_known::<ChainRefusal>(
                409,
                json!({ "chain_conflict": { "value": conflict }, "event_id_conflict": { "value": taken } }),
            )
            .passes_on_known::<ChainRefusal>(422, json!({ "chain_broken": { "value": broken } })),
        Operation::get("/api/v1/events/registry", "eventRegistry", "Event types")
            .answers::<Registry>(200, "All registered event types.", json!({ "event_types": [kind] })),
    ])
}

/// The sealed event at the first position of its chain.
fn sealed(event: Value) -> Value {
    let Value::Object(members) = event else { return event };
    serde_json::from_slice(&seal(members, &Position::genesis(0)).body).unwrap_or_default()
}
