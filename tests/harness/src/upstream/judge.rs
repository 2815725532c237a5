//! The contract, from the side of the service: accepted events, responses, surprises.

use std::collections::{BTreeMap, HashMap, VecDeque};

use bytes::Bytes;
use serde_json::{Value, json};

use super::TOKEN;
use super::script::{Reply, Script};
use super::wire::Request;

/// Requests are built from scratch, so every header has a reason to be there. These have one.
const HEADERS_EXPECTED: [&str; 11] = [
    "accept",
    "attache-account",
    "attache-identity",
    "attache-machine",
    "authorization",
    "content-length",
    "content-type",
    "host",
    "idempotency-key",
    "traceparent",
    "user-agent",
];

/// An event that the service took, once and for all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// The receipt, the same for every delivery.
    pub receipt_id: String,
    /// The exact bytes of the first delivery.
    pub body: Bytes,
    /// Number of deliveries. The event counts once, for any number.
    pub deliveries: u64,
    /// The scope headers of the first delivery: account, identity, machine.
    pub scope: [Option<String>; 3],
}

/// The state of the fake.
#[derive(Debug)]
pub(super) struct Judge {
    pub next: VecDeque<Script>,
    pub for_event: HashMap<String, VecDeque<Script>>,
    pub always: Script,
    pub requests: Vec<Request>,
    pub taken: BTreeMap<String, Taken>,
    pub surprises: Vec<String>,
}

impl Default for Judge {
    fn default() -> Self {
        Self {
            next: VecDeque::new(),
            for_event: HashMap::new(),
            always: Script::honest(),
            requests: Vec::new(),
            taken: BTreeMap::new(),
            surprises: Vec::new(),
        }
    }
}

impl Judge {
    /// Records and judges a request: the manner that is scripted for it, and the honest answer.
    pub fn hear(&mut self, request: Request) -> (Script, Reply) {
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        let number = self.requests.len();
        let event_id = request.header("idempotency-key").unwrap_or_default();
        let scripted = self.for_event.get_mut(event_id).and_then(VecDeque::pop_front);
        let response = scripted.or_else(|| self.next.pop_front()).unwrap_or_else(|| self.always.clone());

        let mut surprises = surprises_of_any(&request);
        let honest = match (request.method.as_str(), path) {
            ("POST", "/v1/events") => {
                surprises.extend(surprises_of_event(&request));
                self.event(event_id, &request, response.stores)
            }
            ("GET", "/v1/activity") => {
                surprises.extend(surprises_of_read(&request));
                self.activity()
            }
            ("GET", "/v1/audit/verify") => {
                surprises.extend(surprises_of_read(&request));
                self.audit(query)
            }
            ("GET", "/v1/audit/keys") => Reply::json(200, &json!({ "keys": [] })),
            _ => {
                surprises.push("not a route of the contract".to_owned());
                Reply::json(404, &json!({"error": "not_found"}))
            }
        };
        let honest = if authorised(&request) { honest } else { Reply::json(401, &json!({"error": "unauthorized"})) };
        let line = format!("request {number}, {} {}", request.method, request.target);
        self.surprises.extend(surprises.into_iter().map(|surprise| format!("{line}: {surprise}")));
        self.requests.push(request);
        (response, honest)
    }

    /// Surprises, and scripts that were not used.
    pub fn complaints(&self) -> Vec<String> {
        let mut complaints = self.surprises.clone();
        complaints.extend(self.next.iter().map(|response| format!("scripted, but never asked for: {response:?}")));
        for (event_id, responses) in &self.for_event {
            complaints
                .extend(responses.iter().map(|response| format!("scripted, but never sent: {event_id}: {response:?}")));
        }
        complaints
    }

