//! `attache admin held`: an operator lists, releases and discards held events while the server runs.

use domain::Clock;
use domain::consent::{Author, ConsentLevel, ConsentRule};
use serde_json::{Value, json};
use store::{DatabaseSettings, Store};

use blackbox::client::{Client, Credential};
use blackbox::flow;
use blackbox::process::{Home, Server};
use harness::event::{Chain, Machine};

/// The id of the one entry that waits for this event.
fn entry(home: &Home, event: &Value) -> String {
    let listed = home.run(&["admin", "held", "list", "--json"]).json();
    let found = listed.as_array().unwrap().iter().find(|entry| entry["event_id"] == event["event_id"]);
    flow::text(found.unwrap_or_else(|| panic!("not held: {listed}")), "id")
}

fn release(home: &Home, id: &str) -> blackbox::process::Done {
    home.run(&["admin", "held", "release", id])
}

async fn activity(server: &Server, who: impl Into<Credential>) -> Value {
    Client::new().get(&format!("{}/api/v1/activity", server.url), who).await.expect(200)
}

/// A person who sends, from the browser, events of a computer that is not attached to the account yet.
struct Early {
    home: Home,
    server: Server,
    person: Credential,
    machine: Machine,
}

impl Early {
    async fn new() -> Self {
        let home = Home::new();
        let server = home.serve().await;
        let person = flow::session(&home, "ada@example.com");
        let machine = flow::machine(&server).await;
        Self { home, server, person, machine }
    }

