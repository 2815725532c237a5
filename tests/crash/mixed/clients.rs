//! The clients of [`super`]. Each one repeats a request until it has a response, and returns the acknowledged facts.

use std::collections::BTreeSet;
use std::sync::Arc;

use blackbox::client::{Client, Credential, DEVICE_GRANT, Response};
use blackbox::flow::{text, uuid};
use blackbox::library::notes_about;
use blackbox::process::Home;
use blackbox::stream::{Stream, assert_whole};
use domain::{Clock, Rng};
use harness::event::{Chain, Machine};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::PAUSE;

/// A person, their programs, and the address of a server that is killed.
pub(super) struct Person {
    pub(super) home: Arc<Home>,
    pub(super) client: Client,
    pub(super) url: watch::Sender<String>,
    pub(super) stop: watch::Sender<bool>,
    pub(super) cookie: Credential,
    pub(super) key: String,
}

/// The facts that the server acknowledged.
pub(super) struct Acknowledged {
    /// Levels of one computer and lane, in the order in which they were set.
    pub(super) levels: Vec<&'static str>,
    /// Ids of events that are held.
    pub(super) held: Vec<String>,
    /// Batches with their memories.
    pub(super) batches: Vec<(String, Vec<String>)>,
    /// Ids of imported memories.
    pub(super) imported: BTreeSet<String>,
    /// Computers that learned that they are attached, each with an event that was released.
    pub(super) attached: Vec<Attached>,
}

/// An attached computer, and its event that was held before the attachment, released by command, and sent again.
pub(super) struct Attached {
    pub(super) machine: Machine,
    pub(super) event_id: String,
    pub(super) receipt: String,
}

impl Acknowledged {
    pub(super) fn summary(&self) -> String {
        let memories: usize = self.batches.iter().map(|(_, ids)| ids.len()).sum();
        format!(
            "{} levels, {} held, {} batches of {memories} memories, {} imported, {} computers attached with a released event each",
            self.levels.len(),
            self.held.len(),
            self.batches.len(),
            self.imported.len(),
            self.attached.len()
        )
    }

    pub(super) fn is_complete(&self) -> bool {
        !(self.levels.is_empty()
            || self.held.is_empty()
            || self.batches.is_empty()
            || self.imported.is_empty()
            || self.attached.is_empty())
    }
}

impl Person {
    pub(super) fn as_person(&self, method: Method, url: &str) -> RequestBuilder {
        self.client.request(method, url, &self.cookie)
    }

    fn as_library(&self, method: Method, url: &str) -> RequestBuilder {
        self.client.request(method, url, &Credential::Bearer(self.key.clone()))
    }

