//! Rules about recorded events, and the weekly digest (`docs/protocol/rules.md`).

use std::time::Duration;

use actors::mail::TransportKind;
use app::config::Settings;
use chrono::TimeDelta;
use domain::rule::next_digest_after;
use harness::event::{Chain, Machine};
use harness::smtp::{MailServer, Setup};
use harness::upstream::Upstream;
use harness::{on_each_database, on_sqlite};
use reqwest::Method;
use serde_json::{Value, json};

use blackbox::browser::Browser;
use blackbox::client::{Credential, Response};
use blackbox::eventually;
use blackbox::receiver::{Receiver, permit};
use blackbox::world::{Person, World};

const RULES: &str = "/api/v1/rules";
const DIGEST: &str = "/api/v1/digest";
const ADA: &str = "ada@example.com";
const HOUR: Duration = Duration::from_hours(1);

async fn add(world: &World, person: &Person, rule: Value) -> Value {
    world.post(RULES, &person.cookie, &rule).await.expect(201)
}

async fn digest(world: &World, credential: &Credential, enabled: bool) -> Response {
    world.send(world.request(Method::PUT, DIGEST, credential).json(&json!({ "enabled": enabled }))).await
}

/// The event `llm.failed`, with content.
fn failure(chain: &mut Chain) -> Value {
    chain.next_with(|event| {
        event["event_type"] = json!("llm.failed");
        event["lane"] = json!("llm");
        event["payload"] = json!({ "model": "m", "prompt": "a secret recipe", "error": "overloaded" });
    })
}

/// A run of a tool in a project.
fn run(chain: &mut Chain, tool: &str, project: &str, succeeded: bool) -> Value {
    chain.next_with(|event| {
        event["event_type"] = json!("skill.invoked");
        event["lane"] = json!("skill");
        event["scope"]["project_id"] = json!(project);
        event["payload"] =
            json!({ "activity": "tool_finished", "skill": tool, "succeeded": succeeded, "input": { "command": "a secret recipe" } });
    })
}

async fn recorded(world: &World, machine: &Machine, events: impl IntoIterator<Item = Value>) {
    for event in events {
        world.event(machine, &event).await.receipt();
    }
}

/// Waits until the rules of a person count this number of events for their next messages.
async fn counted(world: &World, person: &Person, events: u64) {
    eventually("the events are counted", async || {
        let list = world.get(RULES, &person.cookie).await.expect(200);
        let rules = list["rules"].as_array().unwrap();
        (rules.iter().map(|rule| rule["waiting_events"].as_u64().unwrap()).sum::<u64>() == events).then_some(())
    })
    .await;
}

/// The mails of a rule, or the digests, to Ada.
fn mails(world: &World, subject: &str) -> Vec<String> {
    let mails = world.mails_to(ADA).into_iter();
    mails.filter(|mail| mail.contains(&format!("\r\nSubject: {subject}"))).collect()
}

async fn mail(world: &World, subject: &str, count: usize) -> String {
    let found = eventually(&format!("{count} mails: {subject}"), async || {
        let found = mails(world, subject);
        (found.len() >= count).then_some(found)
    })
    .await;
    assert_eq!(found.len(), count, "{found:?}");
    found.last().unwrap().clone()
}

/// A server with webhooks on this machine, and feeds.
async fn notifying(world: World) -> World {
    world
        .restart_with(|settings| {
            permit(settings);
            settings.feeds.enabled = true;
            settings.mail.drain_every = Duration::from_millis(50);
        })
        .await
}

/// Sends mail to this server.
fn over(url: String) -> impl FnOnce(&mut Settings) {
    move |settings| {
        settings.mail.transport = TransportKind::Smtp;
        settings.mail.from = Some("attache <attache@example.org>".into());
        settings.mail.smtp.url = Some(url);
        settings.mail.drain_every = Duration::from_millis(50);
    }
}

