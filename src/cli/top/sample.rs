//! A snapshot for tests: two nodes of which `elm` is drained, with a family, a crashed key and a pause.

use domain::Timestamp;
use domain::ids::NodeId;
use serde_json::{Value, json};

use super::model::TopModel;
use super::order::Order;
use super::snapshot::{ActorTree, Snapshot};

/// Key with a crashed actor.
pub const CRASHED: &str = "019b76da-a800-7274-8acf-2e56e162ebd9";
/// Key with messages.
pub const BUSY: &str = "019b76da-a800-7a67-8a14-94a3f41b0634";
/// Id of the request of the crash.
pub const REQUEST: &str = "0a1b2c3d";

/// Ids of the nodes `oak` and `elm`.
pub fn node(nth: usize) -> NodeId {
    json_of(json!(format!("019b76da-a800-7000-8000-00000000000{nth}")))
}

fn json_of<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn child(name: &str, more: &Value) -> Value {
    let mut child = json!({
        "name": name, "kind": name, "role": "singleton", "status": "running", "restarts": 0, "live": 1, "queued": 0,
        "quarantined": 0, "budget": { "restarts_left": 10 },
    });
    for (member, value) in more.as_object().unwrap() {
        child[member] = value.clone();
    }
    child
}

fn times(per_minute: u64, wait: u64, handling: u64) -> Value {
    json!({
        "handled_per_minute": per_minute, "wait_p50_us": 0, "wait_p99_us": wait, "handler_p50_us": 64,
        "handler_p99_us": handling, "deepest_queue": 9,
    })
}

fn tree() -> Value {
    json!({
        "name": "root", "kind": "root", "role": "root", "status": "running", "restarts": 3, "live": 5, "queued": 7,
        "quarantined": 1,
        "children": [
            child("intake", &json!({ "times": times(12_345, 512, 1_024), "queued": 2, "unmoved_ms": 3, "oldest_ms": 40 })),
            child("sequence", &json!({
                "status": "waiting", "restarts": 3, "restarts_in_ms": 1_500, "live": 0,
                "budget": { "restarts_left": 7, "more_in_ms": 41_000 },
                "failures": [{ "error": "the disk is full", "request": "req-9", "seconds_ago": 4 }, { "error": "no answer", "seconds_ago": 90 }],
            })),
            child("claims", &json!({
                "role": "family", "live": 2, "queued": 5, "quarantined": 1, "times": times(40, 1_048_576, 33_554_432),
                "busiest": [{ "key": BUSY, "queued": 5, "unmoved_ms": 12_000 }],
            })),
            child("janitor", &json!({ "pass": { "ended_ms_ago": 9_000, "took_ms": 12, "next_in_ms": 51_000 } })),
        ],
    })
}

fn node_entry(nth: usize, name: &str, status: &str) -> Value {
    json!({
        "id": node(nth), "name": name, "address": "10.0.0.1:8080", "operator_address": "10.0.0.1:8081", "status": status,
        "unready": null, "version": "0.1.0", "configuration": "c0ffee", "started_at": "2026-01-31T08:00:00.000Z",
        "last_beat_at": "2026-01-31T12:00:00.000Z", "clock_ahead_ms": 0, "sequencer": true, "batches": 0,
    })
}

/// A pause of a part for everybody or for a scope.
pub fn pause(part: &str, scope: &str, reason: &str) -> Value {
    json!({
        "id": "019b76da-a800-7000-8000-00000000aaaa", "part": part, "scope": scope, "until": "2026-01-31T12:30:00.000Z",
        "set_by": "token (desk)", "reason": reason,
    })
}

/// A snapshot with the trees of this number of nodes, and these pauses.
pub fn snapshot(trees: usize, pauses: &[Value]) -> Snapshot {
    let names = ["oak", "elm"];
    let nodes = [node_entry(0, names[0], "ready"), node_entry(1, names[1], "draining")];
    let answer = |nth: usize| ActorTree {
        answer: json_of(json!({
            "id": node(nth), "node": names[nth], "at": "2026-01-31T12:00:00.000Z", "age_ms": 0, "tree": tree(),
        })),
        root: Some(json_of(tree())),
    };
    Snapshot {
        at: "2026-01-31T12:00:05Z".parse::<Timestamp>().unwrap(),
        cluster: json_of(json!({ "nodes": nodes, "differences": [], "overrides": [], "pauses": pauses })),
        keys: vec![json_of(json!({
            "node": "oak", "kind": "claims", "key": CRASHED, "crashes": 3, "error": "failpoint claims.exchange panic",
            "request_id": REQUEST, "last_crash_at": "2026-01-31T11:59:00.000Z",
            "quarantined_until": "2026-01-31T12:01:00.000Z", "quarantined_by": null, "reason": null,
        }))],
        trees: (0..trees).map(answer).collect(),
        problems: Vec::new(),
    }
}

/// The model of such a snapshot.
pub fn model(trees: usize, pauses: &[Value]) -> TopModel {
    let mut model = TopModel::new(Order::Depth);
    model.read(Ok(snapshot(trees, pauses)));
    model
}