    fn attach(&self) {
        let accounts = self.home.run(&["admin", "account", "list", "--json"]).json();
        let account = flow::text(&accounts[0], "user_account_id");
        self.home
            .run(&["admin", "machine", "attach", "--machine-uuid", &self.machine.uuid, "--account", &account])
            .said();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_beside_the_living_server_forwards_and_is_proven() {
    let early = Early::new().await;
    let Early { home, server, person, machine } = &early;
    let mut chain = Chain::new(machine);
    let (first, second) = (chain.next(), chain.next());
    for event in [&first, &second] {
        assert!(flow::event(server, person.clone(), event).await.warning().starts_with("identity_mismatch: "));
    }
    assert_eq!(activity(server, person.clone()).await["unclassified"].as_array().unwrap().len(), 2);
    let id = entry(home, &first);
    release(home, &id).refused(1, &["the event is still held: identity_mismatch: "]);
    early.attach();

    // The statistics service refuses an event out of order, and the entry stays.
    release(home, &entry(home, &second)).refused(1, &["the statistics service answered 409", "chain_conflict"]);
    let released = home.run(&["admin", "held", "release", &id, "--json"]).json();
    assert_eq!(released["released"], id);
    let receipt = flow::text(&released, "receipt_id");
    let output = release(home, &entry(home, &second));
    assert!(output.said().contains("is released, receipt "), "{output:?}");
    release(home, &id).refused(1, &["the event is already released"]);

    let page = activity(server, person.clone()).await;
    assert_eq!(page["unclassified"], json!([]));
    assert_eq!(page["events"].as_array().unwrap().len(), 2);
    for event in [&first, &second] {
        flow::proof(server, machine, event["event_id"].as_str().unwrap()).await;
    }
    // A resend gets the same receipt.
    assert_eq!(flow::event(server, person.clone(), &first).await.receipt(), receipt);
    assert_eq!(home.run(&["admin", "held", "list"]).said(), "(none)");
    let all = home.run(&["admin", "held", "list", "--all", "--json"]).json();
    assert!(all.as_array().unwrap().iter().all(|entry| entry["state"] == "released"), "{all}");
    // The running server continues the chain.
    flow::event(server, machine, &chain.next()).await.receipt();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resend_releases_too() {
    let early = Early::new().await;
    let event = Chain::new(&early.machine).next();
    flow::event(&early.server, early.person.clone(), &event).await.warning();
    early.attach();
    flow::event(&early.server, early.person.clone(), &event).await.receipt();
    assert_eq!(early.home.run(&["admin", "held", "list"]).said(), "(none)");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_a_sender_wrote_reaches_the_terminal_as_a_command() {
    let home = Home::new();
    let server = home.serve().await;
    let machine = flow::machine(&server).await;
    let hostile = Chain::new(&machine).peek_with(|event| event["event_type"] = json!("a\u{9b}2J\u{202e}\u{200b}b"));
    flow::event(&server, &machine, &hostile).await.warning();
    let obeyed = |text: &str| text.contains(['\u{9b}', '\u{202e}', '\u{200b}', '\u{1b}']);
    let listed = home.run(&["admin", "held", "list", "--json"]);
    let id = flow::text(&listed.json()[0], "id");
    let output = home.run(&["admin", "held", "show", &id, "--json"]);
    let body: Value = serde_json::from_str(output.json()["body"].as_str().unwrap()).unwrap();
    assert_eq!(body["event_type"], hostile["event_type"], "escaped, and the same value");
    for done in [listed, output, home.run(&["admin", "held", "list"]), home.run(&["admin", "held", "show", &id])] {
        assert!(!done.said().is_empty() && !obeyed(&done.stdout), "{done:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn held_events_are_listed_shown_and_discarded() {
    let home = Home::new();
    let server = home.serve().await;
    let machine = flow::machine(&server).await;
    let chain = Chain::new(&machine);
    let unknown = chain.peek_with(|event| event["event_type"] = json!("memory.dreamt"));
    assert!(flow::event(&server, &machine, &unknown).await.warning().starts_with("unknown_event_type: "));
    flow::event(&server, &machine, &json!({ "n": 1 })).await.warning();

    let listed = |arguments: &[&str]| home.run(&[&["admin", "held", "list"], arguments].concat());
    assert_eq!(listed(&["--json"]).json().as_array().unwrap().len(), 2);
    assert_eq!(listed(&["--json", "--limit", "1"]).json().as_array().unwrap().len(), 1);
    let malformed = listed(&["--json", "--reason", "malformed_envelope"]).json();
    assert_eq!((malformed.as_array().unwrap().len(), &malformed[0]["event_id"]), (1, &Value::Null));
    let output = listed(&[]);
    assert!(output.said().contains("unknown_event_type") && output.said().contains(&machine.uuid), "{output:?}");

    let id = entry(&home, &unknown);
    let value = home.run(&["admin", "held", "show", &id, "--json"]).json();
    assert_eq!((&value["reason"], &value["event_id"]), (&json!("unknown_event_type"), &unknown["event_id"]));
    assert_eq!(serde_json::from_str::<Value>(value["body"].as_str().unwrap()).unwrap(), unknown);
    assert!(home.run(&["admin", "held", "show", &id]).said().contains("a fact"));
    release(&home, &id).refused(1, &["the event is still held: unknown_event_type: "]);
    assert_eq!(listed(&["--json"]).json().as_array().unwrap().len(), 2, "a release in vain changes nothing");

    assert_eq!(home.run(&["admin", "held", "discard", &id, "--json"]).json(), json!({ "discarded": id }));
    home.run(&["admin", "held", "discard", &id]).refused(4, &["no held event has this id"]);
    release(&home, &id).refused(1, &["the event is already discarded"]);
    let value = home.run(&["admin", "held", "show", &id, "--json"]).json();
    assert_eq!((&value["state"], &value["body"]), (&json!("discarded"), &Value::Null));
    let unknown = flow::uuid();
    for command in ["show", "release", "discard"] {
        home.run(&["admin", "held", command, &unknown]).refused(4, &["no held event has this id"]);
    }
    assert_eq!(activity(&server, &machine).await["unclassified"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn held_events_without_a_body_cannot_be_released() {
    let home = Home::new();
    let server = home.serve().await;
    let machine = flow::machine(&server).await;
    let store = Store::open(&DatabaseSettings::default(), &home.data().join("attache.db")).await.unwrap();
    let rule = ConsentRule { machine: None, lane: None, level: ConsentLevel::MetadataOnly, set_by: Author::Person };
    let identity = machine.user_cuid.parse().unwrap();
    store.consent_set(&[identity], &rule, None, Clock::system().now(), &domain::Rng::system()).await.unwrap();
    store.close().await;

    let event = Chain::new(&machine).next_with(|event| event["payload"]["content"] = json!("nobody may read this"));
    assert!(flow::event(&server, &machine, &event).await.warning().starts_with("consent_exceeded: "));
    let id = entry(&home, &event);
    assert_eq!(home.run(&["admin", "held", "show", &id, "--json"]).json()["body"], Value::Null);
    release(&home, &id).refused(1, &["its payload was not stored", "the sender has to send it again"]);
    for path in blackbox::files(&home.data()) {
        let bytes = std::fs::read(&path).unwrap();
        assert!(!bytes.windows(20).any(|window| window == b"nobody may read this"), "{}", path.display());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_held_events_are_released_in_two_requests_of_one_act_each() {
    let home = Home::new();
    let server = home.serve().await;
    let account = home.run(&["admin", "account", "create", "--email", "ada@example.com", "--json"]).json();
    let account = flow::text(&account, "user_account_id");
    let machine = flow::machine(&server).await;
    let mut chain = Chain::new(&machine);
    let client = Client::new();
    for _ in 0..1_200 {
        let event = chain.next_with(|event| event["scope"]["user_account_id"] = json!(account));
        let url = format!("{}/api/v1/events", server.url);
        client.post(&url, &machine, &event).await.held("identity_mismatch");
    }
    let sender = format!("machine:{}", machine.uuid);
    let release = |more: &[&str]| {
        let command = ["admin", "held", "release", "--held-for", "identity_mismatch", "--sender", &sender];
        home.run(&[&command, more].concat())
    };
    release(&[]).refused(1, &["a reason has 1 to 500 characters"]);
    assert_eq!(release(&["--dry-run", "--reason", "a test"]).said(), "1200 events match");
    let still = release(&["--reason", "a test", "--json"]).json();
    assert_eq!(still["outcomes"], json!({ "still_held": 1200 }), "{still}");

    home.run(&["admin", "machine", "attach", "--machine-uuid", &machine.uuid, "--account", &account]).said();
    let started = std::time::Instant::now();
    let released = release(&["--reason", "it is attached now", "--json"]).json();
    println!("released in {:.1} s", started.elapsed().as_secs_f64());
    assert_eq!(
        (&released["matches"], &released["outcomes"]),
        (&json!(1200), &json!({ "released": 1200 })),
        "{released}"
    );
    assert_eq!(home.run(&["admin", "held", "list", "--json"]).json(), json!([]));
    // In the order in which they were sent, so that their chain continues.
    client.post(&format!("{}/api/v1/events", server.url), &machine, &chain.next()).await.receipt();
    let acts = home.run(&["admin", "act", "list", "--act", "held_release", "--json"]).json();
    let acts: Vec<_> = acts.as_array().unwrap().iter().map(|act| (&act["after"]["number"], &act["reason"])).collect();
    let (now, before) = (json!("it is attached now"), json!("a test"));
    let numbers = [json!(200), json!(1000)];
    assert_eq!(acts[..4], [(&numbers[0], &now), (&numbers[1], &now), (&numbers[0], &before), (&numbers[1], &before)]);
}