    /// Accepts an event, once per `event_id`. The seal shows whether it is the same event again.
    fn event(&mut self, event_id: &str, request: &Request, stores: bool) -> Reply {
        if let Some(known) = self.taken.get_mut(event_id) {
            if seal(&known.body) != seal(&request.body) {
                return Reply::json(409, &json!({"error": "event_id_conflict"}));
            }
            known.deliveries += u64::from(stores);
            return Reply::json(200, &json!({"receipt_id": known.receipt_id}));
        }
        let receipt_id = receipt(self.taken.len());
        if stores && authorised(request) {
            let scope = ["attache-account", "attache-identity", "attache-machine"];
            let scope = scope.map(|name| request.header(name).map(str::to_owned));
            let taken = Taken { receipt_id: receipt_id.clone(), body: request.body.clone(), deliveries: 1, scope };
            self.taken.insert(event_id.to_owned(), taken);
        }
        Reply::json(200, &json!({"receipt_id": receipt_id}))
    }

    fn activity(&self) -> Reply {
        let events: Vec<Value> = self
            .taken
            .iter()
            .map(|(event_id, taken)| json!({"event_id": event_id, "receipt_id": taken.receipt_id}))
            .collect();
        Reply::json(200, &json!({"events": events, "next_cursor": null}))
    }

    fn audit(&self, query: &str) -> Reply {
        let event_id = query.split('&').find_map(|pair| pair.strip_prefix("event_id=")).unwrap_or_default();
        match self.taken.get(event_id) {
            Some(taken) => Reply::json(200, &json!({"event_id": event_id, "receipt_id": taken.receipt_id})),
            None => Reply::json(404, &json!({"error": "event_not_found"})),
        }
    }
}

fn authorised(request: &Request) -> bool {
    request.header("authorization").and_then(|value| value.strip_prefix("Bearer ")) == Some(TOKEN)
}

fn surprises_of_any(request: &Request) -> Vec<String> {
    let unexpected = request.headers.keys().filter(|name| !HEADERS_EXPECTED.contains(&name.as_str()));
    let mut surprises: Vec<String> = unexpected.map(|name| format!("unexpected header {name}")).collect();
    if !authorised(request) {
        surprises.push("no bearer token, or not ours".to_owned());
    }
    surprises
}

fn surprises_of_event(request: &Request) -> Vec<String> {
    let Ok(event) = serde_json::from_slice::<Value>(&request.body) else {
        return vec!["the body is not JSON".to_owned()];
    };
    let mut surprises = Vec::new();
    for (header, pointer) in [
        ("idempotency-key", "/event_id"),
        ("attache-machine", "/scope/machine_id"),
        ("attache-identity", "/scope/user_id"),
    ] {
        let (said, inside) = (request.header(header), event.pointer(pointer).and_then(Value::as_str));
        if said.is_none() || said != inside {
            surprises.push(format!("header {header} is {said:?}, but the envelope has {inside:?} at {pointer}"));
        }
    }
    if request.header("content-type") != Some("application/json") {
        surprises.push("Content-Type is not application/json".to_owned());
    }
    surprises
}

fn surprises_of_read(request: &Request) -> Vec<String> {
    let scoped = ["attache-account", "attache-machine"].iter().any(|name| request.headers.contains_key(*name));
    let mut surprises = Vec::new();
    if !scoped {
        surprises.push("a read that names neither account nor machine would show everything".to_owned());
    }
    if !request.body.is_empty() {
        surprises.push("a read with a body".to_owned());
    }
    surprises
}

/// `hash_chain.self`, or the whole body when there is none.
fn seal(body: &Bytes) -> Vec<u8> {
    let event: Option<Value> = serde_json::from_slice(body).ok();
    let seal = event.as_ref().and_then(|event| event.pointer("/hash_chain/self")).and_then(Value::as_str);
    seal.map_or_else(|| body.to_vec(), |seal| seal.as_bytes().to_vec())
}

/// The `UUIDv7` of the n-th event taken: repeatable, so that a failing run can be read.
fn receipt(number: usize) -> String {
    let bytes = (number as u128).to_be_bytes();
    let tail: [u8; 10] = std::array::from_fn(|place| bytes[place + 6]);
    uuid::Builder::from_unix_timestamp_millis(1_767_225_600_000, &tail).into_uuid().to_string()
}