    fn stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// Repeats a request until it has a response that is not "temporarily unavailable"; asserts its status.
    pub(super) async fn insist(&self, status: u16, request: impl Fn(&str) -> RequestBuilder) -> Response {
        loop {
            let url = self.url.borrow().clone();
            match self.client.try_send(request(&url)).await {
                Some(response) if ![424, 503].contains(&response.status) => {
                    response.expect(status);
                    return response;
                }
                _ => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Sends an event until it has a response.
    async fn send_event(&self, machine: &Machine, event: &Value) -> Response {
        let request =
            |url: &str| self.client.request(Method::POST, &format!("{url}/api/v1/events"), &machine.into()).json(event);
        self.insist(202, request).await
    }

    /// Registers a computer. `None` without a response: the secret is lost, and another computer has to be registered.
    pub(super) async fn register(&self) -> Option<Machine> {
        let (user_cuid, uuid) = (Rng::system().cuid2(), uuid());
        let names = json!({ "user_cuid": user_cuid, "machine_uuid": uuid });
        let url = format!("{}/api/v1/machines", self.url.borrow().clone());
        let register = self.client.request(Method::POST, &url, &Credential::None).json(&names);
        let Some(made) = self.client.try_send(register).await.filter(|response| response.status == 201) else {
            tokio::time::sleep(PAUSE).await;
            return None;
        };
        Some(Machine { user_cuid, uuid, secret: text(&made.json(), "machine_secret") })
    }

    /// Attaches a computer; returns when it has learned that.
    pub(super) async fn attach(&self, machine: &Machine) {
        let names = json!({ "user_cuid": machine.user_cuid, "machine_uuid": machine.uuid });
        loop {
            let request = |url: &str| {
                self.client.request(Method::POST, &format!("{url}/api/v1/device/code"), &machine.into()).json(&names)
            };
            let code = self.insist(200, request).await.json();
            let (device_code, user_code) = (text(&code, "device_code"), text(&code, "user_code"));
            self.approve(&user_code).await;
            let poll = json!({ "grant_type": DEVICE_GRANT, "device_code": device_code });
            let url = self.url.borrow().clone();
            let polled = self.client.request(Method::POST, &format!("{url}/api/v1/device/token"), &Credential::None);
            if let Some(polled) = self.client.try_send(polled.json(&poll)).await
                && polled.status == 200
            {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Approves once; 409 and 410 after a lost answer say that it holds.
    async fn approve(&self, user_code: &str) {
        loop {
            let url = format!("{}/api/v1/device/approve", self.url.borrow().clone());
            let approve = self.as_person(Method::POST, &url).json(&json!({ "user_code": user_code }));
            match self.client.try_send(approve).await {
                Some(response) if [200, 409, 410].contains(&response.status) => return,
                Some(response) => assert_eq!(response.status, 424, "{response:?}"),
                None => {}
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Repeatedly sets the level of one lane of a computer to another level, and reads it back.
pub(super) async fn changes_consent(person: Arc<Person>, computer: Machine) -> Vec<&'static str> {
    let mut levels = Vec::new();
    for level in ["off", "metadata-only", "full"].into_iter().cycle() {
        if person.stopped() {
            break;
        }
        let body = json!({ "level": level, "machine_uuid": computer.uuid, "lane": "squad" });
        loop {
            let url = format!("{}/api/v1/consent", person.url.borrow().clone());
            match person.client.try_send(person.as_person(Method::POST, &url).json(&body)).await {
                // 502: the level is set, and its report waits in the outbox.
                Some(response) if [200, 502].contains(&response.status) => break,
                Some(response) => assert_eq!(response.status, 424, "{response:?}"),
                None => {}
            }
            tokio::time::sleep(PAUSE).await;
        }
        levels.push(level);
        let path = format!("/api/v1/consent?machine_uuid={}&lane=squad", computer.uuid);
        let read = person.insist(200, |url| person.as_person(Method::GET, &format!("{url}{path}"))).await.json();
        assert_eq!(read["level"], level, "an acknowledged level is lost");
        tokio::time::sleep(PAUSE).await;
    }
    levels
}

/// Sends events of a type that the server does not know; returns the ids of the held events.
pub(super) async fn sends_unknown_events(person: Arc<Person>, chain: Chain) -> Vec<String> {
    let mut held = Vec::new();
    while !person.stopped() {
        let event = chain.peek_with(|event| event["event_type"] = json!("memory.dreamt"));
        person.send_event(&chain.machine, &event).await.held("unknown_event_type");
        held.push(text(&event, "event_id"));
        tokio::time::sleep(PAUSE).await;
    }
    held
}

/// Attaches one computer after the other. An event that names the account before is held; the operator's command releases it.
pub(super) async fn attaches_computers(person: Arc<Person>) -> Vec<Attached> {
    let summary =
        person.insist(200, |url| person.as_person(Method::GET, &format!("{url}/api/v1/account/summary"))).await;
    let account = text(&summary.json()["sections"]["account"], "id");
    let mut attached = Vec::new();
    while !person.stopped() {
        let Some(machine) = person.register().await else { continue };
        let event = Chain::new(&machine).next_with(|event| event["scope"]["user_account_id"] = json!(account));
        let event_id = text(&event, "event_id");
        person.send_event(&machine, &event).await.held("identity_mismatch");
        person.attach(&machine).await;
        let receipt = loop {
            if let Some(receipt) = release(&person, &machine, &event_id) {
                break receipt;
            }
            tokio::time::sleep(PAUSE).await;
        };
        let resent = person.send_event(&machine, &event).await.receipt();
        assert_eq!(resent, receipt, "a released event has another receipt");
        attached.push(Attached { machine, event_id, receipt });
        tokio::time::sleep(5 * PAUSE).await;
    }
    attached
}

/// Releases an event by the operator's command, twice; returns its receipt, or `None` if the database was briefly unavailable.
fn release(person: &Person, machine: &Machine, event_id: &str) -> Option<String> {
    let sender = format!("machine:{}", machine.uuid);
    let list = ["admin", "held", "list", "--json", "--all", "--limit", "1000000", "--sender", &sender];
    let entry = || -> Option<Value> {
        let listed = tokio::task::block_in_place(|| person.home.run(&list));
        let entries: Value = serde_json::from_str(&listed.stdout).ok()?;
        entries.as_array()?.iter().find(|entry| entry["event_id"] == event_id).cloned()
    };
    let id = text(&entry()?, "id");
    for _ in 0..2 {
        // The second is refused, because the event is released already; the entry shows the receipt.
        tokio::task::block_in_place(|| person.home.run(&["admin", "held", "release", &id]));
    }
    entry()?["receipt_id"].as_str().map(str::to_owned)
}

/// Adds batches of notes and joins their streams until each is complete; returns the batches with their memories.
pub(super) async fn adds_batches(person: Arc<Person>) -> Vec<(String, Vec<String>)> {
    let mut batches = Vec::new();
    while !person.stopped() {
        let number = batches.len();
        let notes = notes_about(&format!("batch {number}"), 8);
        let mut stream = loop {
            let url = format!("{}/v1/batch-add", person.url.borrow().clone());
            let add = person.as_library(Method::POST, &url).header("idempotency-key", format!("batch-{number}"));
            if let Some(stream) = opened(add.json(&notes)).await {
                break stream;
            }
            tokio::time::sleep(PAUSE).await;
        };
        let (batch, mut messages, mut last) = (stream.batch.clone(), Vec::new(), None);
        loop {
            while let Some(message) = stream.next_or_cut().await {
                messages.push(message);
            }
            last = stream.last.clone().or(last);
            if messages.last().is_some_and(|message: &Value| message["type"] == "complete") {
                break;
            }
            stream = loop {
                let url = format!("{}/v1/batch-add/{batch}", person.url.borrow().clone());
                let mut join = person.as_library(Method::GET, &url);
                if let Some(last) = &last {
                    join = join.header("last-event-id", last);
                }
                if let Some(stream) = opened(join).await {
                    break stream;
                }
                tokio::time::sleep(PAUSE).await;
            };
        }
        assert_whole(&messages);
        let ids = messages.iter().filter_map(|message| message["id"].as_str()).map(str::to_owned).collect();
        batches.push((batch, ids));
        tokio::time::sleep(PAUSE).await;
    }
    batches
}

async fn opened(request: RequestBuilder) -> Option<Stream> {
    let response = request.send().await.ok()?;
    if response.status() == 503 {
        return None;
    }
    Some(Stream::open(response).await)
}

/// Imports memories with given ids, each group until its last line is answered; returns the ids.
pub(super) async fn imports(person: Arc<Person>, rng: Rng) -> BTreeSet<String> {
    let mut imported = BTreeSet::new();
    while !person.stopped() {
        // A line from the server's future gets another id, and the clock of a machine may be set back by milliseconds.
        let now = Clock::system().now() - chrono::TimeDelta::seconds(1);
        let ids: Vec<String> = (0..5).map(|_| rng.uuid_v7(now).to_string()).collect();
        let line = |id: &String| {
            let (time, url) = (domain::clock::date_time(now), format!("https://example.com/v1/memories/{id}"));
            let memory = json!({
                "id": id, "title": id, "url": url, "content": format!("The text of {id}"), "createdAt": time,
                "updatedAt": time, "type": "note", "spaces": [], "tags": [],
            });
            memory.to_string()
        };
        let body = ids.iter().map(line).collect::<Vec<_>>().join("\n");
        loop {
            let url = format!("{}/v1/import", person.url.borrow().clone());
            let request = person.as_library(Method::POST, &url).header("content-type", "application/x-ndjson");
            if let Some(response) = person.client.try_send(request.body(body.clone())).await
                && response.status != 503
            {
                let lines = String::from_utf8(response.body.to_vec()).unwrap();
                let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
                assert_eq!((&last["type"], &last["failed"]), (&json!("complete"), &json!(0)), "{lines}");
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        imported.extend(ids);
        tokio::time::sleep(PAUSE).await;
    }
    imported
}