on_each_database! {
    async fn a_flood_is_one_message_by_mail_webhook_and_feed(world: World) {
        let world = notifying(world).await;
        let (receiver, address) = Receiver::start().await;
        let (person, stranger) = (world.person(ADA).await, world.person("bob@example.com").await);
        let (machine, other) = (world.attached_machine(&person).await, world.attached_machine(&stranger).await);
        let (mut chain, mut others) = (Chain::new(&machine), Chain::new(&other));
        let hook = json!({ "url": format!("http://{address}/ok"), "kinds": ["rule.matched"] });
        world.post("/api/v1/webhooks", &person.cookie, &hook).await.expect(201);
        let page = Browser::of(&world, &person).submit("/account/feed", &[("kind.rule.matched", "1")]).await;
        let (_, link) = page.page(200).split_once(&format!("{}/feeds/", world.server.app.urls.base)).unwrap();
        let link = format!("/feeds/{}", link.split('<').next().unwrap());
        // Recorded before the rule was added.
        recorded(&world, &machine, [failure(&mut chain)]).await;
        world.advance(Duration::from_secs(1));
        let rule = add(&world, &person, json!({ "name": "Failures", "tone": "failed" })).await;

        recorded(&world, &other, [failure(&mut others)]).await;
        recorded(&world, &machine, [success(&mut chain)]).await;
        let first = failure(&mut chain);
        recorded(&world, &machine, [first.clone()]).await;
        let text = mail(&world, "Failures: 1 event", 1).await;
        for part in ["llm.failed, failed", "Model calls", "svc-cli", first["event_id"].as_str().unwrap(), "/account/rules"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("recipe") && !text.contains("overloaded"), "{text}");
        let received = receiver.wait("ok", 1).await[0].json();
        assert_eq!(received["type"], "rule.matched");
        let data = &received["data"];
        assert_eq!((&data["rule_id"], &data["events"], &data["event_id"], &data["tone"]), (&rule["id"], &json!(1), &first["event_id"], &json!("failed")));
        assert_eq!((&data["machine_uuid"], &data["value"]), (&json!(machine.uuid), &Value::Null));

        // A flood within the hour.
        let flood: Vec<Value> = (0..30).map(|_| failure(&mut chain)).collect();
        recorded(&world, &machine, flood).await;
        counted(&world, &person, 30).await;
        assert_eq!((mails(&world, "Failures").len(), receiver.at("ok").len()), (1, 1));
        let world = world.restart().await;
        world.advance(HOUR);
        let text = mail(&world, "Failures: 30 events", 1).await;
        assert!(text.contains("30 events matched your rule"), "{text}");
        assert_eq!(receiver.wait("ok", 2).await[1].json()["data"]["events"], 30);
        let document = world.get(&link, &Credential::None).await;
        let feed = String::from_utf8_lossy(&document.body).into_owned();
        assert!(feed.contains("Failures: 30 events matched") && feed.contains("Failures: an event matched"), "{feed}");
        assert!(!feed.contains("recipe"), "{feed}");
        assert!(world.mails_to("bob@example.com").iter().all(|mail| !mail.contains("Failures")));
        let listed = world.get(RULES, &person.cookie).await.expect(200)["rules"][0].clone();
        assert_eq!((&listed["waiting_events"], listed["last_message_at"].is_string()), (&json!(0), true));
    }

    async fn the_digest_counts_a_week_and_reports_silence_once(world: World) {
        let world = notifying(world).await;
        let person = world.person(ADA).await;
        let machine = world.attached_machine(&person).await;
        let mut chain = Chain::of_agent(&machine, "codex");
        recorded(&world, &machine, [run(&mut chain, "Old", "old", true)]).await;
        assert_eq!(digest(&world, &person.cookie, false).await.expect(200), json!({ "enabled": false, "next_at": null }));
        let on = digest(&world, &person.cookie, true).await.expect(200);
        assert_eq!(on["enabled"], true);
        // The reader knows the earlier events now.
        add(&world, &person, json!({ "name": "Any tool", "lane": "skill", "notify": false })).await;
        world.advance(Duration::from_secs(1));
        recorded(&world, &machine, [run(&mut chain, "Old", "old", true)]).await;
        mail(&world, "Any tool: 1 event", 1).await;
        recorded(&world, &machine, [run(&mut chain, "Bash", "shop", false), run(&mut chain, "Bash", "shop", true)]).await;
        counted(&world, &person, 2).await;
        let held = chain.peek_with(|event| event["event_type"] = json!("memory.dreamt"));
        world.event(&machine, &held).await.held("unknown_event_type");
        let to_monday = async |world: &World| {
            let now = world.clock().now();
            world.advance((next_digest_after(now) - now + TimeDelta::seconds(1)).to_std().unwrap());
            // A session that is not used ends after a week.
            world.person(ADA).await
        };
        to_monday(&world).await;
        let text = mail(&world, "Your week: 3 events, 1 failed", 1).await;
        for part in [
            "      3  codex",
            "      3  Tools",
            "      1  failed",
            "      1  held",
            "Tools for the first time: Bash",
            "Projects for the first time: shop",
            "Switch it off",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("recipe") && !text.contains("Computers for the first time"), "{text}");
        to_monday(&world).await;
        let text = mail(&world, "Your week: nothing was recorded", 1).await;
        assert!(text.contains("Switch it off"), "{text}");
        for _ in 0..2 {
            let person = to_monday(&world).await;
            let next = next_digest_after(world.clock().now());
            eventually("the next digest has its time", async || {
                let list = world.get(RULES, &person.cookie).await.expect(200);
                (list["digest"]["next_at"].as_str()? == domain::clock::date_time(next)).then_some(())
            })
            .await;
        }
        assert_eq!(mails(&world, "Your week").len(), 2, "silence is told once");
        let person = world.person(ADA).await;
        digest(&world, &person.cookie, false).await.expect(200);
        recorded(&world, &machine, [run(&mut chain, "Bash", "shop", false)]).await;
        to_monday(&world).await;
        mail(&world, "Any tool", 3).await;
        assert_eq!(mails(&world, "Your week").len(), 2, "it is off");
    }
}

