//! Events (`docs/protocol/events.md`).

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
            .says("Whatever an authenticated sender posts is forwarded, held, or answered by the statistics service. An \
                event that is not as described here is held, and the warning names the reason and the place: sending it \
                again, right this time, settles it. Any answer but 202, and none at all, may be followed by the same \
                bytes again: they are never counted twice. A computer that is attached to no account, and an agent that nobody \
                claimed, have a budget of events and bytes for each UTC day: past it the answer is 424 with `reason: \
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
            .answers::<Registry>(200, "Every registered type.", json!({ "event_types": [kind] })),
    ])
}

/// The event as the first of its chain.
fn sealed(event: Value) -> Value {
    let Value::Object(members) = event else { return event };
    serde_json::from_slice(&seal(members, &Position::genesis(0)).body).unwrap_or_default()
}
