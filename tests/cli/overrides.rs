//! `attache config set`: an operator overrides a live setting of running servers for a time.

use blackbox::client::{Client, Credential};
use blackbox::eventually;
use blackbox::flow;
use blackbox::process::{Home, Server};
use harness::event::{Chain, Machine};
use serde_json::{Value, json};

const LIMIT: &str = "limits.link_reads_per_minute";

async fn overridden(server: &Server) -> Vec<Value> {
    let ready = Client::new().get(&format!("{}/readyz", server.operator), Credential::None).await.expect(200);
    let parts = ready["degraded"].as_array().unwrap().iter();
    parts.filter(|part| part["part"] == "overrides").cloned().collect()
}

async fn until_overridden(server: &Server, number: usize) -> Vec<Value> {
    eventually("the overrides are in force", async || {
        let parts = overridden(server).await;
        (parts.len() == number).then_some(parts)
    })
    .await
}

/// The statuses of two reads of a link.
async fn reads(server: &Server) -> [u16; 2] {
    let link = format!("{}/feeds/unknown", server.url);
    let first = Client::new().get(&link, Credential::None).await.status;
    [first, Client::new().get(&link, Credential::None).await.status]
}

#[tokio::test(flavor = "multi_thread")]
async fn an_override_is_in_force_on_a_running_server_and_after_its_restart() {
    let home = Home::new();
    let mut server = home.serve().await;
    assert_eq!(reads(&server).await, [404, 404]);
    let said = home.run(&["config", "set", LIMIT, "1", "--for", "30m", "--reason", "a crawler"]);
    assert!(said.said().contains("limits.link_reads_per_minute is 1 on all nodes until 2"), "{said:?}");
    let parts = until_overridden(&server, 1).await;
    let reason = flow::text(&parts[0], "reason");
    assert!(reason.contains("limits.link_reads_per_minute is 1 until 2") && reason.contains("shell:"), "{reason}");
    assert_eq!(reads(&server).await, [404, 424]);
    // A second operator learns of it.
    let taken = home.run(&["config", "set", LIMIT, "2"]);
    taken.refused(1, &["is 1 on all nodes until 2", "set by shell:", "--replace"]);
    home.run(&["config", "set", "actors.ordered.queue_max", "7", "--until-unset", "--node", "elsewhere"]).said();
    let listed = home.run(&["config", "overrides", "--json"]).json();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["until"]), (2, &json!(null)), "{listed}");
    let doctor = home.run(&["doctor"]);
    assert!(doctor.said().contains("actors.ordered.queue_max, limits.link_reads_per_minute"), "{doctor:?}");
    assert!(!doctor.said().contains("other settings"), "an override is no difference of configurations: {doctor:?}");
    assert!(home.run(&["config", "overrides"]).said().contains(" min  shell:"), "its end is relative");

    server.process.signal("TERM");
    server.process.exit().await;
    let server = home.serve().await;
    assert_eq!(overridden(&server).await.len(), 1, "at once, and only the override of this node");
    assert_eq!(reads(&server).await, [404, 424]);
    home.run(&["config", "set", LIMIT, "0", "--replace"]).said();
    eventually("the new value is in force", async || (reads(&server).await == [404, 404]).then_some(())).await;
    home.run(&["config", "unset", LIMIT]).said();
    until_overridden(&server, 0).await;
    home.run(&["config", "unset", LIMIT]).refused(4, &["no such override"]);

    let acts = home.run(&["admin", "act", "list", "--json"]).json();
    let mut acts: Vec<_> = acts.as_array().unwrap().iter().map(|act| (&act["act"], &act["outcome"])).collect();
    acts.reverse();
    let expected = [
        ("config_set", "applied"),
        ("config_set", "refused"),
        ("config_set", "applied"),
        ("config_set", "applied"),
        ("config_unset", "applied"),
        ("config_unset", "refused"),
    ];
    assert_eq!(json!(acts), json!(expected));
    let sets = home.run(&["admin", "act", "list", "--target", &format!("setting:{LIMIT}"), "--json"]).json();
    assert_eq!((&sets[2]["before"], &sets[2]["after"]), (&json!(1), &json!(0)), "{sets}");
    assert!(sets[2]["until"].is_string() && acts_of_other_node(&home)["until"].is_null(), "{sets}");
}