/// The event `llm.completed`.
fn success(chain: &mut Chain) -> Value {
    chain.next_with(|event| {
        event["event_type"] = json!("llm.completed");
        event["lane"] = json!("llm");
        event["payload"] = json!({ "model": "m" });
    })
}

on_sqlite! {
    async fn a_value_is_new_once(world: World) {
        let world = notifying(world).await;
        let person = world.person(ADA).await;
        let machine = world.attached_machine(&person).await;
        let mut chain = Chain::new(&machine);
        recorded(&world, &machine, [run(&mut chain, "Bash", "shop", true)]).await;
        world.advance(Duration::from_secs(1));
        for (name, novelty) in [("New tool", "tool"), ("New project", "project"), ("New computer", "computer")] {
            add(&world, &person, json!({ "name": name, "first_time": novelty, "notify": false })).await;
        }
        recorded(&world, &machine, [run(&mut chain, "Bash", "shop", true), run(&mut chain, "curl", "shop", true)]).await;
        let text = mail(&world, "New tool: 1 event", 1).await;
        assert!(text.contains("New tool:     curl"), "{text}");
        let second = world.attached_machine(&person).await;
        recorded(&world, &second, [run(&mut Chain::new(&second), "curl", "blog", true)]).await;
        let text = mail(&world, "New project: 1 event", 1).await;
        assert!(text.contains("New project:  blog"), "{text}");
        mail(&world, "New computer: 1 event", 1).await;
        world.advance(HOUR);
        recorded(&world, &machine, [run(&mut chain, "curl", "blog", true), run(&mut chain, "Write", "blog", true)]).await;
        let text = mail(&world, "New tool: 1 event", 2).await;
        assert!(text.contains("New tool:     Write"), "{text}");
        assert_eq!((mails(&world, "New project").len(), mails(&world, "New computer").len()), (1, 1));
    }

    async fn rules_are_added_listed_limited_and_deleted(world: World) {
        let world = world.restart_with(|settings| settings.rules.per_account_max = 2).await;
        let (person, stranger) = (world.person(ADA).await, world.person("bob@example.com").await);
        let refused = async |rule: Value, path: &str| {
            let refused = world.post(RULES, &person.cookie, &rule).await.refused(400, "invalid_request");
            assert_eq!(refused["issues"][0]["path"], path, "{rule}: {refused}");
        };
        refused(json!({ "name": "x" }), "rule").await;
        refused(json!({ "name": "x", "lane": "llm", "mail": false, "notify": false }), "rule").await;
        refused(json!({ "name": "x", "lane": "llm", "at_least": 1 }), "rule").await;
        refused(json!({ "name": " ", "lane": "llm" }), "name").await;
        refused(json!({ "name": "x", "event_type": "*" }), "event_type").await;
        for wrong in [json!({ "lane": "llm" }), json!({ "name": "x", "lane": "cooking" }), json!({ "name": "x", "first_time": "host" }), json!({ "name": "x", "extra": 1 })] {
            world.post(RULES, &person.cookie, &wrong).await.refused(400, "invalid_request");
        }
        let rule = json!({ "name": "Many blocked", "event_type": "security.*", "lane": "security", "tone": "blocked", "first_time": "computer",
            "at_least": 5, "mail": false, "notify": true });
        let made = add(&world, &person, rule.clone()).await;
        for (member, value) in rule.as_object().unwrap() {
            assert_eq!(&made[member], value, "{member}");
        }
        assert_eq!((&made["waiting_events"], &made["last_message_at"]), (&json!(0), &Value::Null));
        let second = add(&world, &person, json!({ "name": "Two", "lane": "llm" })).await;
        assert_eq!((&second["mail"], &second["notify"], &second["tone"]), (&json!(true), &json!(true), &Value::Null));
        world.post(RULES, &person.cookie, &rule).await.refused(409, "too_many_rules");
        let list = world.get(RULES, &person.cookie).await.expect(200);
        assert_eq!(list, json!({ "rules": [made, second], "digest": { "enabled": false, "next_at": null } }));
        // An agent with the right to read does not add one.
        let agent = world.agent_of(&person).await;
        world.post(RULES, &agent.token, &rule).await.refused(401, "unauthorized");
        let path = format!("{RULES}/{}", made["id"].as_str().unwrap());
        world.delete(&path, &stranger.cookie).await.refused(404, "not_found");
        world.delete(&format!("{RULES}/nonsense"), &person.cookie).await.refused(404, "not_found");
        assert_eq!(world.delete(&path, &person.cookie).await.expect(200), json!({ "ok": true }));
        world.delete(&path, &person.cookie).await.refused(404, "not_found");
        assert_eq!(world.get(RULES, &stranger.cookie).await.expect(200)["rules"], json!([]));
    }

    async fn a_number_of_events_within_an_hour_is_told(world: World) {
        let world = notifying(world).await;
        let person = world.person(ADA).await;
        let machine = world.attached_machine(&person).await;
        let mut chain = Chain::new(&machine);
        add(&world, &person, json!({ "name": "Many", "event_type": "llm.*", "at_least": 3, "notify": false })).await;
        add(&world, &person, json!({ "name": "Each", "event_type": "llm.*", "notify": false })).await;
        recorded(&world, &machine, [failure(&mut chain), failure(&mut chain)]).await;
        mail(&world, "Each: ", 1).await;
        world.advance(HOUR);
        recorded(&world, &machine, [failure(&mut chain), failure(&mut chain)]).await;
        mail(&world, "Each: ", 2).await;
        assert_eq!(mails(&world, "Many").len(), 0, "never three within an hour");
        recorded(&world, &machine, [failure(&mut chain)]).await;
        mail(&world, "Many: 3 events", 1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_and_a_digest_are_delivered_through_a_mail_server() {
    let Some(server) = MailServer::start(Setup::default()) else { return };
    let url = server.url();
    let world = World::with(over(url)).await;
    let person = world.person(ADA).await;
    let machine = world.attached_machine(&person).await;
    digest(&world, &person.cookie, true).await.expect(200);
    add(&world, &person, json!({ "name": "Failures", "tone": "failed" })).await;
    recorded(&world, &machine, [failure(&mut Chain::new(&machine))]).await;
    let received = async |part: &str| {
        eventually(part, async || server.mails().into_iter().find(|mail| mail.to == [ADA] && mail.data.contains(part)))
            .await
    };
    let message = received("matched your rule").await;
    assert!(message.data.contains("Auto-Submitted: auto-generated"), "{}", message.data);
    let now = world.clock().now();
    world.advance((next_digest_after(now) - now).to_std().unwrap());
    received("Subject: Your week: 1 event, 1 failed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_nodes_one_sends_each_message() {
    let Some(server) = MailServer::start(Setup::default()) else { return };
    let Some(world) = World::on_postgres().await else { return };
    let world = world.restart_with(over(server.url())).await;
    let other = world.beside().await;
    let person = world.person(ADA).await;
    let machine = world.attached_machine(&person).await;
    let mut chain = Chain::new(&machine);
    digest(&other, &person.cookie, true).await.expect(200);
    add(&other, &person, json!({ "name": "Failures", "tone": "failed", "notify": false })).await;
    for number in 0..6 {
        let node = if number % 2 == 0 { &world } else { &other };
        recorded(node, &machine, [failure(&mut chain)]).await;
    }
    let sent =
        || server.mails().into_iter().filter(|mail| mail.data.contains("Subject: Failures: ")).collect::<Vec<_>>();
    let first = eventually("the first message", async || sent().into_iter().next()).await;
    let (_, rest) = first.data.split_once("Subject: Failures: ").unwrap();
    let told: u64 = rest.split(' ').next().unwrap().parse().unwrap();
    counted(&world, &person, 6 - told).await;
    // The remaining node signs the log and continues.
    world.server.stop().await;
    recorded(&other, &machine, [failure(&mut chain)]).await;
    counted(&other, &person, 7 - told).await;
    other.advance(HOUR);
    eventually("the rest", async || (sent().len() == 2).then_some(())).await;
    assert!(sent()[1].data.contains(&format!("Subject: Failures: {} event", 7 - told)), "{:?}", sent()[1].data);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_external_statistics_service_refuses_rules() {
    let upstream = Upstream::start().await;
    let world = World::over(&upstream, |_| {}).await;
    let person = world.person(ADA).await;
    let refused = world.post(RULES, &person.cookie, &json!({ "name": "x", "lane": "llm" })).await;
    assert_eq!(refused.refused(501, "embedded_log_required")["reason"], "external_statistics_service");
    digest(&world, &person.cookie, true).await.refused(501, "embedded_log_required");
    assert_eq!(digest(&world, &person.cookie, false).await.expect(200)["enabled"], false);
    assert_eq!(world.get(RULES, &person.cookie).await.expect(200)["rules"], json!([]));
    let page = Browser::of(&world, &person).get("/account/rules").await;
    assert!(page.page(200).contains("This server does not have the recorded events"), "{page:?}");
}
