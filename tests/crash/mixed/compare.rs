//! Compares the acknowledged facts of [`super`] with the facts that the server shows and has sent.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use blackbox::client::Credential;
use blackbox::flow::text;
use blackbox::receiver::Receiver;
use harness::event::Machine;
use harness::smtp::MailServer;
use serde_json::Value;
use tokio::time::Instant;

use super::clients::{Acknowledged, Attached, Person};

/// Maximum time until notifications of a killed server were sent again: the second retry of a webhook follows after five minutes.
const NOTIFIED_WITHIN: Duration = Duration::from_secs(400);

/// Each acknowledged level has one report, and their chain has them in the order in which they were set.
pub(super) async fn consent(person: &Person, computer: &Machine, levels: &[&str]) {
    let reports = consent_reports(person).await;
    let set: Vec<String> = reports
        .into_iter()
        .filter(|report| report["machine_uuid"] == computer.uuid.as_str() && report["lane"] == "squad")
        .map(|report| text(&report, "level"))
        .collect();
    assert_eq!(set, levels, "reports and acknowledged levels differ");
}

/// The payloads of all reports of changed levels, with their event ids, in the order of their chains.
async fn consent_reports(person: &Person) -> Vec<Value> {
    let mut places = BTreeMap::new();
    for event in activity(person, &person.cookie, "&lane=security").await {
        if event["event_type"] == "consent.changed" {
            let place = (text(&event, "machine_uuid"), event["chain_epoch"].as_u64(), event["seq"].as_u64());
            assert!(places.insert(place, text(&event, "event_id")).is_none(), "two events at one place: {event}");
        }
    }
    let url = person.url.borrow().clone();
    let mut reports = Vec::new();
    for event_id in places.into_values() {
        let path = format!("{url}/api/v1/audit/verify?event_id={event_id}");
        let proof = person.client.get(&path, person.cookie.clone()).await.expect(200);
        let canonical = BASE64_STANDARD.decode(text(&proof, "canonical_b64")).unwrap();
        let event: Value = serde_json::from_slice(&canonical).unwrap();
        let mut report = event["payload"].clone();
        report["event_id"] = event_id.into();
        reports.push(report);
    }
    reports
}

/// All pages of the activity of a credential.
async fn activity(person: &Person, credential: &Credential, filter: &str) -> Vec<Value> {
    let url = person.url.borrow().clone();
    let (mut events, mut query) = (Vec::new(), String::new());
    loop {
        let path = format!("{url}/api/v1/activity?limit=500{filter}{query}");
        let page = person.client.get(&path, credential.clone()).await.expect(200);
        events.extend_from_slice(page["events"].as_array().unwrap());
        match page["next_cursor"].as_str() {
            Some(cursor) => query = format!("&cursor={cursor}"),
            None => return events,
        }
    }
}

/// Each computer has recorded its released event once, with the receipt of the release.
pub(super) async fn released(person: &Person, attached: &[Attached]) {
    for one in attached {
        let recorded = activity(person, &(&one.machine).into(), "").await;
        let ids: Vec<(String, String)> =
            recorded.iter().map(|event| (text(event, "event_id"), text(event, "receipt_id"))).collect();
        assert_eq!(ids, [(one.event_id.clone(), one.receipt.clone())]);
    }
}

/// The memories of all batches and imports are stored once, and no others.
pub(super) async fn memories(person: &Person, acknowledged: &Acknowledged) {
    let url = person.url.borrow().clone();
    let exported = person.client.get(&format!("{url}/v1/export"), Credential::Bearer(person.key.clone())).await;
    let mut stored = BTreeSet::new();
    for line in std::str::from_utf8(&exported.body).unwrap().lines() {
        let memory: Value = serde_json::from_str(line).unwrap();
        assert!(stored.insert(text(&memory, "id")), "stored twice: {line}");
    }
    let mut known = acknowledged.imported.clone();
    known.extend(acknowledged.batches.iter().flat_map(|(_, ids)| ids.iter().cloned()));
    assert_eq!(stored, known);
}

/// Each changed level and ended batch was notified at least once, always under one id, and each held event once or by the count of another.
pub(super) async fn notifications(person: &Person, receiver: &Receiver, acknowledged: &Acknowledged) {
    let mut expected: BTreeSet<(&str, String)> = BTreeSet::new();
    expected.extend(acknowledged.batches.iter().map(|(batch, _)| ("batch.done", batch.clone())));
    for report in consent_reports(person).await {
        expected.insert(("consent.changed", text(&report, "event_id")));
    }
    let deadline = Instant::now() + NOTIFIED_WITHIN;
    loop {
        let mut ids: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
        // Held events by notification, including the further events that it counts; a repeat may count more.
        let mut held: BTreeMap<String, u64> = BTreeMap::new();
        for received in receiver.at("all") {
            let body = received.json();
            if body["type"] == "event.held" {
                let events = 1 + body["data"]["more"].as_u64().unwrap_or(0);
                let known = held.entry(received.id.clone()).or_default();
                *known = events.max(*known);
            }
            let subject = if body["type"] == "batch.done" { "batch_id" } else { "event_id" };
            ids.entry((text(&body, "type"), text(&body["data"], subject))).or_default().insert(received.id);
        }
        let missing = expected.iter().filter(|(kind, of)| !ids.contains_key(&((*kind).to_owned(), of.clone()))).count();
        let held: u64 = held.values().sum();
        if missing == 0 && held >= acknowledged.held.len() as u64 {
            let doubled: Vec<_> = ids.iter().filter(|(_, ids)| ids.len() > 1).collect();
            assert!(doubled.is_empty(), "facts with several notifications: {doubled:?}");
            let requests = receiver.at("all").len();
            eprintln!("{} facts and {held} held events notified by {requests} requests", expected.len());
            return;
        }
        let of = (expected.len(), acknowledged.held.len());
        assert!(
            Instant::now() < deadline,
            "of {of:?} facts and held events, {missing} and all but {held} were never notified"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The person received at least one mail about each attached computer.
pub(super) async fn mails(server: &MailServer, attached: &[Attached]) {
    let deadline = Instant::now() + NOTIFIED_WITHIN;
    loop {
        let mails = server.mails();
        let missing =
            attached.iter().filter(|one| !mails.iter().any(|mail| mail.data.contains(&one.machine.uuid))).count();
        if missing == 0 {
            eprintln!("{} computers in {} mails", attached.len(), mails.len());
            return;
        }
        assert!(Instant::now() < deadline, "{missing} of {} computers are in no mail", attached.len());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