fn acts_of_other_node(home: &Home) -> Value {
    let target = "setting:actors.ordered.queue_max@elsewhere";
    home.run(&["admin", "act", "list", "--target", target, "--json"]).json()[0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn overrides_of_limits_are_in_force_for_the_next_event_and_connection() {
    let home = Home::new();
    let server = home.serve().await;
    let client = Client::new();
    let [lone, other] = [(); 2].map(|()| flow::uuid());
    let lone = client.machine(&server.url, "tz4a98xxat96iws9zmbrgj3a", &lone).await;
    let other = client.machine(&server.url, "tz4a98xxat96iws9zmbrgj3a", &other).await;
    let (mut of_lone, mut of_other) = (Chain::new(&lone), Chain::new(&other));
    let send = async |machine: &Machine, event: &Value| {
        client.event(&server.url, machine, event.to_string().into()).await.unwrap()
    };
    send(&lone, &of_lone.next()).await.receipt();
    for (path, value) in [
        ("events.unattached.events_per_day", "1"),
        ("plans.FREE.event_bytes_per_day", "1000"),
        ("http.head_bytes_max", "10000"),
        ("webhooks.timeout", "1s"),
        ("knowledge.batch.items_max", "1"),
    ] {
        home.run(&["config", "set", path, value, "--for", "30m", "--reason", "a flood"]).said();
    }
    until_overridden(&server, 5).await;
    // Its connection is new.
    let newcomer = Client::new();
    let request = newcomer.request(reqwest::Method::GET, &format!("{}/nothing", server.url), &Credential::None);
    let response = newcomer.try_send(request.header("x-long", "x".repeat(30_000))).await;
    assert!(response.is_none_or(|response| response.status == 431), "the server may end the connection first");
    let refused = send(&lone, &of_lone.next()).await;
    assert_eq!(refused.refused(424, "temporarily_unavailable")["reason"], "quota_exceeded");
    send(&other, &of_other.next()).await.receipt();
    send(&other, &of_other.next()).await.refused(424, "temporarily_unavailable");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_override_ends_by_itself() {
    let home = Home::new();
    let server = home.serve().await;
    home.run(&["config", "set", LIMIT, "1", "--for", "2s"]).said();
    until_overridden(&server, 1).await;
    until_overridden(&server, 0).await;
    assert_eq!(reads(&server).await, [404, 404]);
    assert_eq!(home.run(&["config", "overrides"]).said(), "(none)");
}

#[test]
fn wrong_overrides_are_refused_in_the_words_of_the_file() {
    let home = Home::new().set("admin.override_max", "1day");
    home.run(&["migrate"]).said();
    let set = |path: &str, value: &str, more: &[&str]| home.run(&[&["config", "set", path, value], more].concat());
    set("limits.link_read_per_minute", "1", &[]).refused(78, &["did you mean limits.link_reads_per_minute"]);
    set(LIMIT, "-1", &[]).refused(78, &["the value: limits.link_reads_per_minute: invalid value"]);
    set("actors.restart.jitter", "7", &[]).refused(78, &["the value: actors.restart.jitter"]);
    set("http.auth_name", "other", &[]).refused(1, &["takes effect with a restart"]);
    set("database.lock_timeout", "2s", &[]).refused(1, &["takes effect when the file is read again"]);
    set(LIMIT, "1", &["--for", "2days"]).refused(1, &["lasts 1day at most", "admin.override_max"]);
    set(LIMIT, "1", &["--for", "soon"]).refused(2, &["--for"]);
    set(LIMIT, "1", &["--for", "1h", "--until-unset"]).refused(2, &["--until-unset"]);
    set("telemetry.log", "attache=verbose", &[]).refused(78, &["the value: telemetry.log: expected a level"]);
    assert_eq!(home.run(&["config", "overrides", "--json"]).json(), json!([]));
    // The other overrides count: the shortest delay fits the longest one.
    set("actors.restart.backoff_max", "30s", &[]).said();
    set("actors.restart.backoff_min", "20s", &[]).said();
    set("actors.restart.backoff_max", "15s", &["--replace"]).refused(78, &["actors.restart"]);
}
